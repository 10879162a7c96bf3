//! Adopts the hosts that outlived an earlier daemon, and clears away what dead ones left.
//!
//! Sessions on other machines are entered at once by what is remembered of them here, and
//! their hosts are reached in the background.
//!
//! A host that does not answer at once (it may be stopped) delays nobody: its session is
//! entered with what it last stored about itself, and requests to it wait. A session whose
//! host is gone is entered as lost: its output can be read, and it can be restarted. One
//! whose stored description is unusable is entered as damaged.
//!
//! Only addresses on which nobody listens are removed, and only stored files of sessions that
//! have no address and are older than any session may grow. When a daemon ends its sessions,
//! those that were lost before are removed with them.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use trl_protocol::SessionId;
use trl_protocol::change::Change;
use trl_protocol::session::{SessionInfo, SessionState};

use crate::backend::{
    Backend, ConnectError, Damage, GreetError, Greeted, HostHandle, Liveness, Reached, SavedSession, greet,
};
use crate::link::{End, Greeting};
use crate::runtime::Inner;

/// A living host answers at once. One that takes longer is not waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long removing what is left of lost sessions may take, per backend.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(10);

/// How a host answered.
enum Called {
    Answered(Box<Greeted>),
    /// It listens, but says nothing; it may be stopped.
    Silent {
        host: Option<Arc<dyn HostHandle>>,
        greeting: Greeting,
    },
    Refused(GreetError),
    /// Nobody listens.
    Gone,
    Unreachable(io::Error),
}

pub(crate) async fn adopt_all(runtime: &Arc<Inner>) {
    for backend in runtime.backends.all() {
        if backend.is_near() {
            adopt_from(runtime, &backend).await;
        } else {
            recall_from(runtime, &backend);
            // Another machine may be out of reach: nobody waits for it.
            let runtime = Arc::clone(runtime);
            tokio::spawn(async move { adopt_from(&runtime, &backend).await });
        }
    }
}

/// Enters the sessions of another machine by what is remembered of them here.
fn recall_from(runtime: &Arc<Inner>, backend: &Arc<dyn Backend>) {
    for info in backend.remembered() {
        let id = info.session_id;
        match backend.await_host(id) {
            Ok(awaited) => runtime.recall(backend, info, awaited),
            Err(error) => tracing::warn!(session = %id, %error, "a session elsewhere was left alone"),
        }
    }
}

/// Sessions that are entered already, new or remembered, are left as they are.
async fn adopt_from(runtime: &Arc<Inner>, backend: &Arc<dyn Backend>) {
    let mut calls = JoinSet::new();
    let is_new = |id: &SessionId| runtime.registry.is_free(*id);
    let listing = backend.list().await;
    let is_empty = listing.stored.is_empty();
    for id in listing.addresses.into_iter().filter(is_new) {
        let backend = Arc::clone(backend);
        calls.spawn(async move { (id, call(&*backend, id).await) });
    }
    let mut answered = HashSet::new();
    while let Some(called) = calls.join_next().await {
        match called {
            Ok((id, called)) => {
                if adopt(runtime, backend, id, called).await {
                    answered.insert(id);
                }
            }
            Err(error) => tracing::error!(%error, "adopting a host failed"),
        }
    }
    if is_empty {
        // Nobody has left anything, and another machine takes its time to say so again.
        return;
    }
    let oldest = Duration::try_from_secs_f64(runtime.config.session_ttl_s).unwrap_or(Duration::MAX);
    if !oldest.is_zero() {
        clear_from(runtime, &**backend, oldest).await;
    }
    enter_lost(runtime, backend, &answered).await;
}

/// Whether there is a host.
async fn adopt(runtime: &Arc<Inner>, backend: &Arc<dyn Backend>, id: SessionId, called: Called) -> bool {
    match called {
        Called::Answered(greeted) => enter(runtime, backend, id, *greeted),
        Called::Silent { host, greeting } => match (host, last_info(&**backend, id).await) {
            (Some(host), Some(info)) => {
                let name = host.describe();
                tracing::warn!(session = %id, host = name, "a host does not answer yet: its session waits for it");
                runtime.wait_for(backend, info, host, greeting);
            }
            _ => enter_later(runtime, backend, id, greeting),
        },
        Called::Refused(error) => {
            tracing::warn!(session = %id, %error, "a host was left alone");
            if let Some(info) = last_info(&**backend, id).await {
                runtime.registry.enter_past(info, End::Foreign { reason: error.to_string() }, backend);
            }
        }
        Called::Gone => {
            backend.remove_dead_address(id).await;
            tracing::info!(session = %id, "the address of a dead host was removed");
            return false;
        }
        Called::Unreachable(error) => tracing::warn!(session = %id, %error, "a host was left alone"),
    }
    true
}

async fn last_info(backend: &dyn Backend, id: SessionId) -> Option<SessionInfo> {
    backend.saved(id).await?.ok().map(|saved| saved.info)
}

fn enter(runtime: &Arc<Inner>, backend: &Arc<dyn Backend>, id: SessionId, greeted: Greeted) {
    if greeted.session.session_id != id {
        tracing::warn!(session = %id, "a host answers for another session: left alone");
        return;
    }
    let host = backend.host_of(&greeted.session);
    let name = host.describe();
    let enter = |session| runtime.registry.adopt(session);
    runtime.take_over(backend, greeted, host, enter, Change::Created);
    tracing::info!(session = %id, host = name, "a living session was adopted");
}

