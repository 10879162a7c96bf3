//! `send`, `send_and_wait`, `auto_reply`: messages to other agents.

use schemars::JsonSchema;
use serde::Deserialize;
use trl_protocol::mail::{AwaitedReply, ReplyParams, SendAndWaitParams, SendParams, Sent};
use trl_protocol::{Fault, methods};

use super::replies;
use crate::toolbox::{Call, Hints, Spec};

pub(crate) struct Send;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendArgs {
    /// Agent's name or address; name/label is one session of it
    to: String,
    text: String,
    /// Label of one session of the agent
    #[serde(default)]
    to_session: Option<String>,
    /// message_id that this answers
    #[serde(default)]
    in_reply_to: Option<String>,
    /// Which of this machine's agents you are, if there are several
    #[serde(default, rename = "as")]
    agent: Option<String>,
}

impl Spec for Send {
    const NAME: &'static str = "send";
    const ABOUT: &'static str = "Send an end-to-end encrypted message to another agent. It is stored until read; \
        its answer comes to your inbox.";
    const HINTS: Hints = Hints::Adds { idempotent: false };
    const OPEN_WORLD: bool = true;
    type Args = SendArgs;
    type Answer = Sent;

    async fn call(args: SendArgs, call: Call) -> Result<(String, Sent), Fault> {
        let who = args.agent.as_deref();
        let to = match (&args.to_session, args.to.contains('/')) {
            (Some(label), false) => format!("{}/{label}", args.to),
            _ => args.to.clone(),
        };
        let text = args.text.into();
        let unless_sent_within_s = Some(REPEATED_WITHIN_S);
        let sent: Sent = match args.in_reply_to.filter(|id| !id.is_empty()) {
            // Refuses an id of no message, and counts the answered one as read.
            Some(message_id) => {
                let params = ReplyParams {
                    message_id,
                    text,
                    to: Some(to),
                    unless_sent_within_s,
                    ..ReplyParams::default()
                };
                call.guest.mail::<methods::MailReply>(params, who).await?
            }
            None => {
                let params = SendParams { to, text, unless_sent_within_s, ..SendParams::default() };
                call.guest.mail::<methods::MailSend>(params, who).await?
            }
        };
        Ok((told(&sent), sent))
    }
}

/// A client that lost a result tries again, and a model that does so writes the same words: within this time
/// they are a repetition, not a second message.
const REPEATED_WITHIN_S: f64 = 120.0;

fn told(sent: &Sent) -> String {
    if sent.duplicate {
        return format!(
            "[{} was sent a moment ago with the same text, and is not sent twice; change the text to send another]",
            sent.message_id
        );
    }
    let state = serde_json::to_value(sent.state).unwrap_or_default();
    format!("[{} is {}, sent as {}]", sent.message_id, state.as_str().unwrap_or_default(), sent.from_session)
}

pub(crate) struct SendAndWait;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SendAndWaitArgs {
    /// Agent's name or address; name/label is one session of it
    to: String,
    text: String,
    #[serde(default)]
    to_session: Option<String>,
    /// Default 30
    #[serde(default)]
    timeout_s: Option<f64>,
}

impl Spec for SendAndWait {
    const NAME: &'static str = "send_and_wait";
    const ABOUT: &'static str =
        "Send a message and wait for its reply. Without one in time, await_reply continues to wait.";
    const HINTS: Hints = Hints::Adds { idempotent: false };
    const OPEN_WORLD: bool = true;
    type Args = SendAndWaitArgs;
    type Answer = AwaitedReply;

    async fn call(args: SendAndWaitArgs, call: Call) -> Result<(String, AwaitedReply), Fault> {
        let timeout_s = args.timeout_s.unwrap_or(replies::WAIT_S);
        let params = SendAndWaitParams {
            to: args.to,
            text: args.text.into(),
            to_session: args.to_session,
            timeout_s: Some(timeout_s),
            peek: true,
            unless_sent_within_s: Some(REPEATED_WITHIN_S),
            ..SendAndWaitParams::default()
        };
        let asked = call.guest.mail::<methods::MailSendAndWait>(params, None);
        replies::heard(asked, &call.ct).await
    }
}

pub(crate) struct AutoReply;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AutoReplyArgs {
    /// Of a message in your inbox
    message_id: String,
    text: String,
}

impl Spec for AutoReply {
    const NAME: &'static str = "auto_reply";
    const ABOUT: &'static str = "Answer a message of your inbox without your user having asked: marked automatic, so that no agent answers it by itself.";
    const HINTS: Hints = Hints::Adds { idempotent: false };
    const OPEN_WORLD: bool = true;
    type Args = AutoReplyArgs;
    type Answer = Sent;

    async fn call(args: AutoReplyArgs, call: Call) -> Result<(String, Sent), Fault> {
        let params = ReplyParams {
            message_id: args.message_id,
            text: args.text.into(),
            auto: Some(true),
            unless_sent_within_s: Some(REPEATED_WITHIN_S),
            ..ReplyParams::default()
        };
        let sent: Sent = call.guest.mail::<methods::MailReply>(params, None).await?;
        Ok((told(&sent), sent))
    }
}
