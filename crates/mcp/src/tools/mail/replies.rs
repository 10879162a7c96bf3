//! `check_reply`, `await_reply`: what came back.

use std::future::Future;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use trl_protocol::mail::{AwaitParams, AwaitedReply, CheckParams, CheckedReply, Message};
use trl_protocol::{Fault, methods};

use super::inbox::{how_to_acknowledge, short_enough};
use crate::letters::framed;
use crate::toolbox::{Call, Hints, Spec};

/// How long a reply is waited for unless a call says so.
pub(super) const WAIT_S: f64 = 30.0;

pub(crate) struct CheckReply;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckArgs {
    /// Of a message you sent
    message_id: String,
}

impl Spec for CheckReply {
    const NAME: &'static str = "check_reply";
    const ABOUT: &'static str = "See whether a message you sent has been answered.";
    const HINTS: Hints = Hints::ReadOnly;
    const OPEN_WORLD: bool = true;
    type Args = CheckArgs;
    type Answer = CheckedReply;

    async fn call(args: CheckArgs, call: Call) -> Result<(String, CheckedReply), Fault> {
        let params = CheckParams { message_id: args.message_id, peek: true, as_token: None };
        let checked: CheckedReply = call.guest.mail::<methods::MailCheckReply>(params, None).await?;
        let checked = CheckedReply { reply: checked.reply.map(short_enough) };
        let text = match &checked.reply {
            Some(reply) => shown(reply),
            None => "(no reply yet)".to_owned(),
        };
        Ok((text, checked))
    }
}

pub(crate) struct AwaitReply;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AwaitArgs {
    /// Of a message you sent
    message_id: String,
    /// Default 30
    #[serde(default)]
    timeout_s: Option<f64>,
}

impl Spec for AwaitReply {
    const NAME: &'static str = "await_reply";
    const ABOUT: &'static str = "Wait for the reply to a message you sent.";
    const HINTS: Hints = Hints::ReadOnly;
    const OPEN_WORLD: bool = true;
    type Args = AwaitArgs;
    type Answer = AwaitedReply;

    async fn call(args: AwaitArgs, call: Call) -> Result<(String, AwaitedReply), Fault> {
        let AwaitArgs { message_id, timeout_s } = args;
        let timeout_s = Some(timeout_s.unwrap_or(WAIT_S));
        let params = AwaitParams { message_id, timeout_s, peek: true, as_token: None };
        heard(call.guest.mail::<methods::MailAwaitReply>(params, None), &call.ct).await
    }
}

/// As in the inbox: the reply counts as read once the model has named it.
fn shown(reply: &Message) -> String {
    let one = std::slice::from_ref(reply);
    format!("{}\n\n[{}]", framed(one), how_to_acknowledge(one))
}

pub(super) async fn heard(
    asked: impl Future<Output = Result<AwaitedReply, Fault>>,
    ct: &CancellationToken,
) -> Result<(String, AwaitedReply), Fault> {
    let heard = tokio::select! {
        heard = asked => heard?,
        () = ct.cancelled() => return Err(Fault::internal("cancelled by the client")),
    };
    let heard = AwaitedReply { reply: heard.reply.map(short_enough), ..heard };
    let text = match (&heard.reply, heard.failed) {
        (Some(reply), _) => shown(reply),
        (None, Some(reason)) => {
            let reason = serde_json::to_value(reason).unwrap_or_default();
            format!("[{} was not delivered: {}]", heard.message_id, reason.as_str().unwrap_or_default())
        }
        (None, None) => format!("[no reply to {} yet; await_reply continues to wait]", heard.message_id),
    };
    Ok((text, heard))
}
