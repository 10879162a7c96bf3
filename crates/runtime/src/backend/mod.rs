//! Where session hosts run: the boundary between the runtime and a kind of machine.
//!
//! The runtime decides which sessions exist and what is asked of them. A [`Backend`] starts
//! a host for a session, connects to it, lists the hosts that outlived an earlier daemon,
//! learns of a host's death, kills it, and reads what a dead one left. Outside a backend
//! nobody uses a process id, a kind of socket or a path on behalf of a session: hosts are
//! named by their session's id, and a [`Connection`] is two byte streams.
//!
//! [`Local`] runs hosts as processes of this machine. Several backends can serve one
//! daemon; each session remembers its own.

mod connection;
mod container;
mod host_dirs;
mod host_program;
pub(crate) mod known;
pub mod local;
mod lost_session;
mod programs;
mod ssh;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use trl_protocol::session::SessionInfo;
use trl_protocol::system::{PlaceFacts, RuntimeKind, ShellFound};
use trl_protocol::wire::{Dialect, SessionSpec};
use trl_protocol::{Fault, SessionId};

pub use crate::link::{GreetError, Greeted, greet};
pub use connection::Connection;
pub use container::{Container, ContainerPlace};
pub use host_dirs::HostDirsError;
pub use local::Local;
pub use lost_session::{Damage, LostSession, SavedSession};
pub use ssh::Ssh;

/// A future of a trait object's method.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub trait Backend: fmt::Debug + Send + Sync {
    /// The name by which it is found again, such as `local` or `ssh:build1.example`.
    fn name(&self) -> &str;

    /// What its sessions are told to run in: its name in the configuration, if it has one.
    fn display_name(&self) -> &str {
        self.name()
    }

    fn kind(&self) -> RuntimeKind;

    /// Looks whether it can be used, and what the place is like; `None` if that is not known from outside.
    fn look(&self) -> BoxFuture<'_, Result<Option<PlaceFacts>, Fault>>;

    /// Checks that a session can be created here now, and resolves what depends on the place.
    fn prepare<'a>(&'a self, wanted: StartRequest<'a>) -> BoxFuture<'a, Result<Prepared, Fault>>;

    /// The shells that sessions can use here, in order of preference.
    fn shells(&self) -> Vec<ShellFound>;

    /// Whether nothing here belongs to a session with this id.
    fn is_unused(&self, id: SessionId) -> BoxFuture<'_, bool>;

    /// Starts a host and hands it the session. The backend fills in where the host keeps its
    /// files and where it listens. A failed start leaves no process behind.
    fn start(&self, spec: SessionSpec) -> BoxFuture<'_, Result<StartedHost, Fault>>;

    /// The sessions of which this backend finds a host's address or stored files.
    fn list(&self) -> BoxFuture<'_, Listing>;

    /// Connects to the host of a session.
    fn connect(&self, id: SessionId) -> BoxFuture<'_, Result<Reached, ConnectError>>;

    /// Connects to the host of a session by a socket that takes descriptors, where there is one.
    fn connect_for_descriptors(&self, _id: SessionId) -> BoxFuture<'_, io::Result<UnixStream>> {
        let refused: io::Result<UnixStream> = Err(io::ErrorKind::Unsupported.into());
        Box::pin(std::future::ready(refused))
    }

    /// A handle on the host that gave this description of its session.
    fn host_of(&self, info: &SessionInfo) -> Arc<dyn HostHandle>;

    /// Looks for the host of a session that has stored files but no address.
    fn find_without_address<'a>(&'a self, info: &'a SessionInfo) -> BoxFuture<'a, Liveness>;

    /// What a session stored about itself, if it stored anything.
    fn saved(&self, id: SessionId) -> BoxFuture<'_, Option<Result<SavedSession, Damage>>>;

    /// The output and results that a session without a host left.
    fn lost_session(&self, info: SessionInfo) -> BoxFuture<'_, Result<LostSession, Fault>>;

    /// How long ago a session without a host was last used.
    fn unused_for(&self, id: SessionId) -> BoxFuture<'_, Option<Duration>>;

    /// Ends the processes that sessions without a host have left running.
    fn end_orphans(&self, ids: Vec<SessionId>) -> BoxFuture<'_, ()>;

    /// Removes the address of a host if nobody answers there any more.
    fn remove_dead_address(&self, id: SessionId) -> BoxFuture<'_, ()>;

    /// Removes everything that is stored of a session.
    fn remove(&self, id: SessionId) -> BoxFuture<'_, ()>;

    /// Whether its hosts are found without a network, so that a daemon can wait for that when it starts.
    fn is_near(&self) -> bool {
        true
    }

    /// The sessions of an earlier daemon, as they were last known here. One that is near need not
    /// remember any: it can be asked.
    fn remembered(&self) -> Vec<SessionInfo> {
        Vec::new()
    }

    /// What is to be remembered of a session has changed.
    fn remember(&self, _: &SessionInfo) {}

    /// Connects to the host of a remembered session, however long that takes.
    fn await_host(&self, _: SessionId) -> io::Result<Awaited> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// No session of this backend lives or is being started.
    fn no_sessions_left(&self) {}

    /// The daemon ends: releases whatever does not belong to a session.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// One host, for the case that it does not answer.
