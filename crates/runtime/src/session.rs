//! A session as the daemon sees it: an id, a name, a link to its host, and the host's backend.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use trl_protocol::session::{SessionInfo, SessionState};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{ExecId, Fault, SessionId};

use crate::backend::{Backend, HostHandle};
use crate::link::{Answer, Link, PendingAnswer};

/// A host answers within microseconds. One that takes longer is looked at: it may be stopped.
const PROMPT_ANSWER: Duration = Duration::from_millis(20);
/// How long a host that is not stopped may take to describe its session.
const INFO_PATIENCE: Duration = Duration::from_secs(2);
/// How long the first contact with a host elsewhere may take before it counts as out of reach.
const CONTACT_PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) tty: bool,
    pub(crate) link: Link,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) host: Arc<dyn HostHandle>,
    /// The host has not answered a question in time. Until it answers that one, it is not waited for.
    unresponsive: watch::Sender<bool>,
    /// Whether this daemon has reached its host, or found it gone or out of reach.
    contact: watch::Sender<bool>,
    /// Its host was asked to tell changes.
    is_watched: AtomicBool,
    /// Its counters when this daemon created or adopted it.
    begun: Totals,
    /// Held while its name changes: one change at a time.
    pub(crate) renaming: tokio::sync::Mutex<()>,
    last_info: Mutex<SessionInfo>,
}

/// Counters of a session that only ever grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) output_bytes: [u64; 2],
    pub(crate) restarts: u64,
}

impl Totals {
    fn of(info: &SessionInfo) -> Totals {
        Totals { output_bytes: [info.stdout_bytes, info.stderr_bytes], restarts: info.restarts }
    }

    pub(crate) fn add(&mut self, more: Totals) {
        for (sum, bytes) in self.output_bytes.iter_mut().zip(more.output_bytes) {
            *sum += bytes;
        }
        self.restarts += more.restarts;
    }

    fn since(self, begun: Totals) -> Totals {
        let [stdout, stderr] = self.output_bytes;
        Totals {
            output_bytes: [
                stdout.saturating_sub(begun.output_bytes[0]),
                stderr.saturating_sub(begun.output_bytes[1]),
            ],
            restarts: self.restarts.saturating_sub(begun.restarts),
        }
    }
}

impl Session {
    pub(crate) fn new(
        info: SessionInfo,
        link: Link,
        backend: Arc<dyn Backend>,
        host: Arc<dyn HostHandle>,
    ) -> Session {
        Session {
            id: info.session_id,
            tty: info.tty,
            link,
            backend,
            host,
            unresponsive: watch::Sender::new(false),
            contact: watch::Sender::new(true),
            is_watched: AtomicBool::new(false),
            begun: Totals::of(&info),
            renaming: tokio::sync::Mutex::default(),
            last_info: Mutex::new(info),
        }
    }

    /// Whether its host is still to be asked to tell changes; true once.
    pub(crate) fn begin_watch(&self) -> bool {
        !self.is_watched.swap(true, Ordering::Relaxed)
    }

    /// Its host is elsewhere, and nobody knows yet whether it is still there.
    pub(crate) fn await_contact(&self) {
        self.contact.send_replace(false);
        self.unresponsive.send_replace(true);
    }

    /// The host answers.
    pub(crate) fn answers(&self) {
        self.unresponsive.send_replace(false);
        self.contacted();
    }

    /// It is known now what became of the host, or that it is out of reach.
    pub(crate) fn contacted(&self) {
        self.contact.send_replace(true);
    }

    /// Waits until it is known what became of the host, unless it is out of reach.
    pub(crate) async fn contact(&self) {
        let mut contact = self.contact.subscribe();
        // The sender is the session's own; the time over is as good as an answer.
        let _ = timeout(CONTACT_PATIENCE, contact.wait_for(|made| *made)).await;
    }

    pub(crate) fn exec_id(&self, number: u64) -> ExecId {
        ExecId { session: self.id, number }
    }

