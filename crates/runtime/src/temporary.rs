//! Temporary sessions that are needed beyond one reply: their command may be sent again under its `run_id`, or more of
//! its output read than the reply had. The last few of them stay until their idle timeout.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;
use trl_protocol::SessionId;

use crate::caller::Caller;

/// How many stay when their command is over.
const KEPT: usize = 16;

/// Who sent it under which id.
type RunKey = (Option<Arc<str>>, String);

/// The session of a command, once it is there.
pub(crate) type SessionOfRun = Arc<OnceCell<SessionId>>;

#[derive(Debug, Default)]
pub(crate) struct TemporarySessions {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    by_run_id: HashMap<RunKey, SessionOfRun>,
    /// Oldest first.
    kept: VecDeque<SessionId>,
}

impl TemporarySessions {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The session for a command that this caller sends under `run_id`: that of the first one, if it still lives.
    pub(crate) fn of_run(
        &self,
        caller: &Caller,
        run_id: &str,
        lives: impl Fn(SessionId) -> bool,
    ) -> SessionOfRun {
        let key = (caller.grant.as_ref().map(|grant| Arc::clone(&grant.id)), run_id.to_owned());
        let mut tables = self.lock();
        // One that nobody holds and that has no session could not be created.
        tables.by_run_id.retain(|_, cell| match cell.get() {
            Some(id) => lives(*id),
            None => Arc::strong_count(cell) > 1,
        });
        Arc::clone(tables.by_run_id.entry(key).or_default())
    }

    /// Keeps a session whose command is over. Returns the one that has to make room for it.
    pub(crate) fn keep(&self, id: SessionId) -> Option<SessionId> {
        let mut tables = self.lock();
        tables.kept.retain(|kept| *kept != id);
        tables.kept.push_back(id);
        if tables.kept.len() > KEPT { tables.kept.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let sessions = TemporarySessions::default();
        for number in 0..KEPT as u32 {
            assert_eq!(sessions.keep(SessionId(number)), None);
        }
        assert_eq!(sessions.keep(SessionId(0)), None, "used again");
        assert_eq!(sessions.keep(SessionId(100)), Some(SessionId(1)));
    }
}
