//! Follows what happens to sessions on another daemon, and notices when it is out of reach and when it is back.
//!
//! A daemon is followed while it has sessions of ours, and while somebody here has subscribed to changes.

use std::sync::Arc;
use std::time::Duration;

use trl_client::Error;
use trl_protocol::Code;
use trl_protocol::change::{Change, ChangeEvent, SubscribeParams, Topic};
use trl_protocol::session::SessionState;

use super::{ForeignChanges, RemoteDaemon, RemoteSession, list};
use crate::runtime::Inner;

/// Between two attempts to reach it.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Somebody who wants to hear what happens on every daemon.
pub(crate) struct Follower(Arc<Inner>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.remotes.followers.send_modify(|count| *count -= 1);
    }
}

/// Follows every daemon that is known here until the guard is dropped.
pub(crate) fn follow_all(runtime: &Arc<Inner>) -> Follower {
    runtime.remotes.followers.send_modify(|count| *count += 1);
    for daemon in runtime.remotes.all(&runtime.config) {
        begin(runtime, &daemon);
    }
    Follower(Arc::clone(runtime))
}

/// Follows it for as long as somebody needs that.
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
            () = nobody_needs(&runtime, &daemon) => break,
            () = runtime.stopping() => break,
        };
        pause = if is_reached { FIRST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = nobody_needs(&runtime, &daemon) => break,
            () = runtime.stopping() => break,
        }
    }
    daemon.end_watch();
    // A session may have been made, or somebody have subscribed, just before that.
    if runtime.check_open().is_ok() && is_needed(&runtime, &daemon) {
        begin(&runtime, &daemon);
    }
}

fn is_needed(runtime: &Inner, daemon: &RemoteDaemon) -> bool {
    runtime.registry.count_on(daemon.name()) > 0 || *runtime.remotes.followers.borrow() > 0
}

async fn nobody_needs(runtime: &Inner, daemon: &RemoteDaemon) {
    let (mut settled, mut followers) = (runtime.settled.subscribe(), runtime.remotes.followers.subscribe());
    let mut changed = Ok(());
    while is_needed(runtime, daemon) && changed.is_ok() {
        changed = tokio::select! {
            changed = settled.changed() => changed,
            changed = followers.changed() => changed,
        };
    }
}

/// Whether it was reached at all.
async fn follow(runtime: &Arc<Inner>, daemon: &Arc<RemoteDaemon>) -> bool {
    let mut params =
        SubscribeParams { topics: Some(vec![Topic::Session, Topic::Exec]), from: None, own: true };
    let mut subscribed = daemon.client().changes(&params).await;
    if let Err(Error::Fault(fault)) = &subscribed
        && fault.code == Code::InvalidParams
    {
        // It is older than that word. What it tells of its own sessions and of those on others looks the same.
        params.own = false;
        subscribed = daemon.client().changes(&params).await;
    }
    let mut changes = match subscribed {
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
            Ok(change) => match change.session_id.and_then(|id| runtime.registry.remote(&id.to_string())) {
                Some(session) => note(runtime, daemon, &session, change),
                None if params.own => note_foreign(runtime, daemon, change).await,
                None => {}
            },
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

fn note(runtime: &Inner, daemon: &RemoteDaemon, session: &RemoteSession, change: ChangeEvent) {
    if session.daemon.name() != daemon.name() {
        return;
    }
    match (change.topic, change.change) {
        // Told when it was entered here; and its name is ours.
        (Topic::Session, Change::Created | Change::Renamed) => {}
        (Topic::Session, Change::Ended) => {
            runtime.remote_over(session, change.reason.as_deref().unwrap_or("its daemon has ended it"));
        }
        (Topic::Session, Change::Lost) => {
            session.learn(trl_protocol::session::SessionInfo { state: SessionState::Lost, ..session.info() });
            tell(runtime, session, change);
        }
        _ => tell(runtime, session, change),
    }
}

/// Something happened to a session that is not ours.
async fn note_foreign(runtime: &Arc<Inner>, daemon: &Arc<RemoteDaemon>, change: ChangeEvent) {
    let is_of_session = change.topic == Topic::Session;
    // One of ours is present before it is no longer being made.
    if is_of_session && change.change == Change::Created && daemon.is_making(change.name.as_deref()) {
        return;
    }
    let Some(id) = change.session_id.filter(|id| !runtime.registry.is_present(*id)) else { return };
    let known = || runtime.remotes.foreign(&id.to_string());
    if is_of_session && change.change != Change::Ended {
        // Its list says the rest, and a session that is new in it is told.
        reconcile(runtime, daemon).await;
    }
    let Some(session) = known().filter(|session| session.daemon.name() == daemon.name()) else { return };
    match (change.topic, change.change) {
        (Topic::Session, Change::Created) => {}
        (Topic::Session, Change::Ended) => {
            // Told once, by whoever forgets it.
            if runtime.remotes.forget_foreign(id).is_some() {
                tell(runtime, &session, change);
            }
        }
        _ => tell(runtime, &session, change),
    }
}

/// The feed gives it a number of its own.
fn tell(runtime: &Inner, session: &RemoteSession, change: ChangeEvent) {
    let name = if change.topic == Topic::Session { session.info().name } else { change.name };
    let on = Some(session.daemon.name().to_owned());
    runtime.feed.tell(ChangeEvent { name, runtime: on, ..change });
}

impl Inner {
    /// A session of another daemon is there.
    pub(super) fn remote_begun(&self, session: &RemoteSession) {
        self.feed.tell(of_session(session, Change::Created));
    }

    /// A list of another daemon's sessions differs from the one before.
    pub(super) fn tell_foreign(&self, changed: &ForeignChanges) {
        for session in &changed.new {
            self.feed.tell(of_session(session, Change::Created));
        }
        for session in &changed.gone {
            self.feed.tell(of_session(session, Change::Ended));
        }
    }

    pub(super) fn remote_renamed(&self, session: &RemoteSession) {
        self.feed.tell(of_session(session, Change::Renamed));
    }

    /// A session of another daemon is over. Nothing happens if that is known.
    pub(super) fn remote_over(&self, session: &RemoteSession, reason: &str) {
        let forgotten = self.remotes.forget_foreign(session.id);
        if session.is_foreign {
            if forgotten.is_some() {
                let change = of_session(session, Change::Ended);
                self.feed.tell(ChangeEvent { reason: Some(reason.to_owned()), ..change });
            }
            return;
        }
        if !self.registry.is_present(session.id) {
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
        runtime: Some(session.daemon.name().to_owned()),
        ..ChangeEvent::new(Topic::Session, change)
    }
}