/// A host of which nothing is known is entered when it answers.
fn enter_later(runtime: &Arc<Inner>, backend: &Arc<dyn Backend>, id: SessionId, greeting: Greeting) {
    let (runtime, backend) = (Arc::clone(runtime), Arc::clone(backend));
    tokio::spawn(async move {
        match greeting.await {
            Ok(Ok(greeted)) => enter(&runtime, &backend, id, greeted),
            Ok(Err(error)) => tracing::warn!(session = %id, %error, "a host was left alone"),
            Err(error) => tracing::error!(session = %id, %error, "greeting a host failed"),
        }
    });
}

/// Enters the sessions whose hosts are gone, and ends the processes that they left running.
async fn enter_lost(runtime: &Arc<Inner>, backend: &Arc<dyn Backend>, answered: &HashSet<SessionId>) {
    let mut lost = Vec::new();
    // Also one that has an address by now: its host has made it again since the hosts were called.
    for id in backend.list().await.stored {
        if answered.contains(&id) || !runtime.registry.is_free(id) {
            continue;
        }
        match backend.saved(id).await {
            // It ended for good, or never began.
            None => {}
            Some(Err(Damage(reason))) => {
                tracing::warn!(session = %id, reason, "a session is damaged");
                let unused = backend.unused_for(id).await.unwrap_or_default();
                runtime.registry.enter_past(unknown_info(id, unused), End::Damaged { reason }, backend);
                lost.push(id);
            }
            Some(Ok(saved)) => lost.extend(enter_saved(runtime, backend, id, saved).await),
        }
    }
    if !lost.is_empty() {
        backend.end_orphans(lost).await;
    }
}

/// Returns the id if the session is lost.
async fn enter_saved(
    runtime: &Arc<Inner>,
    backend: &Arc<dyn Backend>,
    id: SessionId,
    saved: SavedSession,
) -> Option<SessionId> {
    match backend.find_without_address(&saved.info).await {
        Liveness::Back if adopt_after_all(runtime, backend, id).await => None,
        Liveness::Back | Liveness::Unreachable => {
            tracing::warn!(session = %id, "a host lives without its address: left alone");
            None
        }
        Liveness::Dead => {
            tracing::info!(session = %id, "a session is lost: its host is gone");
            runtime.registry.enter_past(saved.info, End::Lost, backend);
            Some(id)
        }
    }
}

/// All that is known of a session whose description cannot be read.
fn unknown_info(id: SessionId, unused: Duration) -> SessionInfo {
    let now = jiff::Timestamp::now();
    let last_used = format!("{:.3}", now.checked_sub(unused).unwrap_or(now));
    SessionInfo {
        session_id: id,
        name: None,
        shell: String::new(),
        working_dir: String::new(),
        state: SessionState::Damaged,
        env_keys: Vec::new(),
        created_at: last_used.clone(),
        last_activity: last_used,
        command_count: 0,
        timeout_s: 0.0,
        idle_timeout_s: 0.0,
        pid: None,
        host_pid: 0,
        restarts: 0,
        tty: false,
        stdout_bytes: 0,
        stderr_bytes: 0,
        running: None,
        queued: 0,
        unresponsive: false,
        runtime: None,
        foreign: None,
        damage: None,
        startup_output: None,
        confinement: Default::default(),
    }
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

async fn call(backend: &dyn Backend, id: SessionId) -> Called {
    let Reached { connection, host } = match backend.connect(id).await {
        Ok(reached) => reached,
        Err(ConnectError::Gone) => return Called::Gone,
        Err(ConnectError::Failed(error)) => return Called::Unreachable(error),
    };
    let mut greeting = tokio::spawn(greet(connection, None));
    match tokio::time::timeout(PATIENCE, &mut greeting).await {
        Ok(Ok(Ok(greeted))) => Called::Answered(Box::new(greeted)),
        // It ended while it was asked.
        Ok(Ok(Err(GreetError::Silent))) => Called::Gone,
        // The same, if it had not read the question yet.
        Ok(Ok(Err(GreetError::Io(error)))) if backend.is_near() && is_end(&error) => Called::Gone,
        Ok(Ok(Err(GreetError::Io(error)))) => Called::Unreachable(error),
        Ok(Ok(Err(error))) => Called::Refused(error),
        Ok(Err(error)) => Called::Unreachable(io::Error::other(error)),
        Err(_) => Called::Silent { host, greeting },
    }
}

/// Adopts the host of a session that was thought to be lost; false if it is indeed gone.
pub(crate) async fn adopt_after_all(runtime: &Arc<Inner>, backend: &Arc<dyn Backend>, id: SessionId) -> bool {
    let called = call(&**backend, id).await;
    adopt(runtime, backend, id, called).await
}

/// Removes what is left of sessions without a host that were last used longer ago than this.
pub(crate) async fn clear(runtime: &Inner, unused: Duration) {
    for backend in runtime.backends.all() {
        // One that is out of reach does not keep the daemon from ending.
        let _ = tokio::time::timeout(CLEAR_TIMEOUT, clear_from(runtime, &*backend, unused)).await;
    }
}

async fn clear_from(runtime: &Inner, backend: &dyn Backend, unused: Duration) {
    let listing = backend.list().await;
    let addresses: HashSet<SessionId> = listing.addresses.into_iter().collect();
    // One that is just being created has no address yet.
    let is_over = |id: &SessionId| !addresses.contains(id) && !runtime.registry.is_present(*id);
    for id in listing.stored.into_iter().filter(is_over) {
        if unused.is_zero() || backend.unused_for(id).await.is_some_and(|age| age >= unused) {
            backend.remove(id).await;
            tracing::info!(session = %id, "what was left of a session was removed");
        }
    }
}
