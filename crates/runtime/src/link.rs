//! The daemon's end of one connection to a session host.
//!
//! One task ([`LinkTask::run`]) owns the connection: it writes what callers leave in the
//! outgoing buffer and hands each frame that arrives to the request it belongs to.
//! Callers hold a [`Link`]. A caller that goes away before its answer takes its entry
//! with it and tells the host ([`ToHost::Detach`]); what it started goes on. When the
//! connection ends, every waiting caller gets the reason as a typed fault.

mod flow;
mod greet;
mod task;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot, watch};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Code, Fault, SessionId, frame};

pub(crate) use flow::{Flow, Item};
pub(crate) use greet::Greeting;
pub use greet::{GreetError, Greeted, greet};
pub(crate) use task::LinkTask;

use crate::output::Range;
use flow::Queue;

/// Bytes that may wait for a host that does not read before callers have to wait too.
const OUTGOING_HIGH: usize = 1024 * 1024;
/// Requests of one session that may wait for their answers.
const MAX_PENDING: usize = 4096;

/// Why a connection is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The host said so: destroyed, idle too long, too old.
    Ended { reason: String },
    /// The host is gone without a word.
    Lost,
    /// The host lives, but this daemon cannot speak with it.
    Foreign { reason: String },
    /// The host is gone, and what the session stored about itself cannot be used.
    Damaged { reason: String },
}

/// An answer, and the output that came before it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) message: FromHost,
    pub(crate) ranges: Vec<Range>,
}

#[derive(Debug)]
enum Waiter {
    /// One answer. `at_start`: a command's start is all that is waited for.
    Answer {
        to: oneshot::Sender<Result<Answer, End>>,
        ranges: Vec<Range>,
        at_start: bool,
    },
    Flow(Arc<Queue>),
}

#[derive(Debug, Default)]
struct State {
    outgoing: Vec<u8>,
    pending: HashMap<u64, Waiter>,
    last_req: u64,
    end: Option<End>,
}

#[derive(Debug)]
struct Shared {
    session: SessionId,
    state: Mutex<State>,
    /// There is something to write.
    outgoing: Notify,
    /// There is room again in the outgoing buffer.
    room: Notify,
    end: watch::Sender<Option<End>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, state: &mut State, message: &ToHost) {
        if let Err(error) = frame::put_json(&mut state.outgoing, message) {
            tracing::error!(session = %self.session, %error, "a message to a host could not be written");
        }
        self.outgoing.notify_one();
    }

    fn forget(&self, req: u64) {
        let mut state = self.lock();
        if state.pending.remove(&req).is_some() && state.end.is_none() {
            self.say(&mut state, &ToHost::Detach { req });
        }
    }
}

/// A handle to a session's host.
#[derive(Debug, Clone)]
pub(crate) struct Link(Arc<Shared>);

impl Link {
    /// Takes requests at once; they are sent when a [`LinkTask`] runs for it.
    pub(crate) fn new(session: SessionId) -> Link {
        Link(Arc::new(Shared {
            session,
            state: Mutex::default(),
            outgoing: Notify::new(),
            room: Notify::new(),
            end: watch::Sender::new(None),
        }))
    }

    /// Asks and waits for the one answer; a fault of the host's is returned as it is.
    pub(crate) async fn call(&self, message: impl FnOnce(u64) -> ToHost) -> Result<Answer, Fault> {
        self.ask(message, false).await?.answer().await
    }

    /// As [`Link::call`], but the command's start is the answer.
    pub(crate) async fn start(&self, message: impl FnOnce(u64) -> ToHost) -> Result<Answer, Fault> {
        self.ask(message, true).await?.answer().await
    }

    /// Asks; the answer can then be waited for, or not.
    pub(crate) async fn request(&self, message: impl FnOnce(u64) -> ToHost) -> Result<PendingAnswer, Fault> {
        self.ask(message, false).await
    }

    async fn ask(&self, message: impl FnOnce(u64) -> ToHost, at_start: bool) -> Result<PendingAnswer, Fault> {
        let (to, answer) = oneshot::channel();
        let waiter = Waiter::Answer { to, ranges: Vec::new(), at_start };
        let pending = self.send(message, waiter).await?;
        Ok(PendingAnswer { pending, answer })
    }

    /// Asks for everything that comes, until the final message.
    pub(crate) async fn flow(&self, message: impl FnOnce(u64) -> ToHost) -> Result<Flow, Fault> {
        let queue = Arc::new(Queue::default());
        let pending = self.send(message, Waiter::Flow(Arc::clone(&queue))).await?;
        Ok(Flow::new(pending, queue))
    }

