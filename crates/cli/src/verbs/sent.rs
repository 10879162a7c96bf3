//! `trl sent`: what became of a message.

use trl_protocol::mail::{FailReason, MessageParams, State};
use trl_protocol::methods;

use crate::context::Context;
use crate::failure::Result;
use crate::human;
use crate::identity::Who;
use crate::table::{Keep, Table};

/// Show the state of a sent message
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    who: Who,
    /// As printed by `trl send`
    #[arg(value_name = "MESSAGE_ID")]
    message: String,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let mut line = args.who.speak(&client).await?;
    let params = MessageParams { message_id: args.message.clone(), as_token: None };
    let status = line.call::<methods::MailStatus>(&params).await?;
    let output = context.output;
    if output.json {
        output.json(&status)?;
        return Ok(0);
    }
    let mut table = Table::new(&["STATE", "WHEN", "WHY"], "WHY", Keep::Start);
    for row in status.history {
        let why = row.reason.map_or_else(String::new, |reason| why(reason).to_owned());
        table.row(vec![word(row.state).to_owned(), human::ago(&row.at), why]);
    }
    output.text(&table.render(crate::output::terminal_width(), output.paint))?;
    Ok(0)
}

fn word(state: State) -> &'static str {
    match state {
        State::Queued => "queued",
        State::Sealed => "sealed",
        State::Relayed => "relayed",
        State::Delivered => "delivered",
        State::Held => "held",
        State::Routed => "routed",
        State::Offered => "offered",
        State::Read => "read",
        State::Replied => "replied",
        State::Failed => "failed",
    }
}

pub(crate) fn why(reason: FailReason) -> &'static str {
    match reason {
        FailReason::UnknownRecipient => "no agent has this address",
        FailReason::NotContact => "you are no contact of theirs; `trl contacts request` asks",
        FailReason::Blocked => "they block you",
        FailReason::MailboxFull => "their mailbox is full",
        FailReason::TooLarge => "it is too large",
        FailReason::RateLimited => "too many in a short time",
        FailReason::Expired => "it expired unread",
        FailReason::SessionClosed => "that session is over",
        FailReason::Dropped => "they take no mail that names no session",
        FailReason::Undecryptable => "they could not decrypt it",
    }
}
