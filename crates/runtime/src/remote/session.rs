//! A session of another daemon: its id there, its name here, and what was last heard of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trl_protocol::SessionId;
use trl_protocol::session::SessionInfo;

use super::RemoteDaemon;
use super::daemon::{described, described_as_foreign};

#[derive(Debug)]
pub(crate) struct RemoteSession {
    pub(crate) id: SessionId,
    pub(crate) daemon: Arc<RemoteDaemon>,
    /// Made by somebody else over there: listed and used here, but no session of this daemon.
    pub(crate) is_foreign: bool,
    last_info: Mutex<SessionInfo>,
}

impl RemoteSession {
    pub(super) fn new(info: SessionInfo, daemon: Arc<RemoteDaemon>) -> RemoteSession {
        RemoteSession { id: info.session_id, daemon, is_foreign: false, last_info: Mutex::new(info) }
    }

    /// One that somebody else has made over there.
    pub(super) fn foreign(info: SessionInfo, daemon: Arc<RemoteDaemon>) -> RemoteSession {
        let info = described_as_foreign(&daemon, info);
        RemoteSession { is_foreign: true, ..RemoteSession::new(info, daemon) }
    }

    fn lock(&self) -> MutexGuard<'_, SessionInfo> {
        self.last_info.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As it was last heard of, marked if its daemon is out of reach or does not answer.
    pub(crate) fn info(&self) -> SessionInfo {
        let info = self.lock().clone();
        let unresponsive = info.unresponsive || !self.daemon.is_ready() || self.daemon.is_overdue();
        SessionInfo { unresponsive, ..info }
    }

    /// Keeps what its daemon says of it. Its name is ours.
    pub(super) fn learn(&self, info: SessionInfo) -> SessionInfo {
        let mut last = self.lock();
        let info = match self.is_foreign {
            true => described_as_foreign(&self.daemon, info),
            false => described(&self.daemon, info, last.name.clone()),
        };
        last.clone_from(&info);
        info
    }

    pub(super) fn rename(&self, name: String) {
        let info = {
            let mut last = self.lock();
            last.name = Some(name);
            last.clone()
        };
        self.daemon.remember(&info);
    }
}
