//! How much an agent and one peer may say to each other: a bucket for each way.
//!
//! In memory only: counting rows would make each message dearer than the last, and a
//! restart that forgives a minute harms nobody.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const MINUTE_MS: f64 = 60_000.0;
/// Buckets that are full again say nothing and are dropped when there are this many.
const KEPT: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Outgoing,
    Incoming,
    /// Words about packets that seem to be repeated.
    AboutReplays,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    full: f64,
    left: f64,
    at: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<HashMap<(i64, String, Direction), Bucket>>);

impl Rates {
    /// Takes one; `false` if the bucket is empty.
    pub(crate) fn take(&self, agent_id: i64, peer: &str, way: Direction, per_minute: u32, now: i64) -> bool {
        let full = f64::from(per_minute);
        let mut buckets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= KEPT {
            buckets.retain(|_, bucket| bucket.refilled(now).left < bucket.full);
        }
        let bucket =
            buckets.entry((agent_id, peer.to_owned(), way)).or_insert(Bucket { full, left: full, at: now });
        *bucket = bucket.refilled(now);
        if bucket.left < 1.0 {
            return false;
        }
        bucket.left -= 1.0;
        true
    }
}

impl Bucket {
    fn refilled(self, now: i64) -> Bucket {
        let passed = (now - self.at).max(0) as f64;
        let left = (self.left + passed * self.full / MINUTE_MS).min(self.full);
        Bucket { left, at: now, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let rates = Rates::default();
        let take = |way, now| rates.take(1, "p", way, 2, now);
        assert!(
            take(Direction::Outgoing, 0) && take(Direction::Outgoing, 0) && !take(Direction::Outgoing, 0)
        );
        assert!(take(Direction::Incoming, 0));
        assert!(
            !take(Direction::Outgoing, 29_000)
                && take(Direction::Outgoing, 30_000)
                && !take(Direction::Outgoing, 30_000)
        );
        // A clock that goes back gives nothing.
        assert!(!take(Direction::Outgoing, 0));
    }

    #[test]
    fn many_others_neither_refill_a_bucket_nor_stay_for_ever() {
        let rates = Rates::default();
        let take = |peer: &str, now| rates.take(1, peer, Direction::Incoming, 1, now);
        let count = || rates.0.lock().unwrap().len();
        assert!(take("p", 0) && !take("p", 0));
        for n in 0..KEPT {
            take(&n.to_string(), 0);
        }
        assert!(!take("p", 0));
        assert_eq!(count(), KEPT + 1);
        assert!(take("p", 60_000));
        assert_eq!(count(), 1, "those that are full again say nothing");
    }
}
