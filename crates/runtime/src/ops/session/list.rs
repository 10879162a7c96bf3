//! `session.list`: all hosts are asked at once.

use std::sync::Arc;

use tokio::task::JoinSet;
use trl_protocol::session::{ListParams, SessionInfo, SessionList};

use crate::caller::Caller;
use crate::remote;
use crate::runtime::Inner;

/// Under a grant, only the sessions that were created under it, which are this daemon's own.
pub(crate) async fn perform(runtime: &Arc<Inner>, params: &ListParams, caller: &Caller) -> SessionList {
    let mut list = match params.own || caller.grant.is_some() {
        true => SessionList { sessions: own(runtime).await, unanswered: Vec::new() },
        false => all(runtime).await,
    };
    if let Some(grant) = &caller.grant {
        list.sessions.retain(|session| runtime.grants.owns(grant, session.session_id));
    }
    list
}

/// Oldest first.
pub(crate) async fn all(runtime: &Arc<Inner>) -> SessionList {
    let (mut sessions, remote) = tokio::join!(own(runtime), remote::sessions(runtime));
    sessions.extend(remote.sessions);
    SessionList { sessions: in_order(sessions), unanswered: remote.unanswered }
}

/// Without those on other daemons.
async fn own(runtime: &Arc<Inner>) -> Vec<SessionInfo> {
    let mut sessions = living(runtime).await;
    sessions.extend(runtime.registry.hostless());
    in_order(sessions)
}

fn in_order(mut sessions: Vec<SessionInfo>) -> Vec<SessionInfo> {
    sessions.sort_by(|a, b| (&a.created_at, a.session_id).cmp(&(&b.created_at, b.session_id)));
    sessions
}

/// What the hosts say. One that ends meanwhile is left out.
pub(crate) async fn living(runtime: &Arc<Inner>) -> Vec<SessionInfo> {
    let mut asked = JoinSet::new();
    for session in runtime.registry.all_living() {
        asked.spawn(async move { session.info().await });
    }
    asked.join_all().await.into_iter().flatten().collect()
}
