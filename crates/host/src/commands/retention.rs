//! Which finished commands, and how much of what they wrote, are still known.

use std::time::Duration;

use trl_protocol::limits;

use super::{Commands, Discarded, Exec, Phase};

/// Commands that are looked at when there is too much; every so many commands, all of them are.
const AT_ONCE: u64 = 16;

impl Commands {
    /// Forgets the oldest finished commands beyond what is kept. Those whose output somebody still
    /// follows stay.
    pub(crate) fn prune(&mut self, is_followed: impl Fn(u64) -> bool) {
        let (execs, active) = (&self.execs, &mut self.active);
        active.retain(|number| execs.get(number).is_some_and(|exec| !exec.is_over()));
        let is_thorough = self.started.is_multiple_of(AT_ONCE);
        if !self.is_too_much() && !is_thorough {
            return;
        }
        let mut looked_at = 0;
        let mut next = self.execs.first_key_value().map(|(number, _)| *number);
        while let Some(number) = next
            && (is_thorough || looked_at < AT_ONCE)
        {
            looked_at += 1;
            let mut rest = self.execs.range(number..);
            let exec = rest.next().map(|(_, exec)| exec);
            next = rest.next().map(|(number, _)| *number);
            let Some(exec) = exec else { return };
            let Phase::Finished { at, .. } = &exec.phase else { continue };
            let old = at.elapsed() > Duration::from_secs(limits::KEPT_EXEC_S);
            if !old && !self.is_too_much() {
                return;
            }
            if exec.is_over() && !is_followed(number) && self.execs.len() > 1 {
                self.remove(number);
            }
        }
    }

    fn is_too_much(&self) -> bool {
        self.execs.len() > limits::KEPT_EXECS || self.kept_bytes > limits::KEPT_SESSION_BYTES
    }

    /// Takes a command out of the table, with its journal.
    pub(super) fn remove(&mut self, number: u64) -> Option<Discarded> {
        let Exec { journal, requester, .. } = *self.execs.remove(&number)?;
        self.kept_bytes -= journal.disk_bytes();
        self.journal.discard(journal);
        Some(Discarded { requester })
    }
}
