//! How far a client has read the output of its commands.
//!
//! A result that was sent is no proof that a model saw it: clients time out, crash and discard results. What a result
//! showed is therefore shown again until the client goes on from it: by naming its end (`after`), or by answering the
//! command with `input`. What `run` showed counts as seen by whoever names the `exec_id` that came with it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use trl_protocol::ExecId;

/// Commands that are remembered.
const REMEMBERED: usize = 512;

/// Offsets in stdout and stderr.
pub(crate) type Offsets = [u64; 2];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The client has all that comes before.
    pub(crate) seen: Offsets,
    /// Where the last result ended.
    pub(crate) shown: Offsets,
}

#[derive(Debug, Default)]
pub(crate) struct Readings(Mutex<HashMap<ExecId, Reading>>);

impl Readings {
    /// `run` showed the output up to here, together with the id of the command.
    pub(crate) fn started(&self, exec: ExecId, end: Offsets) {
        self.change(exec, |reading| *reading = Reading { seen: end, shown: end });
    }

    /// Where a result begins that shows what is new; `after` is what the client says it has.
    pub(crate) fn resumed(&self, exec: ExecId, after: Option<Offsets>) -> Reading {
        self.change(exec, |reading| reading.seen = after.unwrap_or(reading.seen))
    }

    /// The client answers what it was shown.
    pub(crate) fn answered(&self, exec: ExecId) -> Reading {
        self.change(exec, |reading| reading.seen = reading.shown)
    }

    pub(crate) fn showed(&self, exec: ExecId, end: Offsets) {
        self.change(exec, |reading| {
            reading.shown = [reading.shown[0].max(end[0]), reading.shown[1].max(end[1])];
        });
    }

    fn change(&self, exec: ExecId, change: impl FnOnce(&mut Reading)) -> Reading {
        let mut readings: MutexGuard<'_, HashMap<ExecId, Reading>> =
            self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if readings.len() >= REMEMBERED && !readings.contains_key(&exec) {
            readings.clear();
        }
        let reading = readings.entry(exec).or_default();
        change(reading);
        *reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_shown_is_seen_when_the_client_goes_on_from_it() {
        let exec: ExecId = "e-00000001-2".parse().unwrap();
        let readings = Readings::default();
        let seen = |after| readings.resumed(exec, after).seen;
        assert_eq!(seen(None), [0, 0]);
        readings.started(exec, [10, 2]);
        assert_eq!(seen(None), [10, 2]);
        readings.showed(exec, [20, 2]);
        assert_eq!(seen(None), [10, 2], "nothing says that it arrived");
        assert_eq!(seen(Some([15, 2])), [15, 2]);
        readings.showed(exec, [30, 5]);
        assert_eq!(readings.answered(exec).seen, [30, 5]);
        // An earlier part that is read again takes nothing back.
        readings.showed(exec, [4, 0]);
        assert_eq!(readings.answered(exec).seen, [30, 5]);
    }
}
