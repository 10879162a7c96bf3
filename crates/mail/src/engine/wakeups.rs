//! Wake-ups: tasks wait for an event instead of polling.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Wake {
    /// New mail in a session's inbox.
    Inbox(String),
    /// A reply to this outbox row came, or can no longer come.
    Reply(i64),
    /// Never rung: who listens waits for mail of this session, and takes it.
    Reader(String),
    /// A session of an agent appeared for this harness session.
    HarnessSession(String),
    /// Something waits to be sealed or published.
    Pump,
    /// Packets were sealed and only wait to be published.
    PublishQueue,
    /// Receipts wait; they may wait a little for company.
    Receipts,
    /// A deadline may now be earlier.
    Deadline,
    /// One-time keys were used.
    Keys,
    /// A lease could not be written.
    Lease,
    /// Mail that the auto-responder may answer.
    Answer,
    /// An agent on a terminal has mail.
    Terminal,
    /// The granted runtimes have changed.
    Runtimes,
    /// So many seals are durable; the witness is to note it.
    Sealed(u64),
}

/// One waiting task; an event without a listener is removed.
#[derive(Debug)]
pub(crate) struct WakeupListener<'a> {
    wakeups: &'a Wakeups,
    wake: Wake,
    pub(crate) notify: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    listeners: Mutex<HashMap<Wake, Arc<Notify>>>,
}

impl Wakeups {
    pub(crate) fn listen(&self, wake: Wake) -> WakeupListener<'_> {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let notify = Arc::clone(listeners.entry(wake.clone()).or_default());
        WakeupListener { wakeups: self, wake, notify }
    }

    pub(crate) fn is_listened_to(&self, wake: &Wake) -> bool {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).contains_key(wake)
    }

    pub(crate) fn notify_all(&self, wakes: &[Wake]) {
        if wakes.is_empty() {
            return;
        }
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        for wake in wakes {
            if let Some(notify) = listeners.get(wake) {
                match wake {
                    // Many may wait for these, and each looks before it waits.
                    Wake::Inbox(_) | Wake::Reply(_) | Wake::Reader(_) | Wake::HarnessSession(_) => {
                        notify.notify_waiters();
                    }
                    // One loop waits for each of these; a notification that comes while it works must not be lost.
                    Wake::Pump
                    | Wake::PublishQueue
                    | Wake::Receipts
                    | Wake::Deadline
                    | Wake::Keys
                    | Wake::Lease
                    | Wake::Answer
                    | Wake::Terminal
                    | Wake::Runtimes => {
                        notify.notify_one();
                    }
                    Wake::Sealed(_) => {}
                }
            }
        }
    }
}

impl Drop for WakeupListener<'_> {
    fn drop(&mut self) {
        let mut listeners = self.wakeups.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        // Only the map and this listener have it.
        if Arc::strong_count(&self.notify) <= 2 {
            listeners.remove(&self.wake);
        }
    }
}
