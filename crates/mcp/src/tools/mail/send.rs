//! `send`, `send_and_wait`, `auto_reply`: messages to other agents.

use schemars::JsonSchema;
use serde::Deserialize;
use trl_protocol::Fault;
use trl_protocol::mail::{AwaitedReply, ReplyParams, SendAndWaitParams, SendParams, Sent};

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
    const NEEDS: &'static [&'static str] = &["mail.send", "agent.use"];
    type Args = SendArgs;
    type Answer = Sent;

    async fn call(args: SendArgs, call: Call) -> Result<(String, Sent), Fault> {
        let params = SendParams {
            to: args.to,
            text: args.text.into(),
            to_session: args.to_session,
            in_reply_to: args.in_reply_to,
            ..SendParams::default()
        };
        let sent: Sent = call.guest.mail("mail.send", params, args.agent.as_deref()).await?;
        Ok((told(&sent), sent))
    }
}

fn told(sent: &Sent) -> String {
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
        "Send a message and wait for its reply. Without one in time, await_reply goes on waiting.";
    const HINTS: Hints = Hints::Adds { idempotent: false };
    const OPEN_WORLD: bool = true;
    const NEEDS: &'static [&'static str] = &["mail.send_and_wait", "agent.use"];
    type Args = SendAndWaitArgs;
    type Answer = AwaitedReply;

    async fn call(args: SendAndWaitArgs, call: Call) -> Result<(String, AwaitedReply), Fault> {
        let params = SendAndWaitParams {
            to: args.to,
            text: args.text.into(),
            to_session: args.to_session,
            timeout_s: Some(args.timeout_s.unwrap_or(replies::WAIT_S)),
            ..SendAndWaitParams::default()
        };
        let asked = call.guest.mail("mail.send_and_wait", params, None);
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
    const NEEDS: &'static [&'static str] = &["mail.reply", "agent.use"];
    type Args = AutoReplyArgs;
    type Answer = Sent;

    async fn call(args: AutoReplyArgs, call: Call) -> Result<(String, Sent), Fault> {
        let params = ReplyParams {
            message_id: args.message_id,
            text: args.text.into(),
            auto: Some(true),
            as_token: None,
        };
        let sent: Sent = call.guest.mail("mail.reply", params, None).await?;
        Ok((told(&sent), sent))
    }
}
