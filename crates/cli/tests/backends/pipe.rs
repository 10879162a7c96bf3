//! The conformance suite with hosts at the other end of a byte pipe, in another directory tree.
//!
//! The runtime never gets a socket of these hosts: every byte passes through a pipe in
//! memory. Nor do they use its directories: those must stay without any session.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncWriteExt as _, copy, duplex, split};
use trl_protocol::session::SessionInfo;
use trl_protocol::system::{PlaceFacts, RuntimeKind, ShellFound};
use trl_protocol::wire::SessionSpec;
use trl_protocol::{Fault, SessionId};
use trl_runtime::Config;
use trl_runtime::backend::{
    Backend, BoxFuture, ConnectError, Connection, Damage, HostHandle, Listing, Liveness, Local, LostSession,
    Prepared, Reached, SavedSession, StartRequest, StartedHost,
};

use super::daemon::World;
use super::local::{assert_empty, kill_host_process};

/// Passes everything on to hosts elsewhere.
#[derive(Debug)]
struct Piped {
    far: Local,
}

/// A pipe with a small buffer, and two tasks that move bytes between it and the host.
fn through_pipe(connection: Connection) -> Connection {
    let (mut from_host, mut to_host) = connection.into_parts();
    let (near, far) = duplex(4096);
    let (mut far_reader, mut far_writer) = split(far);
    tokio::spawn(async move {
        // Whichever end closes first, the other side is told by the end of its stream.
        let _ = copy(&mut from_host, &mut far_writer).await;
        let _ = far_writer.shutdown().await;
    });
    tokio::spawn(async move {
        let _ = copy(&mut far_reader, &mut to_host).await;
        let _ = to_host.shutdown().await;
    });
    let (reader, writer) = split(near);
    Connection::new(reader, writer)
}

impl Backend for Piped {
    fn name(&self) -> &str {
        "piped"
    }

    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Local
    }

    fn look(&self) -> BoxFuture<'_, Result<Option<PlaceFacts>, Fault>> {
        self.far.look()
    }

    fn prepare<'a>(&'a self, wanted: StartRequest<'a>) -> BoxFuture<'a, Result<Prepared, Fault>> {
        self.far.prepare(wanted)
    }

    fn shells(&self) -> Vec<ShellFound> {
        self.far.shells()
    }

    fn is_unused(&self, id: SessionId) -> BoxFuture<'_, bool> {
        self.far.is_unused(id)
    }

    fn start(&self, spec: SessionSpec) -> BoxFuture<'_, Result<StartedHost, Fault>> {
        Box::pin(async move {
            let StartedHost { greeted, host } = self.far.start(spec).await?;
            Ok(StartedHost { greeted: greeted.over(through_pipe), host })
        })
    }

    fn list(&self) -> BoxFuture<'_, Listing> {
        self.far.list()
    }

    fn connect(&self, id: SessionId) -> BoxFuture<'_, Result<Reached, ConnectError>> {
        Box::pin(async move {
            let Reached { connection, host } = self.far.connect(id).await?;
            Ok(Reached { connection: through_pipe(connection), host })
        })
    }

    fn host_of(&self, info: &SessionInfo) -> Arc<dyn HostHandle> {
        self.far.host_of(info)
    }

    fn find_without_address<'a>(&'a self, info: &'a SessionInfo) -> BoxFuture<'a, Liveness> {
        self.far.find_without_address(info)
    }

    fn saved(&self, id: SessionId) -> BoxFuture<'_, Option<Result<SavedSession, Damage>>> {
        self.far.saved(id)
    }

    fn lost_session(&self, info: SessionInfo) -> BoxFuture<'_, Result<LostSession, Fault>> {
        self.far.lost_session(info)
    }

    fn unused_for(&self, id: SessionId) -> BoxFuture<'_, Option<Duration>> {
        self.far.unused_for(id)
    }

    fn end_orphans(&self, ids: Vec<SessionId>) -> BoxFuture<'_, ()> {
        self.far.end_orphans(ids)
    }

    fn remove_dead_address(&self, id: SessionId) -> BoxFuture<'_, ()> {
        self.far.remove_dead_address(id)
    }

    fn remove(&self, id: SessionId) -> BoxFuture<'_, ()> {
        self.far.remove(id)
    }

    fn no_sessions_left(&self) {
        self.far.no_sessions_left();
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.far.close()
    }
}

struct Elsewhere {
    dir: TempDir,
    /// The daemon's own directories.
    near: Mutex<Vec<PathBuf>>,
}

impl Elsewhere {
    fn new() -> Elsewhere {
        let dir = tempfile::Builder::new().prefix("trl-far-").tempdir().unwrap();
        Elsewhere { dir, near: Mutex::default() }
    }
}

impl World for Elsewhere {
    fn backend(&self, config: &Config) -> Arc<dyn Backend> {
        *self.near.lock().unwrap() = vec![config.runtime_dir.clone(), config.state_dir.clone()];
        let far = Config {
            runtime_dir: self.dir.path().join("far-run"),
            state_dir: self.dir.path().join("far-state"),
            ..config.clone()
        };
        Arc::new(Piped { far: Local::new(&far).unwrap() })
    }

    fn kill_host(&self, info: &Value) {
        kill_host_process(info);
    }

    fn assert_no_leftovers(&self) {
        assert_empty(&self.dir.path().join("far-run/hosts"));
        assert_empty(&self.dir.path().join("far-state/sessions"));
        for dir in self.near.lock().unwrap().iter() {
            assert!(!dir.exists(), "the daemon made {} for sessions that run elsewhere", dir.display());
        }
    }
}

super::conformance::conformance!(Elsewhere::new());
