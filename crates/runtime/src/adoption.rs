//! Finds the hosts that outlived an earlier daemon, and clears away what dead ones left.
//!
//! A host that does not answer at once (it may be stopped) holds nobody up: its session is
//! entered with what it last wrote about itself, and its requests wait for it. A session
//! whose host is gone is entered as lost; what it left can be read, and it can be restarted.
//!
//! Only sockets on which nobody listens are removed, and only directories of sessions
//! that have no socket and are older than any session may grow. When a daemon ends its
//! sessions, those that were lost before go with them.

use std::collections::HashSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use trl_journal::Moment;
use trl_protocol::SessionId;

use crate::host_process::{HostProcess, is_host};
use crate::link::{End, GreetError, Greeted, Greeting, greet};
use crate::runtime::Inner;
use crate::session::Places;
use crate::{orphans, remains};

/// A living host answers at once. One that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_millis(500);

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What a host had to say.
enum Called {
    Answered(Box<Greeted>),
    /// It listens; it may be stopped.
    Silent {
        pid: Option<u32>,
        greeting: Greeting,
    },
    Refused(GreetError),
    /// Nobody listens.
    Gone,
    Unreachable(io::Error),
}

pub(crate) async fn adopt_all(runtime: &Arc<Inner>) {
    let mut calls = JoinSet::new();
    for id in ids_in(&runtime.config.runtime_dir.join("hosts"), ".sock") {
        let socket = runtime.places(id).socket;
        calls.spawn(async move { (id, call(&socket).await) });
    }
    let mut answered = HashSet::new();
    while let Some(called) = calls.join_next().await {
        match called {
            Ok((id, called)) => {
                if adopt(runtime, id, called) {
                    answered.insert(id);
                }
            }
            Err(error) => tracing::error!(%error, "adopting a host failed"),
        }
    }
    clear_old(runtime);
    enter_lost(runtime, &answered).await;
}

/// Whether there is a host.
fn adopt(runtime: &Arc<Inner>, id: SessionId, called: Called) -> bool {
    match called {
        Called::Answered(greeted) => enter(runtime, id, *greeted),
        Called::Silent { pid: Some(pid), greeting } => match remains::last_info(&runtime.places(id)) {
            Some(info) => {
                tracing::warn!(session = %id, host_pid = pid, "a host does not answer yet: its session waits for it");
                runtime.wait_for(info, pid, greeting);
            }
            None => enter_later(runtime, id, greeting),
        },
        Called::Silent { pid: None, greeting } => enter_later(runtime, id, greeting),
        Called::Refused(error) => {
            tracing::warn!(session = %id, %error, "a host was left alone");
            let info = remains::last_info(&runtime.places(id));
            if let Some(info) = info {
                runtime.registry.enter_past(info, End::Foreign { reason: error.to_string() });
            }
        }
        Called::Gone => {
            runtime.places(id).remove_socket();
            tracing::info!(session = %id, "the socket of a dead host was removed");
            return false;
        }
        Called::Unreachable(error) => tracing::warn!(session = %id, %error, "a host was left alone"),
    }
    true
}

fn enter(runtime: &Arc<Inner>, id: SessionId, greeted: Greeted) {
    if greeted.session.session_id != id {
        tracing::warn!(session = %id, "a host answers for another session: left alone");
        return;
    }
    let host_pid = greeted.session.host_pid;
    let process = HostProcess::of(host_pid);
    match runtime.take_over(greeted, process, |session| runtime.registry.adopt(session)) {
        Ok(_) => tracing::info!(session = %id, host_pid, "a living session was adopted"),
        Err(error) => tracing::error!(session = %id, %error, "a living session was left alone"),
    }
}

