//! The session of a name: found, continued if it was lost, or created.
//!
//! Callers that race for a name all get the same session: the daemon lets one create it and
//! refuses the others, which then find it.

use trl_protocol::session::{CreateParams, RestartParams, SessionInfo, SessionParams, SessionState};
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
        let shell = params.shell.as_deref();
        if let Some(info) = self.find(named).await? {
            return self.ready(info, shell).await;
        }
        let params = CreateParams { name: Some(named.to_owned()), ..params.clone() };
        let failed = match self.call::<methods::SessionCreate>(&params).await {
            Ok(created) => {
                let (id, name) = (created.session_id, created.name);
                return Ok(FoundSession { id, name, how: How::Created, running: None });
            }
            Err(error) => error,
        };
        // Another client may have created it since, or this one before its connection was lost.
        match self.find(named).await {
            Ok(Some(info)) => self.ready(info, shell).await,
            Ok(None) | Err(_) => Err(failed),
        }
    }

    async fn ready(&self, info: SessionInfo, shell: Option<&str>) -> Result<FoundSession> {
        check_shell(&info, shell)?;
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
        Ok(FoundSession { id: info.session_id, name: info.name, how, running: info.running })
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
