//! What a client has just sent, so that it is not sent twice.
//!
//! A client that lost a result tries again, and a model that does so writes the same words. Within a
//! short time that is a repetition, not a second message.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trl_protocol::mail::Sent;

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

#[derive(Debug)]
struct Row {
    key: Repeat,
    at: Instant,
    message_id: String,
    sent: Option<Sent>,
}

#[derive(Debug, Default)]
pub(crate) struct Repeats(Mutex<VecDeque<Row>>);

impl Repeats {
    pub(crate) fn find(&self, key: &Repeat) -> Option<Sent> {
        self.rows().iter().rev().find(|row| row.key == *key)?.sent.clone()
    }

    pub(crate) fn find_id(&self, key: &Repeat) -> Option<String> {
        Some(self.rows().iter().rev().find(|row| row.key == *key)?.message_id.clone())
    }

    pub(crate) fn note(&self, key: Repeat, sent: &Sent) {
        self.add(Row {
            key,
            at: Instant::now(),
            message_id: sent.message_id.clone(),
            sent: Some(sent.clone()),
        });
    }

    pub(crate) fn note_id(&self, key: Repeat, message_id: &str) {
        self.add(Row { key, at: Instant::now(), message_id: message_id.to_owned(), sent: None });
    }

    fn add(&self, row: Row) {
        let mut rows = self.rows();
        rows.push_back(row);
        if rows.len() > REMEMBERED {
            rows.pop_front();
        }
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
