//! Which finished commands, and how much of what they wrote, are still known.

use std::time::Duration;

use trl_protocol::limits;

use crate::exec::Phase;
use crate::host::Host;

/// Commands that are looked at when there is one too many.
const AT_ONCE: usize = 16;

impl Host {
    /// Forgets the oldest finished commands beyond what is kept.
    pub(crate) fn prune(&mut self) {
        let (execs, active) = (&self.execs, &mut self.active);
        active.retain(|number| execs.get(number).is_some_and(|exec| !exec.is_over()));
        let mut count = self.execs.len();
        // Counting bytes is for now and then; counting commands is for every time.
        let is_inventory = self.command_count.is_multiple_of(16);
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
            let followed = self.subscriptions.iter().any(|subscription| subscription.exec == number);
            if exec.is_over() && !followed && count > 1 {
                bytes = u64::saturating_sub(bytes, exec.journal.disk_bytes());
                count -= 1;
                if let Some(exec) = self.execs.remove(&number) {
                    self.journal.discard(exec.journal);
                }
            }
        }
    }
}
