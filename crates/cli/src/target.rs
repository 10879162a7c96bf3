//! The session that a verb means, created on first use where it has a name of its own.

use std::collections::BTreeMap;

use trl_client::{Client, Error, FoundSession};
use trl_protocol::exec::CancelParams;
use trl_protocol::ids::is_env_name;
use trl_protocol::isolation::Isolation;
use trl_protocol::session::{CreateParams, SessionInfo, SessionLimits, SessionParams};
use trl_protocol::{ExecId, SessionId, methods};

use crate::failure::{Failure, Result};

/// The session of everyone who names none.
pub(crate) const DEFAULT: &str = "default";

/// Set by the daemon for everything that runs in a session.
const INSIDE: &str = "TRL_SESSION_ID";

/// A variable of the caller that would be wrong, or worse than the daemon's own, in a session:
/// what belongs to the caller's terminal or shell, and pagers, which would wait for a person.
fn stays_behind(name: &str) -> bool {
    (name.starts_with("TRL_") && name != "TRL_AGENT" && name != "TRL_LABEL")
        || name.ends_with("PAGER")
        || matches!(
            name,
            "PWD" | "OLDPWD" | "SHLVL" | "_" | "TERM" | "COLUMNS" | "LINES" | "PS1" | "PROMPT_COMMAND"
        )
}

/// What a session is to be like if it is made now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Making {
    pub(crate) shell: Option<String>,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) limits: Option<SessionLimits>,
    /// Where it runs, if not here.
    pub(crate) runtime: Option<String>,
}

/// A new session as the person at this prompt expects it: here, with this environment.
pub(crate) fn creation(name: Option<&str>, making: &Making) -> CreateParams {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        (is_env_name(&name) && !stays_behind(&name)).then_some((name, value))
    };
    let env: BTreeMap<String, String> = std::env::vars_os().filter_map(text).collect();
    let here = std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok());
    CreateParams {
        name: name.map(str::to_owned),
        shell: making.shell.clone(),
        isolation: making.isolation.clone(),
        limits: making.limits.clone(),
        env: Some(env),
        working_dir: here,
        ..CreateParams::default()
    }
}

/// The same elsewhere, where neither this directory nor this environment exists.
fn creation_on(name: Option<&str>, making: &Making) -> CreateParams {
    match making.runtime.as_deref() {
        None | Some("local") => creation(name, making),
        Some(runtime) => CreateParams {
            name: name.map(str::to_owned),
            shell: making.shell.clone(),
            isolation: making.isolation.clone(),
            limits: making.limits.clone(),
            runtime: Some(runtime.to_owned()),
            ..CreateParams::default()
        },
    }
}

/// The session of everyone who names a runtime but no session.
pub(crate) fn name_on(runtime: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = runtime.chars().map(plain).take(60).collect();
    format!("on-{name}")
}

/// A session for one command, to be ended after it.
pub(crate) async fn throw_away(client: &Client, making: &Making) -> Result<SessionId> {
    Ok(client.call::<methods::SessionCreate>(&creation_on(None, making)).await?.session_id)
}

/// The session of this name or id; one with a name is created if there is none, and a lost one
/// continues with its state. One that is there is never taken for one that is confined more tightly.
pub(crate) async fn find_or_create(client: &Client, named: &str, making: &Making) -> Result<FoundSession> {
    let params = creation_on(None, making);
    let found = client.find_or_create(named, &params).await.map_err(|error| match error {
        Error::OtherShell { .. } => {
            Failure::usage(error.to_string()).hint("choose another name with -s, or use --new")
        }
        other => other.into(),
    })?;
    if making.isolation.is_some() || making.limits.is_some() {
        let session = SessionParams { session_id: found.id.to_string() };
        check_confinement(&client.call::<methods::SessionInfo>(&session).await?, making)?;
    }
    Ok(found)
}

/// A session that was named together with a runtime must be there.
pub(crate) async fn check_runtime(client: &Client, found: &FoundSession, runtime: &str) -> Result<()> {
    client.check_runtime(found, runtime).await.map_err(|error| match error {
        Error::OtherRuntime { .. } => Failure::usage(error.to_string()),
        other => other.into(),
    })
}

fn check_confinement(info: &SessionInfo, making: &Making) -> Result<()> {
    let name = info.name.clone().unwrap_or_else(|| info.session_id.to_string());
    let refuse = |what: &str| {
        Err(Failure::usage(format!("session {name} is there and has {what} than asked for"))
            .hint("choose another name with -s, or use --new"))
    };
    let has = info.confinement.isolation.as_ref().map(|report| report.requested.clone()).unwrap_or_default();
    if making.isolation.as_ref().is_some_and(|asked| *asked != has) {
        return refuse("other isolation");
    }
    let limits = info.confinement.limits.as_deref().cloned().unwrap_or_default();
    if making.limits.as_ref().is_some_and(|asked| !is_same(asked, &limits)) {
        return refuse("other limits");
    }
    Ok(())
}

/// Apart from what the daemon fills in.
fn is_same(asked: &SessionLimits, has: &SessionLimits) -> bool {
    let journal_bytes = asked.journal_bytes.or(has.journal_bytes);
    SessionLimits { journal_bytes, ..asked.clone() } == *has
}

/// A command that waits for the session it runs in would wait for itself.
pub(crate) fn refuse_own_session(target: SessionId) -> Result<()> {
    let inside = std::env::var(INSIDE).ok().and_then(|id| id.parse::<SessionId>().ok());
    if inside == Some(target) {
        return Err(Failure::usage(format!(
            "this command runs in session {target}: another one there would wait for it, and it for that one"
        ))
        .hint("use --new, another session with -s, or --detach"));
    }
    Ok(())
}

/// `e-…` is a command, everything else a session.
pub(crate) fn cancel_params(named: &str) -> CancelParams {
    match named.parse::<ExecId>() {
        Ok(exec) => CancelParams { exec_id: Some(exec.to_string()), session_id: None, signal: None },
        Err(_) => CancelParams { session_id: Some(named.to_owned()), exec_id: None, signal: None },
    }
}
