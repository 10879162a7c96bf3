//! Where local hosts listen and keep their files.

use std::io;
use std::path::{Path, PathBuf};

use trl_protocol::{Fault, SessionId};

/// Longest path of a Unix socket that every system takes.
const MAX_SOCKET_PATH: usize = 103;

/// The directories of all local sessions.
#[derive(Debug)]
pub(super) struct Dirs {
    /// One socket per host.
    pub(super) hosts: PathBuf,
    /// One directory per session.
    pub(super) sessions: PathBuf,
}

impl Dirs {
    pub(super) fn new(runtime_dir: &Path, state_dir: &Path) -> Dirs {
        Dirs { hosts: runtime_dir.join("hosts"), sessions: state_dir.join("sessions") }
    }

    /// Whether the paths of sockets fit into what the system takes.
    pub(super) fn are_short_enough(&self) -> bool {
        self.of(SessionId(0)).socket.as_os_str().len() <= MAX_SOCKET_PATH
    }

    pub(super) fn of(&self, id: SessionId) -> SessionPaths {
        SessionPaths {
            socket: self.hosts.join(format!("{id}.sock")),
            state_dir: self.sessions.join(id.to_string()),
        }
    }

    pub(super) fn with_socket(&self) -> Vec<SessionId> {
        ids_in(&self.hosts, ".sock")
    }

    pub(super) fn with_files(&self) -> Vec<SessionId> {
        ids_in(&self.sessions, "")
    }
}

/// The paths of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionPaths {
    pub(super) socket: PathBuf,
    pub(super) state_dir: PathBuf,
}

impl SessionPaths {
    /// Makes the directories; somebody may have removed those above meanwhile.
    pub(super) fn make(&self) -> Result<(), Fault> {
        for dir in [Some(&*self.state_dir), self.socket.parent()].into_iter().flatten() {
            trl_sys::private::create_dir(dir).map_err(|error| {
                let what = format!("the directory {} is gone and cannot be made again", dir.display());
                let fault = Fault::refused_for_now(what, &error);
                let remedy = "make it, or what it lies in, or start the daemon with another (TRL_HOME)";
                Fault { message: format!("{}; {remedy}", fault.message).into(), ..fault }
            })?;
        }
        Ok(())
    }

    /// Removes the session's files and its socket: it is over for good.
    pub(super) fn remove_all(&self) {
        self.remove_socket();
        warn_unless_gone(&self.state_dir, std::fs::remove_dir_all(&self.state_dir));
    }

    /// Removes the socket on which nobody answers.
    pub(super) fn remove_socket(&self) {
        warn_unless_gone(&self.socket, std::fs::remove_file(&self.socket));
    }
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
