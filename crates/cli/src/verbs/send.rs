//! `trl send`: a message to another agent, and its reply if that is waited for.

use std::ffi::OsString;
use std::time::Instant;

use trl_client::{Client, Conversation};
use trl_protocol::mail::{AwaitParams, AwaitedReply, SendParams, Sent};
use trl_protocol::methods;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::identity::{TRY_AGAIN, Who, explained, is_replaced};
use crate::verbs::sent::why;
use crate::{letter, output};

/// What `timeout` of coreutils ends with.
const TIMED_OUT: u8 = 124;
const DEFAULT_WAIT: &str = "--wait=60";

/// Send a message to an agent
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    who: Who,
    /// An agent's name or address; NAME/LABEL names one of its sessions
    #[arg(value_name = "TO")]
    to: String,
    /// The text; `-` reads stdin
    #[arg(value_name = "TEXT|-")]
    text: String,
    /// To this session of the agent only
    #[arg(long, value_name = "LABEL")]
    to_session: Option<String>,
    /// Wait this long for the reply and print it; exit with 124 on timeout. Without a number: 60
    #[arg(long, value_name = "SECONDS", visible_alias = "timeout", overrides_with = "wait")]
    wait: Option<f64>,
    /// The message that this answers; `trl reply` also sends it to where that came from
    #[arg(long, value_name = "MESSAGE_ID")]
    in_reply_to: Option<String>,
    /// Who sends it: `user` for a person, `agent` (the default) for a program
    #[arg(long, value_name = "ROLE")]
    role: Option<String>,
    /// The message fails if it is not read in this time; default: a week
    #[arg(long, value_name = "SECONDS")]
    expires: Option<f64>,
    /// An id for this message; a second send with the same id sends nothing
    #[arg(long, value_name = "ID")]
    send_id: Option<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    if let Some(wait) = args.wait.filter(|wait| !(wait.is_finite() && *wait >= 0.0)) {
        return Err(Failure::usage(format!("--wait {wait}: give seconds, 0 or more")));
    }
    let text = letter::text(&args.text)?;
    let client = context.client().await?;
    let mut speaks = args.who.speak(&client).await?;
    let mut attempts = 3;
    let letter = SendParams {
        to: args.to.clone(),
        text: text.into(),
        to_session: args.to_session.clone(),
        in_reply_to: args.in_reply_to.clone(),
        role: args.role.clone(),
        expires_s: args.expires,
        send_id: Some(args.send_id.clone().map_or_else(random_id, Ok)?),
        ..SendParams::default()
    };
    let sent = loop {
        match speaks.call::<methods::MailSend>(&letter).await {
            Ok(sent) => break sent,
            // It may have been stored all the same; under the same id it is not sent twice.
            Err(error) if is_replaced(&error) && attempts > 0 => attempts -= 1,
            Err(error) => return Err(explained(error)),
        }
        speaks = args.who.speak_again(&client).await?;
    };
    let Some(wait) = args.wait else { return told(&sent, context) };
    let id = sent.message_id;
    let heard = hear(&args.who, &client, speaks, &id, wait)
        .await
        .map_err(|error| error.hint(format!("{id} was sent: `trl sent {id}` shows its state")))?;
    show(&heard, context)
}

fn random_id() -> Result<String> {
    let random = getrandom::u64().map_err(|error| Failure::system("getting random bytes", error))?;
    Ok(format!("cli-{random:016x}"))
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

/// Asked apart from the sending, so that an interrupted wait never sends twice: a daemon that is
/// replaced meanwhile has stored what was sent, and the next one is asked for the rest of the time.
async fn hear(
    who: &Who,
    client: &Client,
    mut speaks: Conversation<'_>,
    message_id: &str,
    wait: f64,
) -> Result<AwaitedReply> {
    let begun = Instant::now();
    loop {
        let left = (wait - begun.elapsed().as_secs_f64()).max(0.0);
        let params = AwaitParams {
            message_id: message_id.to_owned(),
            timeout_s: Some(left),
            ..AwaitParams::default()
        };
        match speaks.call::<methods::MailAwaitReply>(&params).await {
            Ok(heard) => return Ok(heard),
            Err(error) if is_replaced(&error) && left > 0.0 => {}
            Err(error) => return Err(explained(error)),
        }
        speaks = loop {
            match who.speak(client).await {
                Ok(speaks) => break speaks,
                Err(_) if begun.elapsed().as_secs_f64() < wait => tokio::time::sleep(TRY_AGAIN).await,
                Err(error) => return Err(error),
            }
        };
    }
}

fn show(heard: &AwaitedReply, context: &Context) -> Result<u8> {
    let status = if heard.reply.is_some() { 0 } else { TIMED_OUT };
    if context.output.json && heard.failed.is_none() {
        context.output.json(heard)?;
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

/// `--wait` alone waits a minute; clap by itself would take the word after it for the seconds.
pub(crate) fn with_default_wait(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_number = |arg: &OsString| arg.to_str().is_some_and(|text| text.parse::<f64>().is_ok());
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    for at in 0..end {
        if args[at] == "--wait" && !args.get(at + 1).is_some_and(is_number) {
            args[at] = DEFAULT_WAIT.into();
        }
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_wait_is_a_minute() {
        for (line, expected) in [
            ("trl send --wait bob hi", "trl send --wait=60 bob hi"),
            ("trl send bob hi --wait", "trl send bob hi --wait=60"),
            ("trl send --wait 5 bob hi", "trl send --wait 5 bob hi"),
            ("trl send --wait=5 bob hi", "trl send --wait=5 bob hi"),
            ("trl send bob -- --wait", "trl send bob -- --wait"),
            ("trl send --wait --timeout 5 bob hi", "trl send --wait=60 --timeout 5 bob hi"),
        ] {
            let words = with_default_wait(line.split(' ').map(OsString::from).collect());
            assert_eq!(words.join(std::ffi::OsStr::new(" ")), OsString::from(expected));
        }
    }
}
