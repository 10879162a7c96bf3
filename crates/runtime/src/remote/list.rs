//! Sessions and commands on other daemons, for lists of everything. A daemon that does not answer in time
//! is not waited for: what was last heard of its sessions is told.
//!
//! Sessions that somebody else has made over there are listed too, as far as our token sees them. They are known here by
//! their last list, and used by their id.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use trl_protocol::Fault;
use trl_protocol::exec::ExecInfo;
use trl_protocol::session::SessionInfo;
use trl_protocol::system::RuntimeState;

use super::{RemoteDaemon, RemoteSession};
use crate::place::Place;
use crate::runtime::Inner;

const PATIENCE: Duration = Duration::from_secs(2);

/// Those of all daemons that are known here.
pub(crate) async fn sessions(runtime: &Arc<Inner>) -> Vec<SessionInfo> {
    let mut asked = JoinSet::new();
    for daemon in runtime.remotes.all(&runtime.config) {
        let runtime = Arc::clone(runtime);
        asked.spawn(async move {
            // One that was never asked may be there. One that is out of reach is looked for in the background.
            if runtime.health.of(&Place::Daemon(Arc::clone(&daemon))).state != RuntimeState::Unreachable {
                // Without an answer, what was last heard is told.
                let _ = timeout(PATIENCE, reconcile(&runtime, &daemon)).await;
            }
            of_daemon(&runtime, &daemon)
        });
    }
    let mut listed: Vec<SessionInfo> = Vec::new();
    for session in asked.join_all().await.into_iter().flatten() {
        // One daemon may have two names here.
        if !listed.iter().any(|other| other.session_id == session.id) {
            listed.push(session.info());
        }
    }
    listed
}

/// Brings what is known of a daemon's sessions up to date. One of ours that it does not know any more is over.
pub(super) async fn reconcile(runtime: &Arc<Inner>, daemon: &Arc<RemoteDaemon>) -> Result<(), Fault> {
    // Those that are made meanwhile may not be in its answer.
    let ours = runtime.registry.remote_on(daemon.name());
    let mut there = daemon.sessions().await?;
    for session in ours {
        match there.iter().position(|info| info.session_id == session.id) {
            Some(at) => {
                session.learn(there.swap_remove(at));
            }
            None => runtime.remote_over(&session, "its daemon has ended it"),
        }
    }
    // What is left is somebody else's, unless that daemon is this one.
    there.retain(|info| !runtime.registry.is_present(info.session_id));
    runtime.remotes.set_foreign(daemon, there);
    Ok(())
}

/// The sessions of one daemon, as they were last heard of.
fn of_daemon(runtime: &Inner, daemon: &RemoteDaemon) -> Vec<Arc<RemoteSession>> {
    let mut sessions = runtime.registry.remote_on(daemon.name());
    sessions.extend(runtime.remotes.foreign_on(daemon.name()));
    sessions
}

/// The commands in our own sessions over there.
pub(crate) async fn execs(runtime: &Arc<Inner>) -> Vec<ExecInfo> {
    let mut asked = JoinSet::new();
    for daemon in runtime.remotes.all(&runtime.config) {
        let sessions = runtime.registry.remote_on(daemon.name());
        if sessions.is_empty() || !daemon.is_ready() {
            continue;
        }
        asked.spawn(async move {
            let mut execs = match timeout(PATIENCE, daemon.execs()).await {
                Ok(Ok(execs)) => execs,
                Ok(Err(_)) | Err(_) => Vec::new(),
            };
            execs.retain(|exec| sessions.iter().any(|session| session.id == exec.session_id));
            execs
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}
