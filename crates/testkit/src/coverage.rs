//! Which ways through the code an input took, where the build counts them.
//!
//! `just fuzz` builds with LLVM's counters, a byte for each edge of the control flow. Each part of
//! the program hands its own over before anything else runs. In a build without them there are none,
//! and no input is told from another here.

use std::sync::{Mutex, MutexGuard, PoisonError};

static COUNTERS: Mutex<Vec<Counters>> = Mutex::new(Vec::new());

/// Bytes that instrumented code counts up, for as long as the process lives.
#[derive(Debug)]
struct Counters {
    first: *mut u8,
    count: usize,
}

// SAFETY: the memory is the program's own and stays; it is only touched while one thread runs a target.
unsafe impl Send for Counters {}

/// Called by what LLVM puts into each part of an instrumented program.
// SAFETY: the name is LLVM's for exactly this; nobody else defines it in a build for fuzzing.
#[unsafe(no_mangle)]
extern "C" fn __sanitizer_cov_8bit_counters_init(first: *mut u8, end: *mut u8) {
    let count = (end as usize).saturating_sub(first as usize);
    lock().push(Counters { first, count });
}

fn lock() -> MutexGuard<'static, Vec<Counters>> {
    COUNTERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What has been seen so far: for each edge, how often it was taken, in powers of two.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    seen: Vec<u8>,
}

/// What an input added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum News {
    None,
    /// A known edge, so often as never before.
    Count,
    Edge,
}

impl Coverage {
    /// To be called before a target runs.
    pub(crate) fn begin() {
        for counters in lock().iter() {
            // SAFETY: these bytes are the program's counters, and no target runs now.
            unsafe { std::ptr::write_bytes(counters.first, 0, counters.count) };
        }
    }

    /// To be called after it: what it did that was never done before.
    pub(crate) fn learn(&mut self) -> News {
        let mut news = News::None;
        let mut at = 0;
        for counters in lock().iter() {
            // SAFETY: as above.
            let taken = unsafe { std::slice::from_raw_parts(counters.first, counters.count) };
            if self.seen.len() < at + taken.len() {
                self.seen.resize(at + taken.len(), 0);
            }
            for (count, seen) in taken.iter().zip(&mut self.seen[at..]) {
                news = news.max(note(*count, seen));
            }
            at += taken.len();
        }
        news
    }
}

fn note(count: u8, seen: &mut u8) -> News {
    let Some(power) = count.checked_ilog2() else { return News::None };
    let bit = 1 << power;
    let news = match *seen {
        0 => News::Edge,
        before if before & bit == 0 => News::Count,
        _ => News::None,
    };
    *seen |= bit;
    news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_is_new_once_and_so_is_each_power_of_two() {
        let mut seen = 0;
        let news = [0, 1, 1, 2, 3, 1, 200, 255].map(|count| note(count, &mut seen));
        use News::{Count, Edge, None};
        assert_eq!(news, [None, Edge, None, Count, None, None, Count, None]);
    }
}
