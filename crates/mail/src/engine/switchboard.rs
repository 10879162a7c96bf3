//! Bells: who waits for what, without polling.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Wake {
    /// New mail in a session's inbox.
    Inbox(String),
    /// A reply to this outbox row came, or can no longer come.
    Reply(i64),
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
    /// Somebody who sits at a terminal has mail.
    Terminal,
    /// So many seals are durable; the witness is to note it.
    Sealed(u64),
}

/// A bell that someone listens to; it is forgotten when nobody does.
#[derive(Debug)]
pub(crate) struct Bell<'a> {
    board: &'a Switchboard,
    wake: Wake,
    pub(crate) notify: Arc<Notify>,
}

#[derive(Debug, Default)]
pub(crate) struct Switchboard {
    bells: Mutex<HashMap<Wake, Arc<Notify>>>,
}

impl Switchboard {
    pub(crate) fn listen(&self, wake: Wake) -> Bell<'_> {
        let mut bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        let notify = Arc::clone(bells.entry(wake.clone()).or_default());
        Bell { board: self, wake, notify }
    }

    pub(crate) fn ring_all(&self, wakes: &[Wake]) {
        if wakes.is_empty() {
            return;
        }
        let bells = self.bells.lock().unwrap_or_else(PoisonError::into_inner);
        for wake in wakes {
            if let Some(notify) = bells.get(wake) {
                match wake {
                    // Many may wait for these, and each looks before it waits.
                    Wake::Inbox(_) | Wake::Reply(_) => notify.notify_waiters(),
                    // One loop waits for each of these; a bell rung while it works must not be lost.
                    Wake::Pump
                    | Wake::PublishQueue
                    | Wake::Receipts
                    | Wake::Deadline
                    | Wake::Keys
                    | Wake::Lease
                    | Wake::Answer
                    | Wake::Terminal => {
                        notify.notify_one();
                    }
                    Wake::Sealed(_) => {}
                }
            }
        }
    }
}

impl Drop for Bell<'_> {
    fn drop(&mut self) {
        let mut bells = self.board.bells.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's handle and ours: nobody else listens.
        if Arc::strong_count(&self.notify) <= 2 {
            bells.remove(&self.wake);
        }
    }
}