    /// As [`Link::flow`], also if the host does not read: what is asked for after this comes later for the host, too.
    pub(crate) fn flow_at_once(&self, message: impl FnOnce(u64) -> ToHost) -> Result<Flow, Fault> {
        let queue = Arc::new(Queue::default());
        let pending = self.enqueue(message, Waiter::Flow(Arc::clone(&queue)))?;
        Ok(Flow::new(pending, queue))
    }

    async fn send(
        &self,
        message: impl FnOnce(u64) -> ToHost,
        waiter: Waiter,
    ) -> Result<PendingRequest, Fault> {
        let shared = &self.0;
        loop {
            // Made before the look, so that room made in between is not missed.
            let room = shared.room.notified();
            if shared.lock().outgoing.len() <= OUTGOING_HIGH {
                break;
            }
            room.await;
        }
        self.enqueue(message, waiter)
    }

    fn enqueue(&self, message: impl FnOnce(u64) -> ToHost, waiter: Waiter) -> Result<PendingRequest, Fault> {
        let shared = &self.0;
        let mut state = shared.lock();
        if let Some(end) = &state.end {
            return Err(self.over(end));
        }
        if state.pending.len() >= MAX_PENDING {
            return Err(Fault::new(
                Code::ResourcePressure,
                format!(
                    "{MAX_PENDING} requests already wait for session {}; use another session, or try again later",
                    shared.session
                ),
            ));
        }
        state.last_req += 1;
        let req = state.last_req;
        state.pending.insert(req, waiter);
        shared.say(&mut state, &message(req));
        Ok(PendingRequest { link: self.clone(), req })
    }

    /// Why and when the connection is over.
    pub(crate) async fn ended(&self) -> End {
        let mut end = self.0.end.subscribe();
        match end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(End::Lost),
            Err(_) => End::Lost,
        }
    }

    /// Tells everybody who waits that the connection is over.
    pub(crate) fn release(&self, end: &End) {
        let shared = &self.0;
        let pending = {
            let mut state = shared.lock();
            state.end = Some(end.clone());
            state.outgoing = Vec::new();
            std::mem::take(&mut state.pending)
        };
        for (_, waiter) in pending {
            match waiter {
                // Nobody may listen any more; then nobody misses it.
                Waiter::Answer { to, .. } => drop(to.send(Err(end.clone()))),
                Waiter::Flow(queue) => queue.end(end.clone()),
            }
        }
        shared.end.send_replace(Some(end.clone()));
        shared.room.notify_waiters();
    }

    fn over(&self, end: &End) -> Fault {
        session_over(self.0.session, end)
    }
}

/// What a caller hears about a session that is over.
pub(crate) fn session_over(session: SessionId, end: &End) -> Fault {
    let (message, state) = match end {
        End::Ended { reason } => (format!("session {session} has ended ({reason})"), "terminated"),
        End::Lost => (
            format!(
                "session {session} is lost: its host process is gone; session.restart brings a shell back with its \
                 last state, session.destroy forgets it"
            ),
            "lost",
        ),
        End::Foreign { reason } => (
            format!(
                "session {session} is alive, but out of this daemon's reach: {reason}; restart the daemon with that version"
            ),
            "foreign",
        ),
        End::Damaged { reason } => {
            (format!("session {session} is damaged: {}", damage_text(reason)), "damaged")
        }
    };
    Fault::new(Code::SessionTerminated, message)
        .with_details(serde_json::json!({ "session_id": session, "state": state }))
}

/// What is wrong with a damaged session, and what can be done.
pub(crate) fn damage_text(reason: &str) -> String {
    format!(
        "its host is gone, and {reason}; exec.list and exec.output still tell what its commands printed; \
         session.destroy removes it, then create a new session"
    )
}

/// A request that is on its way; dropped, nobody waits for its answer.
#[derive(Debug)]
pub(crate) struct PendingAnswer {
    pending: PendingRequest,
    answer: oneshot::Receiver<Result<Answer, End>>,
}

impl PendingAnswer {
    pub(crate) async fn answer(mut self) -> Result<Answer, Fault> {
        self.arrived().await
    }

    /// As [`PendingAnswer::answer`], but can be waited for again after a time-out. Resolves once.
    pub(crate) async fn arrived(&mut self) -> Result<Answer, Fault> {
        let answer = (&mut self.answer).await.unwrap_or(Err(End::Lost));
        let answer = answer.map_err(|end| self.pending.link.over(&end))?;
        match answer.message {
            FromHost::Fault { fault, .. } => Err(fault),
            _ => Ok(answer),
        }
    }
}

/// A request's entry among those that wait; dropped, it is taken back.
#[derive(Debug)]
struct PendingRequest {
    link: Link,
    req: u64,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.link.0.forget(self.req);
    }
}
