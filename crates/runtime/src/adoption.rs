//! Finds the hosts that outlived an earlier daemon, and clears away what dead ones left.
//!
//! Only sockets on which nobody listens are removed, and only directories of sessions
//! that have no socket and are older than any session may grow. When a daemon ends its
//! sessions, those that were lost before go with them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::UnixStream;
use tokio::task::JoinSet;
use trl_protocol::SessionId;

use crate::host_process::HostProcess;
use crate::link::{GreetError, Greeted, greet};
use crate::runtime::Inner;
use crate::session::Places;

/// A living host answers at once; one that does not is left alone.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, thiserror::Error)]
enum NotAdopted {
    #[error("nobody listens")]
    Stale,
    #[error("{0}")]
    Unreachable(io::Error),
    #[error(transparent)]
    Greeting(#[from] GreetError),
    #[error("it did not answer within {} s", PATIENCE.as_secs())]
    Silent,
}

pub(crate) async fn adopt_all(runtime: &Arc<Inner>) {
    let mut calls = JoinSet::new();
    for id in ids_in(&runtime.config.runtime_dir.join("hosts"), ".sock") {
        let socket = runtime.places(id).socket;
        calls.spawn(async move { (id, call(&socket).await) });
    }
    while let Some(called) = calls.join_next().await {
        match called {
            Ok((id, Ok(greeted))) if greeted.session.session_id == id => {
                let host_pid = greeted.session.host_pid;
                let process = HostProcess::of(host_pid);
                match runtime.take_over(greeted, process, |session| runtime.registry.adopt(session)) {
                    Ok(_) => tracing::info!(session = %id, host_pid, "a living session was adopted"),
                    Err(error) => tracing::error!(session = %id, %error, "a living session was left alone"),
                }
            }
            Ok((id, Ok(_))) => {
                tracing::warn!(session = %id, "a host answers for another session: left alone")
            }
            Ok((id, Err(NotAdopted::Stale))) => {
                runtime.places(id).remove_socket();
                tracing::info!(session = %id, "the socket of a dead host was removed");
            }
            Ok((id, Err(error))) => tracing::warn!(session = %id, %error, "a host was left alone"),
            Err(error) => tracing::error!(%error, "adopting a host failed"),
        }
    }
    clear_old(runtime);
}

async fn call(socket: &Path) -> Result<Greeted, NotAdopted> {
    let greeting = async {
        let stream = UnixStream::connect(socket).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => NotAdopted::Stale,
            _ => NotAdopted::Unreachable(error),
        })?;
        Ok(greet(stream, None).await?)
    };
    tokio::time::timeout(PATIENCE, greeting).await.unwrap_or(Err(NotAdopted::Silent))
}

/// Removes the socket of a host whose connection broke, if the host is gone as well.
pub(crate) async fn remove_if_dead(places: Places) {
    match tokio::time::timeout(PATIENCE, UnixStream::connect(&places.socket)).await {
        Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => places.remove_socket(),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
        other => {
            let socket = places.socket.display();
            tracing::warn!(%socket, alive = other.is_ok_and(|c| c.is_ok()), "a lost host may be alive: left to the next daemon");
        }
    }
}

/// Removes what is left of sessions that nobody can come back to.
fn clear_old(runtime: &Inner) {
    let oldest = Duration::try_from_secs_f64(runtime.config.session_ttl_s).unwrap_or(Duration::MAX);
    if !oldest.is_zero() {
        clear(runtime, oldest);
    }
}

/// Removes what is left of sessions without a host that were last used longer ago than this.
pub(crate) fn clear(runtime: &Inner, unused: Duration) {
    for id in ids_in(&runtime.config.state_dir.join("sessions"), "") {
        let places = runtime.places(id);
        let used = places.state_dir.metadata().and_then(|meta| meta.modified()).ok();
        let age = used.map(|used| SystemTime::now().duration_since(used).unwrap_or_default());
        if !places.socket.exists() && age.is_some_and(|age| age >= unused) {
            places.remove_all();
            tracing::info!(session = %id, "what was left of a session was removed");
        }
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
