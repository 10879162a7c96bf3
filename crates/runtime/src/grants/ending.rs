//! The end of a grant: the sessions under it end, whichever daemon created them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use trl_protocol::session::DestroyParams;
use trl_protocol::{Code, SessionId};

use super::{Grant, now_ms};
use crate::ops::session::destroy;
use crate::runtime::Inner;
use crate::session::Session;

/// Ends the sessions of a grant that is over. Returns those that lived.
pub(crate) async fn end_sessions(runtime: &Arc<Inner>, grant: &Grant) -> Vec<SessionId> {
    let mut ending = JoinSet::new();
    for id in grant.sessions.clone() {
        let runtime = Arc::clone(runtime);
        ending.spawn(async move { end(&runtime, id).await.then_some(id) });
    }
    let mut ended: Vec<SessionId> = ending.join_all().await.into_iter().flatten().collect();
    ended.sort_unstable();
    ended
}

/// Whether there was something to end. One that is being created is waited for.
async fn end(runtime: &Arc<Inner>, id: SessionId) -> bool {
    if runtime.registry.is_present(id) {
        // Whatever it turns into is looked at below.
        drop(runtime.living(&id.to_string()).await);
    }
    let params = DestroyParams { session_id: id.to_string(), force: true };
    match destroy::perform(runtime, &params).await {
        Ok(_) => true,
        Err(fault) if matches!(fault.code, Code::SessionNotFound | Code::SessionTerminated) => false,
        Err(fault) => {
            tracing::warn!(session = %id, message = %fault.message, "a session under a grant did not end");
            true
        }
    }
}

/// A session of an earlier daemon answers: if its grant is over, it ends now.
pub(crate) fn check_adopted(runtime: &Arc<Inner>, session: &Session) {
    if runtime.grants.is_over(session.id) {
        let (runtime, id) = (Arc::clone(runtime), session.id);
        tokio::spawn(async move { end(&runtime, id).await });
    }
}

/// Ends what is under grants that are over or expire, until the daemon ends.
pub(crate) async fn watch(runtime: Arc<Inner>) {
    let mut changes = runtime.grants.watch();
    let mut done = HashSet::new();
    loop {
        changes.mark_unchanged();
        for grant in runtime.grants.over() {
            if done.insert(grant.id.clone()) {
                let ended = end_sessions(&runtime, &grant).await;
                tracing::info!(grant = grant.id, sessions = ended.len(), "a grant is over");
                runtime.grants.changed();
            }
        }
        let next = runtime.grants.next_expiry();
        let left = next.map(|at| Duration::from_millis(u64::try_from(at - now_ms()).unwrap_or(0) + 1));
        tokio::select! {
            () = tokio::time::sleep(left.unwrap_or_default()), if left.is_some() => {}
            _ = changes.changed() => {}
            () = runtime.stopping() => return,
        }
    }
}
