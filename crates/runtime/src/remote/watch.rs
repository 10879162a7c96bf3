//! Follows what happens to our sessions on another daemon, and notices when it is out of reach and when it is back.

use std::sync::Arc;
use std::time::Duration;

use trl_client::Error;
use trl_protocol::change::{Change, ChangeEvent, SubscribeParams, Topic};
use trl_protocol::session::SessionState;

use super::{RemoteDaemon, RemoteSession, list};
use crate::runtime::Inner;

/// Between two attempts to reach it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Follows it for as long as it has sessions of ours.
pub(super) fn begin(runtime: &Arc<Inner>, daemon: &Arc<RemoteDaemon>) {
    if daemon.begin_watch() {
        tokio::spawn(watch(Arc::clone(runtime), Arc::clone(daemon)));
    }
}

async fn watch(runtime: Arc<Inner>, daemon: Arc<RemoteDaemon>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let is_reached = tokio::select! {
            is_reached = follow(&runtime, &daemon) => is_reached,
            () = no_sessions_left(&runtime, &daemon) => break,
            () = runtime.stopping() => break,
        };
        pause = if is_reached { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = no_sessions_left(&runtime, &daemon) => break,
            () = runtime.stopping() => break,
        }
    }
    daemon.end_watch();
    // One may have been made just before that.
    if runtime.check_open().is_ok() && runtime.registry.count_on(daemon.name()) > 0 {
        begin(&runtime, &daemon);
    }
}

async fn no_sessions_left(runtime: &Inner, daemon: &RemoteDaemon) {
    let mut settled = runtime.settled.subscribe();
    while runtime.registry.count_on(daemon.name()) > 0 && settled.changed().await.is_ok() {}
}

/// Whether it was reached at all.
async fn follow(runtime: &Arc<Inner>, daemon: &Arc<RemoteDaemon>) -> bool {
    let params = SubscribeParams { topics: Some(vec![Topic::Session, Topic::Exec]), from: None };
    let mut changes = match daemon.client().changes(&params).await {
        Ok(changes) => changes,
        Err(error) if end_with_grant(runtime, daemon, &error) => return false,
        // It is there, and tells its changes to others only: its list has to do.
        Err(Error::Fault(_)) => {
            reconcile(runtime, daemon).await;
            return false;
        }
        Err(error) => {
            tracing::debug!(runtime = daemon.name(), %error, "a daemon is out of reach");
            daemon.lost_contact(&error.to_string());
            return false;
        }
    };
    reconcile(runtime, daemon).await;
    loop {
        match changes.next().await {
            Ok(change) => note(runtime, daemon, change),
            Err(error) => {
                tracing::info!(runtime = daemon.name(), %error, "the connection to a daemon was lost");
                end_with_grant(runtime, daemon, &error);
                return true;
            }
        }
    }
}

/// The sessions under a grant end with it, over there and here. Whether that is what was heard.
fn end_with_grant(runtime: &Arc<Inner>, daemon: &RemoteDaemon, error: &Error) -> bool {
    let Some(reason) = daemon.end_of_grant(error) else { return false };
    daemon.lost_contact(&reason);
    for session in runtime.registry.remote_on(daemon.name()) {
        runtime.remote_over(&session, &reason);
    }
    true
}

async fn reconcile(runtime: &Arc<Inner>, daemon: &Arc<RemoteDaemon>) {
    if let Err(fault) = list::reconcile(runtime, daemon).await {
        tracing::debug!(runtime = daemon.name(), message = %fault.message, "sessions cannot be listed now");
    }
}

fn note(runtime: &Arc<Inner>, daemon: &RemoteDaemon, change: ChangeEvent) {
    let Some(session) = change.session_id.and_then(|id| runtime.registry.remote(&id.to_string())) else {
        return;
    };
    if session.daemon.name() != daemon.name() {
        return;
    }
    match (change.topic, change.change) {
        // Told when it was entered here; and its name is ours.
        (Topic::Session, Change::Created | Change::Renamed) => {}
        (Topic::Session, Change::Ended) => {
            runtime.remote_over(&session, change.reason.as_deref().unwrap_or("its daemon has ended it"));
        }
        (Topic::Session, Change::Lost) => {
            session.learn(trl_protocol::session::SessionInfo { state: SessionState::Lost, ..session.info() });
            tell(runtime, &session, change);
        }
        _ => tell(runtime, &session, change),
    }
}

/// The feed gives it a number of its own.
fn tell(runtime: &Inner, session: &RemoteSession, change: ChangeEvent) {
    let name = if change.topic == Topic::Session { session.info().name } else { change.name };
    runtime.feed.tell(ChangeEvent { name, ..change });
}

impl Inner {
    /// A session of another daemon is there.
    pub(super) fn remote_begun(&self, session: &RemoteSession) {
        self.feed.tell(of_session(session, Change::Created));
    }

    pub(super) fn remote_renamed(&self, session: &RemoteSession) {
        self.feed.tell(of_session(session, Change::Renamed));
    }

    /// A session of another daemon is over. Nothing happens if that is known.
    pub(super) fn remote_over(&self, session: &RemoteSession, reason: &str) {
        self.remotes.forget_foreign(session.id);
        if session.is_foreign || !self.registry.is_present(session.id) {
            return;
        }
        tracing::info!(session = %session.id, reason, "a session on another daemon ended");
        session.daemon.forget(session.id);
        let end = crate::link::End::Ended { reason: reason.to_owned() };
        self.registry.remove(session.info(), end);
        let change = of_session(session, Change::Ended);
        self.feed.tell(ChangeEvent { reason: Some(reason.to_owned()), ..change });
        self.settle();
    }
}

fn of_session(session: &RemoteSession, change: Change) -> ChangeEvent {
    ChangeEvent {
        session_id: Some(session.id),
        name: session.info().name,
        ..ChangeEvent::new(Topic::Session, change)
    }
}
