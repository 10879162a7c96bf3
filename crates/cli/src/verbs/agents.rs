//! `trl agents`: the agents of this daemon, or those it can write to and whether they are there.

use trl_protocol::agent::CallerParams;
use trl_protocol::contact::Whereabouts;
use trl_protocol::methods;

use super::agent;
use crate::context::Context;
use crate::failure::Result;
use crate::identity::Who;
use crate::output;
use crate::table::{Keep, Table};

/// List the agents of this machine, or with --remote the contacts of one and who is there
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The contacts of an agent, wherever they are, with their live sessions
    #[arg(long)]
    remote: bool,
    #[command(flatten)]
    who: Who,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    if !args.remote {
        return agent::list(context).await;
    }
    let client = context.client().await?;
    let mut speaks = args.who.speak(&client).await?;
    let list = speaks.call::<methods::ContactPresence>(&CallerParams::default()).await?;
    let output = context.output;
    if output.json {
        output.json(&list)?;
        return Ok(0);
    }
    if list.contacts.is_empty() {
        output::note("no contacts; `trl contacts request ADDRESS` adds one");
        return Ok(0);
    }
    let mut table = Table::new(&["WHO", "THERE", "SESSIONS", "ADDRESS"], "SESSIONS", Keep::Start);
    for row in list.contacts {
        let there = match row.whereabouts {
            Whereabouts::Online => "yes",
            Whereabouts::Away => "no",
            Whereabouts::Unknown => "?",
        };
        let sessions =
            if row.live_sessions.is_empty() { "-".to_owned() } else { row.live_sessions.join(" ") };
        table.row(vec![row.who, there.to_owned(), sessions, row.address]);
    }
    output.text(&table.render(output::terminal_width(), output.paint))?;
    Ok(0)
}