    /// What its host says about it now. A host that cannot answer is not waited for: what it
    /// said last is told, marked as such.
    pub(crate) async fn info(self: &Arc<Self>) -> Result<SessionInfo, Fault> {
        match self.ask_in_time(|req| ToHost::Session { req }).await {
            Some(answer) => self.learn(answer?),
            None => Ok(SessionInfo { unresponsive: true, ..self.last_info() }),
        }
    }

    /// Waits for the end of the shell's start-up files, for so long. The host's fault if they failed.
    pub(crate) async fn await_start(&self, patience: Duration) -> Result<(), Fault> {
        if self.last_info().state != SessionState::Creating {
            return Ok(());
        }
        match timeout(patience, self.link.call(|req| ToHost::AwaitReady { req })).await {
            Ok(answer) => self.learn(answer?).map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Asks the host something that it answers at once; `None` if it does not answer in time.
    pub(crate) async fn ask_in_time(
        self: &Arc<Self>,
        message: impl FnOnce(u64) -> ToHost,
    ) -> Option<Result<Answer, Fault>> {
        if !self.may_answer().await {
            return None;
        }
        // A host that reads nothing has no room for one more question.
        let mut asked = match timeout(PROMPT_ANSWER, self.link.request(message)).await {
            Ok(Ok(asked)) => asked,
            Ok(Err(fault)) => return Some(Err(fault)),
            Err(_) => return None,
        };
        if let Ok(answer) = timeout(PROMPT_ANSWER, asked.arrived()).await {
            return Some(answer);
        }
        if !self.host.is_stopped()
            && let Ok(answer) = timeout(INFO_PATIENCE, asked.arrived()).await
        {
            return Some(answer);
        }
        self.await_late_answer(asked);
        None
    }

    /// Whether there is any use in asking the host now.
    async fn may_answer(&self) -> bool {
        let mut unresponsive = self.unresponsive.subscribe();
        if !*unresponsive.borrow() {
            return true;
        }
        // It may just have been continued: then its late answer is about to arrive.
        !self.host.is_stopped()
            && timeout(PROMPT_ANSWER, unresponsive.wait_for(|unresponsive| !unresponsive)).await.is_ok()
    }

    /// The host counts as unresponsive until it answers.
    fn await_late_answer(self: &Arc<Self>, mut asked: PendingAnswer) {
        self.unresponsive.send_replace(true);
        let session = Arc::clone(self);
        tokio::spawn(async move {
            // The connection's end counts as an answer.
            let _ = asked.arrived().await;
            session.unresponsive.send_replace(false);
        });
    }

    /// Keeps what a host said about its session.
    pub(crate) fn learn(&self, answer: Answer) -> Result<SessionInfo, Fault> {
        match answer.message {
            FromHost::Session { session, .. } => {
                self.note(&session);
                Ok(self.last_info())
            }
            other => Err(unexpected(self.id, &other)),
        }
    }

    pub(crate) fn note(&self, info: &SessionInfo) {
        self.last_info.lock().unwrap_or_else(PoisonError::into_inner).clone_from(info);
    }

    /// What was counted since this daemon created or adopted it.
    pub(crate) fn totals(&self) -> Totals {
        Totals::of(&self.last_info.lock().unwrap_or_else(PoisonError::into_inner)).since(self.begun)
    }

    pub(crate) fn last_info(&self) -> SessionInfo {
        let info = self.last_info.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The host does not know what its place is called here.
        SessionInfo { runtime: Some(self.backend.display_name().to_owned()), ..info }
    }
}

/// A host's answer that is none to what was asked.
pub(crate) fn unexpected(session: SessionId, message: &FromHost) -> Fault {
    tracing::error!(%session, req = message.req(), "a host gave an answer of the wrong kind");
    Fault::internal(format!("the host of session {session} gave an answer of the wrong kind"))
}
