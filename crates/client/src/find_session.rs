//! The session of a name: found, continued if it was lost, or created.
//!
//! Callers that race for a name all get the same session: the daemon lets one create it and
//! refuses the others, which then find it.

use trl_protocol::session::{CreateParams, RestartParams, SessionInfo, SessionParams, SessionState};
use trl_protocol::system::NoParams;
use trl_protocol::{Code, ExecId, SessionId, methods};

use crate::client::Client;
use crate::error::{Error, Result};

/// A session that commands can be sent to.
#[derive(Debug, Clone)]
pub struct FoundSession {
    pub id: SessionId,
    pub name: Option<String>,
    pub how: How,
    /// The command that ran in it when it was found.
    pub running: Option<ExecId>,
    pub runtime: Option<String>,
    /// Why it was created there, if that was left open.
    pub runtime_reason: Option<String>,
}

/// How a session was come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Existing,
    /// Its host had died; it continues in a new shell with its state restored.
    Restarted,
    Created,
}

impl Client {
    /// The session of this id or name. A name that no living session has is created with
    /// `params`; a lost session is restarted with its state. `params.shell` must be the shell of
    /// a session that exists.
    pub async fn find_or_create(&self, named: &str, params: &CreateParams) -> Result<FoundSession> {
        if let Some(info) = self.find(named).await? {
            return self.ready(info, params).await;
        }
        let new = CreateParams { name: Some(named.to_owned()), ..params.clone() };
        let failed = match self.call::<methods::SessionCreate>(&new).await {
            Ok(created) => {
                return Ok(FoundSession {
                    id: created.session_id,
                    name: created.name,
                    how: How::Created,
                    running: None,
                    runtime: created.runtime,
                    runtime_reason: created.runtime_reason,
                });
            }
            Err(error) => error,
        };
        // Another client may have created it since, or this one before its connection was lost.
        match self.find(named).await {
            Ok(Some(info)) => self.ready(info, params).await,
            Ok(None) | Err(_) => Err(failed),
        }
    }

    async fn ready(&self, info: SessionInfo, params: &CreateParams) -> Result<FoundSession> {
        check_shell(&info, params.shell.as_deref())?;
        let how = match info.state {
            SessionState::Lost => {
                let params = RestartParams { session_id: info.session_id.to_string(), if_lost: true };
                self.call::<methods::SessionRestart>(&params).await?;
                How::Restarted
            }
            SessionState::Creating
            | SessionState::Idle
            | SessionState::Running
            | SessionState::Terminated
            | SessionState::Damaged => How::Existing,
        };
        let SessionInfo { session_id: id, name, running, runtime, .. } = info;
        Ok(FoundSession { id, name, how, running, runtime, runtime_reason: None })
    }

    /// An error if a session is not in this runtime. Where it runs is chosen when it is made.
    pub async fn check_runtime(&self, found: &FoundSession, asked: &str) -> Result<()> {
        let Some(there) = found.runtime.as_deref() else { return Ok(()) };
        if asked == there || asked == "any" || asked.starts_with("label:") {
            return Ok(());
        }
        // One runtime may have several names.
        let runtimes = self.call::<methods::SystemRuntimes>(&NoParams {}).await?.runtimes;
        let same = |name: &str, target: &str| {
            runtimes.iter().any(|it| it.name == name && it.target.as_deref() == Some(target))
        };
        if same(there, asked) || same(asked, there) {
            return Ok(());
        }
        Err(Error::OtherRuntime {
            session: found.name.clone().unwrap_or_else(|| found.id.to_string()),
            runtime: there.to_owned(),
            asked: asked.to_owned(),
        })
    }

    /// `None` if no session that can be used has this name; an id that names nothing is an error.
    async fn find(&self, named: &str) -> Result<Option<SessionInfo>> {
        let is_id = named.parse::<SessionId>().is_ok();
        let over = |state| matches!(state, SessionState::Terminated | SessionState::Damaged);
        let gone = |code| matches!(code, Code::SessionNotFound | Code::SessionTerminated);
        match self.call::<methods::SessionInfo>(&SessionParams { session_id: named.to_owned() }).await {
            Ok(info) if over(info.state) && !is_id => Ok(None),
            Ok(info) => Ok(Some(info)),
            Err(Error::Fault(fault)) if gone(fault.code) && !is_id => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn check_shell(info: &SessionInfo, asked: Option<&str>) -> Result<()> {
    let file_name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    match asked {
        Some(asked) if file_name(asked) != file_name(&info.shell) => Err(Error::OtherShell {
            session: info.name.clone().unwrap_or_else(|| info.session_id.to_string()),
            shell: info.shell.clone(),
            asked: asked.to_owned(),
        }),
        _ => Ok(()),
    }
}
