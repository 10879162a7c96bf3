//! Sessions and commands on other daemons, for lists of everything. A daemon that does not answer at once
//! is not waited for: what was last heard of its sessions is told, and its answer, when it comes, is kept for the next list.
//!
//! Sessions that somebody else has made over there are listed too, as far as our token sees them. They are known here by
//! their last list, and used by their id.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use trl_protocol::Fault;
use trl_protocol::exec::ExecInfo;
use trl_protocol::session::SessionList;
use trl_protocol::system::RuntimeState;

use super::{RemoteDaemon, RemoteSession};
use crate::place::Place;
use crate::runtime::Inner;

/// How long a list waits for the answer of another daemon.
const PATIENCE: Duration = Duration::from_millis(200);
/// How long an answer is waited for in the background.
const LONGEST: Duration = Duration::from_secs(30);
/// How long a list of commands waits: what is not answered is not in it.
const EXECS_PATIENCE: Duration = Duration::from_secs(2);

/// Those of all daemons that are known here.
pub(crate) async fn sessions(runtime: &Arc<Inner>) -> SessionList {
    let mut asked = JoinSet::new();
    for daemon in runtime.remotes.all(&runtime.config) {
        let runtime = Arc::clone(runtime);
        asked.spawn(async move {
            let has_answered = answers(&runtime, &daemon).await;
            (of_daemon(&runtime, &daemon), (!has_answered).then(|| daemon.name().to_owned()))
        });
    }
    let mut listed = SessionList { sessions: Vec::new(), unanswered: Vec::new() };
    for (sessions, unanswered) in asked.join_all().await {
        listed.unanswered.extend(unanswered);
        for session in sessions {
            // One daemon may have two names here.
            if !listed.sessions.iter().any(|other| other.session_id == session.id) {
                listed.sessions.push(session.info());
            }
        }
    }
    listed.unanswered.sort_unstable();
    listed
}

/// Asks for its sessions, and whether it has told them now.
async fn answers(runtime: &Arc<Inner>, daemon: &Arc<RemoteDaemon>) -> bool {
    // One that was never asked may be there. One that is out of reach is looked for in the background.
    let state = runtime.health.of(&Place::Daemon(Arc::clone(daemon))).state;
    if state == RuntimeState::Unreachable || daemon.is_overdue() {
        return false;
    }
    let (inner, asked) = (Arc::clone(runtime), Arc::clone(daemon));
    let mut answer = tokio::spawn(async move { timeout(LONGEST, reconcile(&inner, &asked)).await });
    match timeout(PATIENCE, &mut answer).await {
        Ok(answered) => matches!(answered, Ok(Ok(Ok(())))),
        Err(_) => {
            // Nobody waits for it again before this answer has come.
            daemon.set_overdue(true);
            let daemon = Arc::clone(daemon);
            tokio::spawn(async move {
                let _ = answer.await;
                daemon.set_overdue(false);
            });
            false
        }
    }
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
    // What is left is somebody else's, unless that daemon is this one, or it is being made for us: it is present
    // before it is no longer being made.
    there.retain(|info| {
        !daemon.is_making(info.name.as_deref()) && !runtime.registry.is_present(info.session_id)
    });
    let changed = runtime.remotes.set_foreign(daemon, there);
    runtime.tell_foreign(&changed);
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
            let mut execs = match timeout(EXECS_PATIENCE, daemon.execs()).await {
                Ok(Ok(execs)) => execs,
                Ok(Err(_)) | Err(_) => Vec::new(),
            };
            execs.retain(|exec| sessions.iter().any(|session| session.id == exec.session_id));
            execs
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}
