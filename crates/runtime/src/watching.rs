//! Changes inside sessions, which only their hosts see. Hosts are asked to tell them once
//! somebody has subscribed; until then no command pays for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trl_protocol::change::{Change, ChangeEvent, Topic};
use trl_protocol::exec::{ExecInfo, ExecState};
use trl_protocol::wire::{FromHost, ToHost};

use crate::link::{End, Flow, Item};
use crate::runtime::Inner;
use crate::session::Session;

impl Inner {
    /// From now on every session's commands are watched, beginning with those that are asked for after this.
    pub(crate) fn watch_all(self: &Arc<Self>) {
        if !self.watching.swap(true, Ordering::Relaxed) {
            for session in self.registry.all_living() {
                self.watch(&session);
            }
        }
    }

    /// Watches a session's commands, once, if somebody wants to hear of them.
    fn watch(self: &Arc<Self>, session: &Arc<Session>) {
        if self.watching.load(Ordering::Relaxed) && session.begin_watch() {
            // A session that is over already has no commands.
            if let Ok(flow) = session.link.flow_at_once(|req| ToHost::Watch { req }) {
                tokio::spawn(follow(Arc::clone(self), Arc::clone(session), flow));
            }
        }
    }

    /// A session is there: new or adopted (`Created`), or in a new host (`Restarted`). `enter` puts it into the registry.
    pub(crate) fn session_begun(
        self: &Arc<Self>,
        session: &Arc<Session>,
        enter: impl FnOnce(Arc<Session>),
        change: Change,
    ) {
        // Before anybody can ask it for a command, and for those who began to listen while it was entered.
        self.watch(session);
        enter(Arc::clone(session));
        self.watch(session);
        self.feed.tell(of_session(session, change));
    }

    pub(crate) fn session_renamed(&self, session: &Session) {
        self.feed.tell(of_session(session, Change::Renamed));
    }

    pub(crate) fn tell_end(&self, session: &Session, end: &End) {
        let told = match end {
            End::Ended { reason } => {
                ChangeEvent { reason: Some(reason.clone()), ..of_session(session, Change::Ended) }
            }
            End::Lost => of_session(session, Change::Lost),
            End::Foreign { reason } | End::Damaged { reason } => {
                ChangeEvent { reason: Some(reason.clone()), ..of_session(session, Change::Lost) }
            }
        };
        self.feed.tell(told);
    }
}

async fn follow(runtime: Arc<Inner>, session: Arc<Session>, mut flow: Flow) {
    loop {
        match flow.next().await {
            Ok(Item::Message(FromHost::Changed { exec, session: shell, .. })) => {
                if let Some(info) = exec {
                    runtime.feed.tell(of_exec(&info));
                }
                if shell.is_some() {
                    runtime.feed.tell(of_session(&session, Change::Restarted));
                }
            }
            Ok(Item::Message(FromHost::Fault { fault, .. })) => {
                tracing::debug!(session = %session.id, message = %fault.message, "a host reports no changes");
                return;
            }
            Ok(Item::Message(_) | Item::Output(_)) => {}
            Err(_) => return,
        }
    }
}

fn of_session(session: &Session, change: Change) -> ChangeEvent {
    ChangeEvent {
        session_id: Some(session.id),
        name: session.last_info().name,
        ..ChangeEvent::new(Topic::Session, change)
    }
}

fn of_exec(info: &ExecInfo) -> ChangeEvent {
    let change = match info.state {
        ExecState::Queued => Change::Queued,
        ExecState::Running => Change::Started,
        ExecState::Finished => Change::Finished,
    };
    let outcome = info.outcome.as_ref();
    ChangeEvent {
        session_id: Some(info.session_id),
        exec_id: Some(info.exec_id),
        state: Some(info.state),
        background: Some(info.background),
        exit_code: outcome.and_then(|outcome| outcome.exit_code),
        signal: outcome.and_then(|outcome| outcome.signal.clone()),
        timed_out: outcome.map(|outcome| outcome.timed_out),
        cancelled: outcome.map(|outcome| outcome.cancelled),
        ..ChangeEvent::new(Topic::Exec, change)
    }
}
