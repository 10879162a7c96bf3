//! What a client must be told, since it looks nothing up by itself.

use std::ffi::OsString;
use std::path::PathBuf;

/// Where the daemon is, and how to start it.
#[derive(Debug, Clone)]
pub struct Options {
    pub socket: PathBuf,
    /// A daemon that keeps its state elsewhere is another home's and is not used. `None`: any daemon.
    pub state_dir: Option<PathBuf>,
    /// How to start a daemon if none listens; `None` is an error instead.
    pub start: Option<Start>,
}

/// A program that becomes a daemon: it says so on its stdout (see [`crate::readiness`]).
#[derive(Debug, Clone)]
pub struct Start {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Held while a daemon is started, so that clients that race start one between them.
    /// Its directory is made (0700) if missing.
    pub lock: PathBuf,
    /// Named in errors: where the daemon says why it did not start.
    pub log: PathBuf,
}
