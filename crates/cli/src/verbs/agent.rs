//! `trl agent`: the agents of this daemon and where they are.

use trl_protocol::agent::{CallerParams, CreateParams, Policy, Sessions, SessionsParams, UseParams, Whoami};
use trl_protocol::methods;
use trl_protocol::system::NoParams;

use crate::context::Context;
use crate::failure::Result;
use crate::human;
use crate::identity::Who;
use crate::output;
use crate::table::{Keep, Table};
use crate::verbs::{assign, autorespond};

/// Create and show agents, which can send each other messages
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Create an agent
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
    /// Act for this agent in this terminal from now on, or in this session of trl
    Use {
        /// Its name or address
        name: String,
        /// The label to have, if no live session holds it [env: TRL_LABEL]
        #[arg(long)]
        label: Option<String>,
        /// Take the mail that names no session, whatever other labels there are
        #[arg(long)]
        primary: bool,
    },
    /// Show the current agent of this terminal
    Whoami {
        #[command(flatten)]
        who: Who,
    },
    /// List the live sessions of an agent
    Sessions {
        #[command(flatten)]
        who: Who,
    },
    Autorespond(autorespond::Args),
    Assign(assign::Assign),
    Unassign(assign::Unassign),
    Assignments(assign::List),
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
        Action::Use { name, label, primary } => speak(name, label.clone(), *primary, context).await,
        Action::Whoami { who } => whoami(who, context).await,
        Action::Sessions { who } => sessions(who, context).await,
        Action::Autorespond(args) => autorespond::run(args, context).await,
        Action::Assign(args) => assign::assign(args, context).await,
        Action::Unassign(args) => assign::unassign(args, context).await,
        Action::Assignments(args) => assign::list(args, context).await,
    }
}

async fn create(name: &str, policy: Option<Untargeted>, context: &Context) -> Result<u8> {
    let policy = policy.map(|policy| match policy {
        Untargeted::Primary => Policy::Primary,
        Untargeted::Broadcast => Policy::Broadcast,
        Untargeted::Drop => Policy::Drop,
    });
    let params = CreateParams { name: name.to_owned(), policy };
    let made = context.client().await?.call::<methods::AgentCreate>(&params).await?;
    if context.output.json {
        context.output.json(&made)?;
    } else {
        context.output.line(&made.address)?;
    }
    Ok(0)
}

pub(super) async fn list(context: &Context) -> Result<u8> {
    let list = context.client().await?.call::<methods::AgentList>(&NoParams {}).await?;
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

async fn speak(name: &str, label: Option<String>, primary: bool, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let wishes =
        UseParams { label, primary: primary.then_some(true), usual: Some(true), ..UseParams::default() };
    let used = Who::named(name).claim(&client, wishes).await?.used;
    if context.output.json {
        // The token speaks for this session, and whoever reads our output need not.
        let told = Whoami {
            agent: used.agent,
            address: used.address,
            label: used.label,
            mode: used.mode,
            live_sessions: used.live_sessions,
        };
        context.output.json(&told)?;
        return Ok(0);
    }
    context.output.line(format!("{}/{}", used.agent, used.label))?;
    if let (Some(wished), Some(reason)) = (used.requested.filter(|wished| *wished != used.label), used.reason)
    {
        output::note(&format!("not {wished}: {reason}"));
    }
    Ok(0)
}

async fn whoami(who: &Who, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let mut line = who.speak(&client).await?;
    let found = line.call::<methods::AgentWhoami>(&CallerParams::default()).await?;
    if context.output.json {
        context.output.json(&found)?;
    } else {
        context.output.line(format!("{}/{} {}", found.agent, found.label, found.address))?;
    }
    Ok(0)
}

async fn sessions(who: &Who, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let found: Sessions = match who.given() {
        // Whoever only looks is not there.
        Some(agent) => {
            let params = SessionsParams { agent: Some(agent), as_token: None };
            client.call::<methods::AgentSessions>(&params).await?
        }
        None => who.speak(&client).await?.call::<methods::AgentSessions>(&SessionsParams::default()).await?,
    };
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
            if row.own { format!("{} (you)", row.label) } else { row.label },
            row.pid.map_or_else(dash, |pid| pid.to_string()),
            row.cwd.map_or_else(dash, |cwd| human::path(&cwd, home.as_deref())),
            human::ago(&row.last_seen),
            human::age_of(&row.started_at),
        ]);
    }
    output.text(&table.render(output::terminal_width(), output.paint))?;
    Ok(0)
}
