//! `trl reply`: an answer to a message of the inbox, to the session that asked.

use trl_protocol::mail::ReplyParams;
use trl_protocol::methods;

use crate::context::Context;
use crate::failure::Result;
use crate::identity::{Who, explained};
use crate::letter;
use crate::verbs::send;

/// Reply to a message in the inbox
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    who: Who,
    /// As printed by `trl inbox`
    #[arg(value_name = "MESSAGE_ID")]
    message: String,
    /// The text; `-` reads stdin
    #[arg(value_name = "TEXT|-")]
    text: String,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let text = letter::text(&args.text)?;
    let client = context.client().await?;
    let mut speaks = args.who.speak(&client).await?;
    let params =
        ReplyParams { message_id: args.message.clone(), text: text.into(), ..ReplyParams::default() };
    let sent = speaks.call::<methods::MailReply>(&params).await.map_err(explained)?;
    send::told(&sent, context)
}
