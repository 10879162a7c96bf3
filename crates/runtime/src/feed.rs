//! What happened, in order: the changes that `events.subscribe` tells.
//!
//! The newest are kept for those who come back. Numbers begin at the time of the daemon's
//! start, so that they are larger than those of any daemon before it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use trl_protocol::change::ChangeEvent;

/// Changes that are kept.
const KEPT: usize = 4096;

#[derive(Debug)]
pub(crate) struct Feed {
    state: Mutex<State>,
    /// The number of the next change.
    next: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    kept: VecDeque<Arc<ChangeEvent>>,
}

/// What a reader finds at a sequence number.
#[derive(Debug, PartialEq)]
pub(crate) enum Lookup {
    Change(Arc<ChangeEvent>),
    /// The oldest that is kept is this one.
    Missed {
        to: u64,
    },
    Nothing,
}

impl Feed {
    pub(crate) fn new() -> Feed {
        let first = u64::try_from(jiff::Timestamp::now().as_microsecond()).unwrap_or(1);
        Feed { state: Mutex::default(), next: watch::Sender::new(first) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, mut change: ChangeEvent) {
        let mut state = self.lock();
        let seq = *self.next.borrow();
        change.seq = seq;
        change.at = format!("{:.3}", jiff::Timestamp::now());
        if state.kept.len() >= KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(Arc::new(change));
        self.next.send_replace(seq + 1);
    }

    pub(crate) fn next(&self) -> u64 {
        *self.next.borrow()
    }

    /// The change with this number.
    pub(crate) fn look(&self, seq: u64) -> Lookup {
        let state = self.lock();
        let next = *self.next.borrow();
        let oldest = next - state.kept.len() as u64;
        match seq {
            _ if seq >= next => Lookup::Nothing,
            _ if seq < oldest => Lookup::Missed { to: oldest },
            _ => state
                .kept
                .get((seq - oldest) as usize)
                .map_or(Lookup::Nothing, |it| Lookup::Change(Arc::clone(it))),
        }
    }

    /// Resolves when there is a change with this number.
    pub(crate) async fn reaches(&self, seq: u64) {
        // The sender is ours.
        let _ = self.next.subscribe().wait_for(|next| *next > seq).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trl_protocol::change::{Change, Topic};

    #[test]
    fn changes_are_found_by_their_number_until_they_are_too_many() {
        let feed = Feed::new();
        let first = feed.next();
        assert_eq!(feed.look(first), Lookup::Nothing);
        for _ in 0..KEPT + 2 {
            feed.tell(ChangeEvent::new(Topic::Session, Change::Created));
        }
        assert_eq!(feed.look(first), Lookup::Missed { to: first + 2 });
        assert_eq!(feed.look(0), Lookup::Missed { to: first + 2 });
        assert!(matches!(feed.look(first + 2), Lookup::Change(change) if change.seq == first + 2));
        assert!(matches!(feed.look(feed.next() - 1), Lookup::Change(_)));
        assert_eq!(feed.look(feed.next()), Lookup::Nothing);
    }
}
