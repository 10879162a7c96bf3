//! `trl agent`: the agents of this daemon and where they are.

use trl_protocol::agent::{AgentList, CreateParams, Created, Policy, Sessions, SessionsParams};
use trl_protocol::system::NoParams;

use crate::context::Context;
use crate::failure::Result;
use crate::human;
use crate::identity::Who;
use crate::output;
use crate::table::{Keep, Table};

/// Make and show agents, who can write to each other
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make an agent
    Create {
        /// Letters, digits, `.`, `_` and `-`; 32 at most
        name: String,
        /// Where mail goes that names no session
        #[arg(long, value_enum)]
        policy: Option<Untargeted>,
    },
    /// List the agents
    #[command(visible_alias = "ls")]
    List,
    /// List the live sessions of an agent
    Sessions {
        #[command(flatten)]
        who: Who,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Untargeted {
    /// To the session with the lowest label
    Primary,
    /// To every live session
    Broadcast,
    /// Back to the sender
    Drop,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    match &args.action {
        Action::Create { name, policy } => create(name, *policy, context).await,
        Action::List => list(context).await,
        Action::Sessions { who } => sessions(who, context).await,
    }
}

async fn create(name: &str, policy: Option<Untargeted>, context: &Context) -> Result<u8> {
    let policy = policy.map(|policy| match policy {
        Untargeted::Primary => Policy::Primary,
        Untargeted::Broadcast => Policy::Broadcast,
        Untargeted::Drop => Policy::Drop,
    });
    let params = CreateParams { name: name.to_owned(), policy };
    let made: Created = context.client().await?.request("agent.create", params).await?;
    if context.output.json {
        context.output.json(&made)?;
    } else {
        context.output.line(&made.address)?;
    }
    Ok(0)
}

async fn list(context: &Context) -> Result<u8> {
    let list: AgentList = context.client().await?.request("agent.list", NoParams {}).await?;
    let output = context.output;
    if output.json {
        output.json(&list)?;
        return Ok(0);
    }
    if list.agents.is_empty() {
        output::note("no agents; `trl agent create NAME` makes one");
        return Ok(0);
    }
    let mut table = Table::new(&["AGENT", "ADDRESS", "SESSIONS"], "SESSIONS", Keep::Start);
    for row in list.agents {
        let sessions =
            if row.live_sessions.is_empty() { "-".to_owned() } else { row.live_sessions.join(" ") };
        table.row(vec![row.agent, row.address, sessions]);
    }
    output.text(&table.render(output::terminal_width(), output.paint))?;
    Ok(0)
}

async fn sessions(who: &Who, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let agent = Some(who.name(&client).await?);
    let found: Sessions = client.request("agent.sessions", SessionsParams { agent, as_token: None }).await?;
    let output = context.output;
    if output.json {
        output.json(&found)?;
        return Ok(0);
    }
    if found.sessions.is_empty() {
        output::note("no live sessions; mail waits until there is one");
        return Ok(0);
    }
    let home = human::home_dir();
    let dash = || "-".to_owned();
    let mut table = Table::new(&["LABEL", "PID", "CWD", "SEEN", "AGE"], "CWD", Keep::End);
    for row in found.sessions {
        table.row(vec![
            row.label,
            row.pid.map_or_else(dash, |pid| pid.to_string()),
            row.cwd.map_or_else(dash, |cwd| human::path(&cwd, home.as_deref())),
            human::ago(&row.last_seen),
            human::age_of(&row.started_at),
        ]);
    }
    output.text(&table.render(output::terminal_width(), output.paint))?;
    Ok(0)
}
