//! Sessions and commands on other daemons, for lists of everything. A daemon that does not answer in time
//! is not waited for: what was last heard of its sessions is told.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use trl_protocol::exec::{ExecInfo, ListParams};
use trl_protocol::session::SessionInfo;
use trl_protocol::system::NoParams;
use trl_protocol::{Fault, methods};

use super::{RemoteDaemon, RemoteSession};
use crate::runtime::Inner;

const PATIENCE: Duration = Duration::from_secs(2);

/// The sessions of each daemon.
fn by_daemon(runtime: &Inner) -> Vec<(Arc<RemoteDaemon>, Vec<Arc<RemoteSession>>)> {
    let mut all = BTreeMap::new();
    for session in runtime.registry.all_remote() {
        let name = session.daemon.name().to_owned();
        let entry = all.entry(name).or_insert_with(|| (Arc::clone(&session.daemon), Vec::new()));
        entry.1.push(session);
    }
    all.into_values().collect()
}

pub(crate) async fn sessions(runtime: &Arc<Inner>) -> Vec<SessionInfo> {
    let mut asked = JoinSet::new();
    for (daemon, sessions) in by_daemon(runtime) {
        let runtime = Arc::clone(runtime);
        asked.spawn(async move {
            if daemon.is_ready() {
                // Without an answer, what was last heard is told.
                let _ = timeout(PATIENCE, reconcile(&runtime, &daemon, &sessions)).await;
            }
            let is_there = |session: &Arc<RemoteSession>| runtime.registry.is_present(session.id);
            sessions.into_iter().filter(is_there).map(|session| session.info()).collect::<Vec<_>>()
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}

/// Brings what is known of these sessions up to date. One that its daemon does not know any more is over.
pub(super) async fn reconcile(
    runtime: &Arc<Inner>,
    daemon: &RemoteDaemon,
    sessions: &[Arc<RemoteSession>],
) -> Result<(), Fault> {
    let mut there: BTreeMap<_, _> = daemon
        .call::<methods::SessionList>(&NoParams {})
        .await?
        .sessions
        .into_iter()
        .map(|info| (info.session_id, info))
        .collect();
    for session in sessions {
        match there.remove(&session.id) {
            Some(info) => {
                session.learn(info);
            }
            None => runtime.remote_over(session, "its daemon has ended it"),
        }
    }
    Ok(())
}

pub(super) fn of_daemon(runtime: &Inner, daemon: &RemoteDaemon) -> Vec<Arc<RemoteSession>> {
    let mut sessions = runtime.registry.all_remote();
    sessions.retain(|session| session.daemon.name() == daemon.name());
    sessions
}

pub(crate) async fn execs(runtime: &Arc<Inner>) -> Vec<ExecInfo> {
    let mut asked = JoinSet::new();
    for (daemon, sessions) in by_daemon(runtime) {
        asked.spawn(async move {
            if !daemon.is_ready() {
                return Vec::new();
            }
            let listed = daemon.call::<methods::ExecList>(&ListParams { session_id: None });
            let mut execs = match timeout(PATIENCE, listed).await {
                Ok(Ok(listed)) => listed.execs,
                Ok(Err(_)) | Err(_) => Vec::new(),
            };
            execs.retain(|exec| sessions.iter().any(|session| session.id == exec.session_id));
            execs
        });
    }
    asked.join_all().await.into_iter().flatten().collect()
}
