//! The session that a verb means, made on first use where it has a name of its own.

use std::collections::BTreeMap;

use trl_client::{Client, Error};
use trl_protocol::exec::CancelParams;
use trl_protocol::ids::is_env_name;
use trl_protocol::session::{CreateParams, SessionInfo, SessionParams, SessionState};
use trl_protocol::{Code, ExecId, SessionId, methods};

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

/// A new session as the person at this prompt expects it: here, with this environment.
pub(crate) fn creation(name: Option<&str>, shell: Option<&str>) -> CreateParams {
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        (is_env_name(&name) && !stays_behind(&name)).then_some((name, value))
    };
    let env: BTreeMap<String, String> = std::env::vars_os().filter_map(text).collect();
    let here = std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok());
    CreateParams {
        name: name.map(str::to_owned),
        shell: shell.map(str::to_owned),
        env: Some(env),
        working_dir: here,
        ..CreateParams::default()
    }
}

/// The same elsewhere, where neither this directory nor this environment exists.
fn creation_on(name: Option<&str>, shell: Option<&str>, runtime: Option<&str>) -> CreateParams {
    match runtime {
        None | Some("local") => creation(name, shell),
        Some(runtime) => CreateParams {
            name: name.map(str::to_owned),
            shell: shell.map(str::to_owned),
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
pub(crate) async fn throw_away(
    client: &Client,
    shell: Option<&str>,
    runtime: Option<&str>,
) -> Result<SessionId> {
    let created = client.call::<methods::SessionCreate>(&creation_on(None, shell, runtime)).await?;
    Ok(created.session_id)
}

/// A session that commands can be sent to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) id: SessionId,
    /// What it ran when we looked.
    pub(crate) busy_with: Option<ExecId>,
}

impl Found {
    fn checked(info: &SessionInfo, shell: Option<&str>) -> Result<Found> {
        check_shell(info, shell)?;
        Ok(Found { id: info.session_id, busy_with: info.running })
    }
}

/// The session of this name or id; one with a name is made if there is none, and one that
/// was lost goes on where it was.
pub(crate) async fn find_or_make(client: &Client, named: &str, shell: Option<&str>) -> Result<Found> {
    find_or_make_on(client, named, shell, None).await
}

/// The same, where a session that is made now runs on this runtime.
pub(crate) async fn find_or_make_on(
    client: &Client,
    named: &str,
    shell: Option<&str>,
    runtime: Option<&str>,
) -> Result<Found> {
    if let Some(info) = find(client, named).await? {
        let found = Found::checked(&info, shell)?;
        if info.state == SessionState::Lost {
            client
                .call::<methods::SessionRestart>(&SessionParams { session_id: info.session_id.to_string() })
                .await?;
        }
        return Ok(found);
    }
    match client.call::<methods::SessionCreate>(&creation_on(Some(named), shell, runtime)).await {
        Ok(created) => Ok(Found { id: created.session_id, busy_with: None }),
        // Another client may have made it since we looked.
        Err(error) => match find(client, named).await {
            Ok(Some(info)) => Found::checked(&info, shell),
            _ => Err(error.into()),
        },
    }
}

/// `None` if nothing living has this name; an id that names nothing is an error.
async fn find(client: &Client, named: &str) -> Result<Option<SessionInfo>> {
    let gone = |code| matches!(code, Code::SessionNotFound | Code::SessionTerminated);
    match client.call::<methods::SessionInfo>(&SessionParams { session_id: named.to_owned() }).await {
        Ok(info)
            if matches!(info.state, SessionState::Terminated | SessionState::Damaged) && !is_id(named) =>
        {
            Ok(None)
        }
        Ok(info) => Ok(Some(info)),
        Err(Error::Fault(fault)) if gone(fault.code) && !is_id(named) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_id(named: &str) -> bool {
    named.parse::<SessionId>().is_ok()
}

fn check_shell(info: &SessionInfo, asked: Option<&str>) -> Result<()> {
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    match asked {
        Some(asked) if file_name(asked) != file_name(&info.shell) => {
            let name = info.name.clone().unwrap_or_else(|| info.session_id.to_string());
            Err(Failure::usage(format!("session {name} runs {}, not {asked}", info.shell))
                .hint("choose another name with -s, or use --new"))
        }
        _ => Ok(()),
    }
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
