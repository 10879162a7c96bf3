//! A session as the daemon sees it: an id, a name, and a way to its host.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use trl_protocol::session::SessionInfo;
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{ExecId, Fault, SessionId};

use crate::host_process::HostProcess;
use crate::link::{Answer, Link};

/// A host answers at once or is stopped; then what it last said must do.
pub(crate) const INFO_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) name: Option<String>,
    pub(crate) tty: bool,
    pub(crate) link: Link,
    pub(crate) process: HostProcess,
    pub(crate) places: Places,
    /// What it had when this daemon met it.
    begun: Totals,
    last_info: Mutex<SessionInfo>,
}

/// What a session has had of something that is only ever counted up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) output_bytes: [u64; 2],
    pub(crate) restarts: u64,
}

impl Totals {
    fn of(info: &SessionInfo) -> Totals {
        Totals { output_bytes: [info.stdout_bytes, info.stderr_bytes], restarts: info.restarts }
    }

    pub(crate) fn add(&mut self, more: Totals) {
        for (sum, bytes) in self.output_bytes.iter_mut().zip(more.output_bytes) {
            *sum += bytes;
        }
        self.restarts += more.restarts;
    }

    fn since(self, begun: Totals) -> Totals {
        let [stdout, stderr] = self.output_bytes;
        Totals {
            output_bytes: [
                stdout.saturating_sub(begun.output_bytes[0]),
                stderr.saturating_sub(begun.output_bytes[1]),
            ],
            restarts: self.restarts.saturating_sub(begun.restarts),
        }
    }
}

/// What a session leaves on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) socket: PathBuf,
    pub(crate) state_dir: PathBuf,
}

impl Places {
    /// Its output and its address: the session is over for good.
    pub(crate) fn remove_all(&self) {
        self.remove_socket();
        tell_unless_gone(&self.state_dir, std::fs::remove_dir_all(&self.state_dir));
    }

    /// Its address: nobody answers there.
    pub(crate) fn remove_socket(&self) {
        tell_unless_gone(&self.socket, std::fs::remove_file(&self.socket));
    }
}

fn tell_unless_gone(path: &Path, removed: io::Result<()>) {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "a leftover could not be removed");
        }
        _ => {}
    }
}

impl Session {
    pub(crate) fn new(info: SessionInfo, link: Link, process: HostProcess, places: Places) -> Session {
        Session {
            id: info.session_id,
            name: info.name.clone(),
            tty: info.tty,
            link,
            process,
            places,
            begun: Totals::of(&info),
            last_info: Mutex::new(info),
        }
    }

    pub(crate) fn exec_id(&self, number: u64) -> ExecId {
        ExecId { session: self.id, number }
    }

    /// What its host says about it now.
    pub(crate) async fn info(&self) -> Result<SessionInfo, Fault> {
        let asked = self.link.call(|req| ToHost::Session { req });
        match tokio::time::timeout(INFO_PATIENCE, asked).await {
            Ok(answer) => self.learn(answer?),
            Err(_) => Ok(SessionInfo { unresponsive: true, ..self.last_info() }),
        }
    }

    /// Keeps what a host said about its session.
    pub(crate) fn learn(&self, answer: Answer) -> Result<SessionInfo, Fault> {
        match answer.message {
            FromHost::Session { session, .. } => {
                self.note(&session);
                Ok(*session)
            }
            other => Err(unexpected(self.id, &other)),
        }
    }

    pub(crate) fn note(&self, info: &SessionInfo) {
        self.last_info.lock().unwrap_or_else(PoisonError::into_inner).clone_from(info);
    }

    /// What is known to have come since this daemon met it.
    pub(crate) fn totals(&self) -> Totals {
        Totals::of(&self.last_info.lock().unwrap_or_else(PoisonError::into_inner)).since(self.begun)
    }

    pub(crate) fn last_info(&self) -> SessionInfo {
        self.last_info.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A host's answer that is none to what was asked.
pub(crate) fn unexpected(session: SessionId, message: &FromHost) -> Fault {
    tracing::error!(%session, req = message.req(), "a host gave an answer of the wrong kind");
    Fault::internal(format!("the host of session {session} gave an answer of the wrong kind"))
}
