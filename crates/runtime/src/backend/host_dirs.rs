//! Hosts that listen on Unix sockets and keep their files in directories of this machine.
//!
//! A socket on which nobody listens belongs to a dead host.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::net::UnixStream;
use trl_journal::Moment;
use trl_protocol::session::SessionInfo;
use trl_protocol::{Fault, SessionId};
use trl_sys::private::{DirError, create_dir, make_private};
use trl_sys::trust::{self, Untrusted};

use super::{ConnectError, Damage, Listing, LostSession, SavedSession};
use crate::blocking::run_blocking;

/// Longest path of a Unix socket that every system takes.
const MAX_SOCKET_PATH: usize = 103;

/// Why the directories of hosts cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HostDirsError {
    #[error(transparent)]
    Dir(#[from] DirError),
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    #[error(
        "{path} is too long for sockets in it ({MAX_SOCKET_PATH} bytes at most); choose a shorter TRL_HOME"
    )]
    PathTooLong { path: PathBuf },
}

/// Where the socket of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// `<id>.sock`, beside the others.
    Flat,
    /// `<id>/sock`, so that the directory can be shown to the host alone.
    PerSession,
}

/// The directories of all sessions of one backend.
#[derive(Debug)]
pub(super) struct HostDirs {
    layout: Layout,
    /// One socket per host.
    hosts: PathBuf,
    /// One directory per session.
    sessions: PathBuf,
}

impl HostDirs {
    pub(super) fn new(layout: Layout, hosts: PathBuf, sessions: PathBuf) -> HostDirs {
        HostDirs { layout, hosts, sessions }
    }

    /// Makes the directories, closed to other users.
    pub(super) fn prepare(&self) -> Result<(), HostDirsError> {
        if self.of(SessionId(0)).socket.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(HostDirsError::PathTooLong { path: self.hosts.clone() });
        }
        for dir in [&self.hosts, &self.sessions] {
            make_private(dir)?;
        }
        trust::check_path(&self.hosts)?;
        Ok(())
    }

    pub(super) fn of(&self, id: SessionId) -> SessionPaths {
        let socket = match self.layout {
            Layout::Flat => self.hosts.join(format!("{id}.sock")),
            Layout::PerSession => self.hosts.join(id.to_string()).join("sock"),
        };
        SessionPaths { layout: self.layout, socket, state_dir: self.sessions.join(id.to_string()) }
    }

    pub(super) fn list(&self) -> Listing {
        let mut addresses = match self.layout {
            Layout::Flat => ids_in(&self.hosts, ".sock"),
            Layout::PerSession => ids_in(&self.hosts, ""),
        };
        addresses.retain(|id| self.of(*id).has_socket());
        Listing { addresses, stored: ids_in(&self.sessions, "") }
    }

    pub(super) async fn connect(&self, id: SessionId) -> Result<UnixStream, ConnectError> {
        let socket = self.of(id).socket;
        let stream = UnixStream::connect(&socket).await.map_err(|error| match error {
            error if is_stale(&error) => ConnectError::Gone,
            error => ConnectError::Failed(error),
        })?;
        match self.layout {
            Layout::Flat => trust::check_peer(&stream, &socket)
                .map_err(|untrusted| ConnectError::Failed(io::Error::other(untrusted)))?,
            // Only the session's own container sees that directory, and who it is there is another matter.
            Layout::PerSession => {}
        }
        Ok(stream)
    }

    pub(super) async fn saved(&self, id: SessionId) -> Option<Result<SavedSession, Damage>> {
        SavedSession::read(self.of(id).state_dir, id).await
    }

    pub(super) async fn lost_session(&self, info: SessionInfo) -> Result<LostSession, Fault> {
        let dir = self.of(info.session_id).state_dir;
        LostSession::open(info, dir).await
    }

    /// By what the session wrote last or, if that cannot be read, by the time of its directory.
    pub(super) fn unused_for(&self, id: SessionId) -> Option<Duration> {
        let dir = self.of(id).state_dir;
        if let Some(written) = SavedSession::last_written(&dir) {
            return Some(written.age(&Moment::now()));
        }
        let used = dir.metadata().and_then(|meta| meta.modified()).ok()?;
        Some(SystemTime::now().duration_since(used).unwrap_or_default())
    }

    /// Removes the socket of a host if nobody answers there.
    pub(super) async fn remove_dead_address(&self, id: SessionId) {
        let paths = self.of(id);
        match UnixStream::connect(&paths.socket).await {
            Err(error) if is_stale(&error) => paths.remove_socket(),
            other => {
                let socket = paths.socket.display();
                tracing::warn!(%socket, alive = other.is_ok(), "a lost host may be alive: its socket is left");
            }
        }
    }
}

/// The paths of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionPaths {
    layout: Layout,
    pub(super) socket: PathBuf,
    pub(super) state_dir: PathBuf,
}

impl SessionPaths {
    pub(super) fn has_socket(&self) -> bool {
        self.socket.symlink_metadata().is_ok()
    }

    /// Makes the directories; somebody may have removed those above meanwhile.
    pub(super) fn make(&self) -> Result<(), Fault> {
        for dir in [Some(&*self.state_dir), self.socket.parent()].into_iter().flatten() {
            create_dir(dir).map_err(|error| {
                let what = format!("the directory {} is gone and cannot be made again", dir.display());
                let fault = Fault::refused_for_now(what, &error);
                let remedy = "make it, or what it lies in, or start the daemon with another (TRL_HOME)";
                Fault { message: format!("{}; {remedy}", fault.message).into(), ..fault }
            })?;
        }
        Ok(())
    }

    /// Removes the session's files and its socket: it is over for good.
    pub(super) async fn remove_all(&self) {
        self.remove_socket();
        // A host that ends in order has removed its files; those of a lost one can be large.
        if self.state_dir.symlink_metadata().is_ok() {
            let dir = self.state_dir.clone();
            let removed = run_blocking(move || std::fs::remove_dir_all(dir)).await;
            warn_unless_gone(&self.state_dir, removed.unwrap_or_else(Err));
        }
    }

    /// Removes the socket on which nobody answers.
    pub(super) fn remove_socket(&self) {
        match (self.layout, self.socket.parent()) {
            (Layout::PerSession, Some(dir)) => warn_unless_gone(dir, std::fs::remove_dir_all(dir)),
            _ => warn_unless_gone(&self.socket, std::fs::remove_file(&self.socket)),
        }
    }
}

fn is_stale(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

fn warn_unless_gone(path: &Path, removed: io::Result<()>) {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "a leftover could not be removed");
        }
        _ => {}
    }
}

/// The session ids among the names in a directory.
fn ids_in(dir: &Path, suffix: &str) -> Vec<SessionId> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(dir = %dir.display(), %error, "a directory could not be read");
            return Vec::new();
        }
    };
    let id = |entry: io::Result<std::fs::DirEntry>| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        name.strip_suffix(suffix)?.parse().ok()
    };
    entries.filter_map(id).collect()
}