/// A host of which nothing is known is entered when it answers.
fn enter_later(runtime: &Arc<Inner>, id: SessionId, greeting: Greeting) {
    let runtime = Arc::clone(runtime);
    tokio::spawn(async move {
        match greeting.await {
            Ok(Ok(greeted)) => enter(&runtime, id, greeted),
            Ok(Err(error)) => tracing::warn!(session = %id, %error, "a host was left alone"),
            Err(error) => tracing::error!(session = %id, %error, "greeting a host failed"),
        }
    });
}

/// Enters the sessions whose hosts are gone, and ends what they left running.
async fn enter_lost(runtime: &Arc<Inner>, answered: &HashSet<SessionId>) {
    let mut lost = Vec::new();
    for id in ids_in(&runtime.config.state_dir.join("sessions"), "") {
        let places = runtime.places(id);
        if answered.contains(&id) || places.socket.exists() {
            continue;
        }
        let info = remains::final_info(&places).await;
        let Some(info) = info.filter(|info| info.session_id == id) else { continue };
        if is_host(info.host_pid, &runtime.config) {
            if !reach_late(runtime, id).await {
                tracing::warn!(session = %id, host_pid = info.host_pid, "a host lives without its socket: left alone");
            }
        } else {
            tracing::info!(session = %id, "a session is lost: its host is gone");
            runtime.registry.enter_past(info, End::Lost);
            lost.push(id);
        }
    }
    orphans::end(lost).await;
}

/// A host that has just lost its daemon makes its socket again if that was removed.
async fn reach_late(runtime: &Arc<Inner>, id: SessionId) -> bool {
    let socket = runtime.places(id).socket;
    let begun = Instant::now();
    while !socket.exists() {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    adopt_after_all(runtime, id).await
}

async fn call(socket: &Path) -> Called {
    let stream = match UnixStream::connect(socket).await {
        Ok(stream) => stream,
        Err(error) if is_stale(&error) => return Called::Gone,
        Err(error) => return Called::Unreachable(error),
    };
    let pid = stream.peer_cred().ok().and_then(|peer| peer.pid()).and_then(|pid| u32::try_from(pid).ok());
    let mut greeting = tokio::spawn(greet(stream, None));
    match tokio::time::timeout(PATIENCE, &mut greeting).await {
        Ok(Ok(Ok(greeted))) => Called::Answered(Box::new(greeted)),
        // It ended while it was asked.
        Ok(Ok(Err(GreetError::Silent))) => Called::Gone,
        Ok(Ok(Err(GreetError::Io(error)))) => Called::Unreachable(error),
        Ok(Ok(Err(error))) => Called::Refused(error),
        Ok(Err(error)) => Called::Unreachable(io::Error::other(error)),
        Err(_) => Called::Silent { pid, greeting },
    }
}

fn is_stale(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Adopts the host of a session that was thought to be lost; false if it is indeed gone.
pub(crate) async fn adopt_after_all(runtime: &Arc<Inner>, id: SessionId) -> bool {
    let called = call(&runtime.places(id).socket).await;
    adopt(runtime, id, called)
}

/// Removes the socket of a host whose connection broke, if the host is gone as well.
pub(crate) async fn remove_if_dead(places: &Places) {
    match UnixStream::connect(&places.socket).await {
        Err(error) if is_stale(&error) => places.remove_socket(),
        other => {
            let socket = places.socket.display();
            tracing::warn!(%socket, alive = other.is_ok(), "a lost host may be alive: its socket is left");
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
        if !places.socket.exists() && unused_for(&places).is_some_and(|age| age >= unused) {
            places.remove_all();
            tracing::info!(session = %id, "what was left of a session was removed");
        }
    }
}

/// By what the session wrote last or, if that cannot be read, by the time of its directory.
fn unused_for(places: &Places) -> Option<Duration> {
    if let Some(written) = remains::last_written(places) {
        return Some(written.age(&Moment::now()));
    }
    let used = places.state_dir.metadata().and_then(|meta| meta.modified()).ok()?;
    Some(SystemTime::now().duration_since(used).unwrap_or_default())
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
