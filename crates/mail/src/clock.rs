//! Time as a thing that is passed in, so that tests own it.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> i64;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        i64::try_from(trl_sys::clock::unix_ms()).unwrap_or(i64::MAX)
    }
}

/// A clock that stands until it is moved.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn at(ms: i64) -> ManualClock {
        ManualClock(AtomicI64::new(ms))
    }

    pub fn advance(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}
