//! What a client has just sent, so that it is not sent twice.
//!
//! A client that lost a result tries again, and a model that does so writes the same words. Within a short time
//! that is a repetition, not a second message. Each message has an id under which the daemon sends it once: so
//! a repetition is harmless also while the first call is under way, or if nobody knows what became of it.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// For so long the same words are the same message.
const WITHIN: Duration = Duration::from_secs(120);
const REMEMBERED: usize = 64;

/// What makes two messages the same: recipient, text and all that was said about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Repeat(u64);

impl Repeat {
    pub(crate) fn new(parts: &[Option<&String>]) -> Repeat {
        let mut hasher = DefaultHasher::new();
        parts.hash(&mut hasher);
        Repeat(hasher.finish())
    }
}

/// One try to send a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) send_id: String,
    /// An earlier try succeeded.
    pub(crate) is_sent: bool,
}

#[derive(Debug)]
struct Row {
    key: Repeat,
    at: Instant,
    attempt: Attempt,
}

#[derive(Debug, Default)]
pub(crate) struct Repeats(Mutex<VecDeque<Row>>);

impl Repeats {
    /// The same words again are the same attempt.
    pub(crate) fn begin(&self, key: Repeat) -> Attempt {
        let mut rows = self.rows();
        if let Some(row) = rows.iter().find(|row| row.key == key) {
            return row.attempt.clone();
        }
        let attempt = Attempt { send_id: random_id(key), is_sent: false };
        rows.push_back(Row { key, at: Instant::now(), attempt: attempt.clone() });
        if rows.len() > REMEMBERED {
            rows.pop_front();
        }
        attempt
    }

    pub(crate) fn note_sent(&self, key: Repeat) {
        if let Some(row) = self.rows().iter_mut().find(|row| row.key == key) {
            row.attempt.is_sent = true;
        }
    }

    pub(crate) fn forget(&self) {
        self.rows().clear();
    }

    /// Without those whose time is over.
    fn rows(&self) -> MutexGuard<'_, VecDeque<Row>> {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while rows.front().is_some_and(|row| row.at.elapsed() > WITHIN) {
            rows.pop_front();
        }
        rows
    }
}

/// Where the system gives no random bytes, the message itself has to do.
fn random_id(Repeat(key): Repeat) -> String {
    format!("mcp-{:016x}", getrandom::u64().unwrap_or(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_words_have_one_id() {
        let (text, other) = ("x".to_owned(), "y".to_owned());
        let (key, another) = (Repeat::new(&[Some(&text), None]), Repeat::new(&[Some(&other), None]));
        let repeats = Repeats::default();
        let first = repeats.begin(key);
        assert!(!first.is_sent);
        // Nobody knows yet what became of the first.
        assert_eq!(repeats.begin(key), first);
        repeats.note_sent(key);
        assert_eq!(repeats.begin(key), Attempt { is_sent: true, ..first.clone() });
        let second = repeats.begin(another);
        assert!(second.send_id != first.send_id && !second.is_sent);
    }
}
