//! When to empty a mailbox of what was taken from it.
//!
//! Soon enough that what was taken leaves room for what comes, seldom enough that a broker
//! with thousands of mailboxes is not busy with it. What a crash leaves comes again, and
//! is known.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Parcels that may lie there taken: an eighth of the least that the mailbox holds, within this.
const AT_MOST: i64 = 256;
const WITHIN: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Purge {
    room: usize,
    taken: Option<Taken>,
}

#[derive(Debug)]
struct Taken {
    newest: u64,
    count: usize,
    due: Instant,
}

impl Purge {
    /// For a mailbox that holds so many parcels, and so many of one sender; -1 is no bound.
    pub(super) fn within(parcels: i64, of_one_sender: i64) -> Purge {
        let least = [parcels, of_one_sender].into_iter().filter(|bound| *bound > 0).min();
        let room = least.map_or(AT_MOST, |least| (least / 8).clamp(1, AT_MOST));
        Purge { room: usize::try_from(room).unwrap_or(1), taken: None }
    }

    /// This parcel was taken, and every one before it.
    pub(super) fn add(&mut self, seq: u64) {
        let due = Instant::now() + WITHIN;
        let taken = self.taken.get_or_insert(Taken { newest: seq, count: 0, due });
        taken.newest = taken.newest.max(seq);
        taken.count += 1;
    }

    pub(super) fn newest(&self) -> Option<u64> {
        self.taken.as_ref().map(|taken| taken.newest)
    }

    pub(super) fn is_due(&self) -> bool {
        self.taken.as_ref().is_some_and(|taken| taken.count >= self.room || taken.due <= Instant::now())
    }

    pub(super) async fn due(&self) {
        match &self.taken {
            Some(taken) if taken.count < self.room => sleep_until(taken.due).await,
            Some(_) => {}
            None => std::future::pending().await,
        }
    }

    /// The newest that was taken since the last time.
    pub(super) fn take(&mut self) -> Option<u64> {
        self.taken.take().map(|taken| taken.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_mailbox_is_emptied_sooner() {
        for (parcels, of_one_sender, room) in
            [(10_000, 2_000, 250), (-1, -1, 256), (5, -1, 1), (1_000_000, 1_000_000, 256), (100, 80, 10)]
        {
            let mut purge = Purge::within(parcels, of_one_sender);
            for seq in 1..room {
                purge.add(seq);
                assert!(!purge.is_due(), "{seq} of {room}");
            }
            purge.add(room);
            assert!(purge.is_due(), "{parcels} {of_one_sender}");
            assert_eq!((purge.take(), purge.take()), (Some(room), None));
        }
    }
}
