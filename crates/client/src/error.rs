//! What can go wrong between a client and its daemon.

use std::io;
use std::path::PathBuf;

use trl_protocol::Fault;
use trl_sys::trust::Untrusted;

use crate::remote::DialError;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The daemon's own answer.
    #[error("{}", .0.message)]
    Fault(Fault),
    #[error("no daemon listens at {}", socket.display())]
    NoDaemon { socket: PathBuf },
    #[error(
        "the socket path {} has {} bytes, more than the {limit} that the system allows",
        socket.display(),
        socket.as_os_str().len()
    )]
    PathTooLong { socket: PathBuf, limit: usize },
    #[error("cannot connect to {}: {source}", socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    /// Somebody else could be at the other end; nothing was sent.
    #[error("the daemon's socket is not trusted: {0}")]
    Untrusted(#[from] Untrusted),
    #[error("{} is served by the daemon of another home, which keeps its state in {}", socket.display(), theirs.display())]
    OtherHome { socket: PathBuf, theirs: PathBuf },
    /// A daemon on another machine, and why there is no connection to it.
    #[error("{0}")]
    Remote(DialError),
    #[error("no connection within this process: {0}")]
    InProcess(io::Error),
    /// A session of that name is there, but not with the shell that was asked for.
    #[error("session {session} runs {shell}, not {asked}")]
    OtherShell { session: String, shell: String, asked: String },
    /// The same of the runtime.
    #[error(
        "session {session} runs in {runtime}, not in {asked}; where a session runs is chosen when it is made, so name another"
    )]
    OtherRuntime { session: String, runtime: String, asked: String },
    #[error("the daemon did not start: {message}")]
    NotStarted { message: String, help: Option<String> },
    /// It may or may not have been done; it is not repeated.
    #[error("the daemon went away before it answered {method}")]
    Lost { method: &'static str },
    #[error("the daemon's answer to {method} cannot be read: {problem}")]
    Unreadable { method: &'static str, problem: String },
}

impl Error {
    /// What the person can do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            Error::Fault(_) => None,
            Error::NoDaemon { .. } => Some("start one with `trl serve`".to_owned()),
            Error::PathTooLong { .. } => {
                Some("choose a shorter one with --socket, TRL_SOCKET_PATH or TRL_HOME".to_owned())
            }
            Error::Connect { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Some(
                "the socket belongs to another user; choose your own with --socket or TRL_HOME".to_owned(),
            ),
            Error::Connect { .. } => Some("`trl doctor` looks at what may be wrong".to_owned()),
            Error::Untrusted(untrusted) => untrusted.help(),
            Error::OtherHome { .. } => Some(
                "run it again to get a daemon for this home; or set XDG_RUNTIME_DIR or TRL_HOME, or name the socket with --socket"
                    .to_owned(),
            ),
            Error::Remote(_)
            | Error::InProcess(_)
            | Error::OtherShell { .. }
            | Error::OtherRuntime { .. } => None,
            Error::NotStarted { help, .. } => help.clone(),
            Error::Lost { .. } => {
                Some("it may have been done all the same: `trl ls` and `trl info SESSION` tell".to_owned())
            }
            Error::Unreadable { .. } => Some(
                "client and daemon may be of different versions: `trl version` shows them, `trl restart` replaces the daemon"
                    .to_owned(),
            ),
        }
    }

    /// The daemon's answer, if that is what this is.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Error::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}
