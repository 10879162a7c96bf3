//! `trl send`: a message to another agent, and its reply if that is waited for.

use trl_client::Conversation;
use trl_protocol::mail::{AwaitParams, AwaitedReply, FailReason, SendParams, Sent};

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::identity::Who;
use crate::{letter, output};

/// What `timeout` of coreutils ends with.
const TIMED_OUT: u8 = 124;

/// Send a message to an agent
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    who: Who,
    /// An agent's name or address; NAME/LABEL names one of its sessions
    #[arg(value_name = "TO")]
    to: String,
    /// What to say; `-` is all of stdin
    #[arg(value_name = "TEXT|-")]
    text: String,
    /// To this session of the agent only
    #[arg(long, value_name = "LABEL")]
    to_session: Option<String>,
    /// Wait so long for the reply and print it; without one, exit with 124
    #[arg(long, value_name = "SECONDS")]
    wait: Option<f64>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    if let Some(wait) = args.wait.filter(|wait| !(wait.is_finite() && *wait >= 0.0)) {
        return Err(Failure::usage(format!("--wait {wait}: give seconds, 0 or more")));
    }
    let text = letter::text(&args.text)?;
    let client = context.client().await?;
    let mut speaks = args.who.speak(&client).await?;
    let params = SendParams {
        to: args.to.clone(),
        text,
        to_session: args.to_session.clone(),
        ..SendParams::default()
    };
    let sent: Sent = speaks.request("mail.send", params).await?;
    match args.wait {
        Some(wait) => hear(&mut speaks, sent, wait, context).await,
        None => told(&sent, context),
    }
}

/// Names what was sent.
pub(crate) fn told(sent: &Sent, context: &Context) -> Result<u8> {
    if context.output.json {
        context.output.json(sent)?;
    } else {
        context.output.line(&sent.message_id)?;
    }
    Ok(0)
}

/// Asked apart from the sending, so that an interrupted wait never sends twice.
async fn hear(speaks: &mut Conversation<'_>, sent: Sent, wait: f64, context: &Context) -> Result<u8> {
    let params = AwaitParams { message_id: sent.message_id, timeout_s: Some(wait), as_token: None };
    let heard: AwaitedReply = speaks.request("mail.await_reply", params).await?;
    let status = if heard.reply.is_some() { 0 } else { TIMED_OUT };
    if context.output.json && heard.failed.is_none() {
        context.output.json(&heard)?;
        return Ok(status);
    }
    match (&heard.reply, heard.failed) {
        (Some(reply), _) => context.output.text(&letter::show(reply, context.output.paint))?,
        (None, Some(reason)) => {
            return Err(Failure::unavailable(format!(
                "{} was not delivered: {}",
                heard.message_id,
                why(reason)
            )));
        }
        (None, None) => {
            output::note(&format!("no reply to {} yet; `trl inbox` shows it when it comes", heard.message_id))
        }
    }
    Ok(status)
}

fn why(reason: FailReason) -> &'static str {
    match reason {
        FailReason::UnknownRecipient => "nobody has this address",
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