pub trait HostHandle: fmt::Debug + Send + Sync {
    /// Names the host in logs and messages, such as `pid 123`.
    fn describe(&self) -> String;

    /// Ends the host at once; false if that cannot be done safely.
    fn kill(&self) -> BoxFuture<'_, bool>;

    /// Resolves when the host has ended, and what it started with it; at once if the backend
    /// has no means to tell.
    fn gone(&self) -> BoxFuture<'_, ()>;

    /// Lets a host continue that somebody has stopped.
    fn resume(&self);

    /// Whether somebody has stopped the host, so that it cannot answer.
    fn is_stopped(&self) -> bool;
}

/// What `session.create` asks of a place. `None` is the place's default.
#[derive(Debug, Clone, Copy)]
pub struct StartRequest<'a> {
    pub shell: Option<&'a str>,
    pub working_dir: Option<&'a str>,
}

/// What a session gets there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepared {
    Known {
        shell: Shell,
        working_dir: String,
        /// The environment that sessions inherit, before defaults and requests are added.
        env: BTreeMap<String, String>,
    },
    /// The host finds out, where it runs.
    ByHost,
}

/// A shell that is installed and that hosts can drive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    /// As the request named it, else the plain name.
    pub name: String,
    pub path: String,
    pub dialect: Dialect,
}

/// A new host that has taken its session.
#[derive(Debug)]
pub struct StartedHost {
    pub greeted: Greeted,
    pub host: Arc<dyn HostHandle>,
}

/// What a backend finds after a restart of the daemon.
#[derive(Debug, Default)]
pub struct Listing {
    /// Sessions whose hosts have an address, whether or not anybody answers there.
    pub addresses: Vec<SessionId>,
    /// Sessions that have stored files.
    pub stored: Vec<SessionId>,
}

/// A connection to something that listens where a host should be.
#[derive(Debug)]
pub struct Reached {
    pub connection: Connection,
    /// Known before the host says anything; a stopped one says nothing.
    pub host: Option<Arc<dyn HostHandle>>,
}

/// A connection that is being made, and made again until it succeeds or nobody is there.
#[derive(Debug)]
pub struct Awaited {
    pub connection: Connection,
    pub host: Arc<dyn HostHandle>,
    /// Told if the first attempt finds the place out of reach.
    pub out_of_reach: tokio::sync::oneshot::Receiver<()>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no host listens there")]
    Gone,
    #[error("{0}")]
    Failed(io::Error),
}

/// What became of a host without an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    Dead,
    /// It lives and has an address again.
    Back,
    /// It lives, but cannot be connected to.
    Unreachable,
}
