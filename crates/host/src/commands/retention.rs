//! Which finished commands, and how much of what they wrote, are still known.

use std::time::Duration;

use trl_protocol::limits;

use super::{Commands, Phase};

/// Commands that are looked at when there is one too many.
const AT_ONCE: usize = 16;

impl Commands {
    /// Forgets the oldest finished commands beyond what is kept. Those whose output somebody still
    /// follows stay.
    pub(crate) fn prune(&mut self, is_followed: impl Fn(u64) -> bool) {
        let (execs, active) = (&self.execs, &mut self.active);
        active.retain(|number| execs.get(number).is_some_and(|exec| !exec.is_over()));
        let mut count = self.execs.len();
        // Commands are counted every time; adding up bytes takes longer and is done now and then.
        let is_inventory = self.started.is_multiple_of(16);
        if count <= limits::KEPT_EXECS && !is_inventory {
            return;
        }
        let (mut bytes, most) = match is_inventory {
            true => (self.execs.values().map(|exec| exec.journal.disk_bytes()).sum(), count),
            false => (0, AT_ONCE),
        };
        let numbers: Vec<u64> = self.execs.keys().take(most).copied().collect();
        for number in numbers {
            let Some(exec) = self.execs.get(&number) else { continue };
            let Phase::Finished { at, .. } = &exec.phase else { continue };
            let old = at.elapsed() > Duration::from_secs(limits::KEPT_EXEC_S);
            if !old && count <= limits::KEPT_EXECS && bytes <= limits::KEPT_SESSION_BYTES {
                break;
            }
            if exec.is_over() && !is_followed(number) && count > 1 {
                bytes = u64::saturating_sub(bytes, exec.journal.disk_bytes());
                count -= 1;
                if let Some(exec) = self.execs.remove(&number) {
                    self.journal.discard(exec.journal);
                }
            }
        }
    }
}
