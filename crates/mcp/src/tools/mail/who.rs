//! `use`, `whoami`, `sessions`, `reset`: which agent the client is, and by which keys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trl_protocol::agent::{
    AssignScope, CallerParams, CreateParams, Mode, Sessions as SessionList, SessionsParams, Used,
    Whoami as Who,
};
use trl_protocol::mail::{Reset as Renewed, ResetParams};
use trl_protocol::{Code, Fault, methods, quote};

use super::assign::told;
use crate::fault;
use crate::toolbox::{Call, Hints, Spec};

pub(crate) struct Use;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UseArgs {
    /// Agent's name
    agent: String,
    /// Wished-for name of this session
    #[serde(default)]
    label: Option<String>,
    /// Make the agent if it does not exist
    #[serde(default)]
    create: bool,
    /// Assign it to this session, or the given scope, so that a resumed session is this agent again
    #[serde(default)]
    remember: Option<Remember>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Remember {
    Yes(bool),
    For(AssignScope),
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Granted {
    agent: String,
    address: String,
    label: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    requested: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    mode: Mode,
    live_sessions: Vec<String>,
}

impl Spec for Use {
    const NAME: &'static str = "use";
    const ABOUT: &'static str =
        "Become a session of one of this machine's agents, to send and read its mail.";
    const HINTS: Hints = Hints::Adds { idempotent: true };
    const OPEN_WORLD: bool = false;
    type Args = UseArgs;
    type Answer = Granted;

    async fn call(args: UseArgs, call: Call) -> Result<(String, Granted), Fault> {
        let guest = &call.guest;
        let used = match guest.become_agent(&args.agent, args.label.clone()).await {
            Err(fault) if fault.code == Code::AgentNotFound && args.create => {
                let params = CreateParams { name: args.agent.clone(), policy: None };
                guest.client.call::<methods::AgentCreate>(&params).await.map_err(fault::of)?;
                guest.become_agent(&args.agent, args.label).await?
            }
            used => used?,
        };
        let remembered = match args.remember {
            Some(Remember::Yes(true)) => Some(guest.assign(&used.agent, None).await?),
            Some(Remember::For(scope)) => Some(guest.assign(&used.agent, Some(scope)).await?),
            Some(Remember::Yes(false)) | None => None,
        };
        let remembered = remembered.map(|made| format!("; remembered: {}", told(&made))).unwrap_or_default();
        let text = format!(
            "[you are {}, session {}; others write to {}/{}{remembered}]",
            used.agent, used.label, used.agent, used.label
        );
        // The token stays here: it would speak for the session.
        let Used { agent, address, label, requested, reason, mode, token: _, live_sessions } = used;
        Ok((text, Granted { agent, address, label, requested, reason, mode, live_sessions }))
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArgs {}

pub(crate) struct Whoami;

impl Spec for Whoami {
    const NAME: &'static str = "whoami";
    const ABOUT: &'static str = "Which agent and session you are in the mail.";
    const HINTS: Hints = Hints::ReadOnly;
    const OPEN_WORLD: bool = false;
    type Args = NoArgs;
    type Answer = Who;

    async fn call(_: NoArgs, call: Call) -> Result<(String, Who), Fault> {
        let who: Who = call.guest.mail::<methods::AgentWhoami>(CallerParams::default(), None).await?;
        Ok((format!("[{}, session {}, address {}]", who.agent, who.label, who.address), who))
    }
}

pub(crate) struct Sessions;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionsArgs {
    /// Another agent of this machine. Default: yourself
    #[serde(default)]
    agent: Option<String>,
}

impl Spec for Sessions {
    const NAME: &'static str = "sessions";
    const ABOUT: &'static str = "List the live sessions of an agent, which can be written to by label.";
    const HINTS: Hints = Hints::ReadOnly;
    const OPEN_WORLD: bool = false;
    type Args = SessionsArgs;
    type Answer = SessionList;

    async fn call(args: SessionsArgs, call: Call) -> Result<(String, SessionList), Fault> {
        let params = SessionsParams { agent: args.agent, as_token: None };
        let found: SessionList = call.guest.mail::<methods::AgentSessions>(params, None).await?;
        let line = |row: &trl_protocol::agent::SessionRow| {
            let you = if row.own { " (you)" } else { "" };
            let place = row.cwd.as_deref().map_or("an unknown place".to_owned(), quote::inline);
            format!("{}{you} in {place}", row.label)
        };
        let lines: Vec<String> = found.sessions.iter().map(line).collect();
        let text = if lines.is_empty() { "(none is live; mail waits)".to_owned() } else { lines.join("\n") };
        Ok((text, found))
    }
}

pub(crate) struct Reset;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetArgs {
    /// Name or address
    who: String,
}

impl Spec for Reset {
    const NAME: &'static str = "reset";
    const ABOUT: &'static str = "Exchange new encryption keys with an agent whose messages cannot be read, or who cannot read yours; unread ones are sent again.";
    const HINTS: Hints = Hints::Adds { idempotent: false };
    const OPEN_WORLD: bool = true;
    type Args = ResetArgs;
    type Answer = Renewed;

    async fn call(args: ResetArgs, call: Call) -> Result<(String, Renewed), Fault> {
        let params = ResetParams { who: args.who, as_token: None };
        let renewed: Renewed = call.guest.mail::<methods::MailReset>(params, None).await?;
        Ok((format!("[new keys with {}; {} messages are sent again]", renewed.who, renewed.resent), renewed))
    }
}
