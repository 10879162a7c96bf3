//! The end of the session: who waits for it, which step comes next, and when.
//!
//! The shell is stopped, unless it is alone and runs no command, so that it neither continues with its text nor takes
//! its terminal from under the others; everything else gets TERM and a grace period. When only the shell is left it
//! gets HUP, with the rest of the grace period for its own traps. Then KILL for whatever is left,
//! until there is nothing below the host any more. The host is a subreaper, so no process can
//! escape. This part only decides; [`crate::host`] signals.

use std::time::{Duration, Instant};

use crate::awaited::Awaited;
use crate::commands::Requester;

const GRACE: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(50);
/// Processes that KILL does not end within this are stuck in the kernel.
const GIVE_UP: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) enum Shutdown {
    #[default]
    No,
    WindingDown(WindDown),
    /// Everyone was told that the session is over.
    Over,
}

#[derive(Debug)]
pub(crate) struct WindDown {
    requesters: Vec<Requester>,
    reason: String,
    next: Instant,
    give_up: Instant,
    forced: bool,
    /// Processes that were alive when they were last looked at.
    awaited: Option<Awaited>,
    shell_hung_up: bool,
}

/// What a request to end the session means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// The session begins to end now.
    Now,
    /// It is ending already.
    Before,
}

/// What is to be done with the processes that are still alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShutdownStep {
    /// They have time left.
    Wait,
    /// Only the shell is left: it is to hang up.
    HangUpShell,
    /// There are none: the session is over.
    Goodbye,
}

impl Shutdown {
    /// Whether the session is ending, or has ended.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self, Shutdown::No)
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Shutdown::Over)
    }

    pub(crate) fn begin(
        &mut self,
        requester: Option<Requester>,
        force: bool,
        reason: &str,
        now: Instant,
    ) -> Begun {
        match self {
            Shutdown::No => {
                *self = Shutdown::WindingDown(WindDown {
                    requesters: requester.into_iter().collect(),
                    reason: reason.to_owned(),
                    next: if force { now } else { now + GRACE },
                    give_up: now + GRACE + GIVE_UP,
                    forced: force,
                    awaited: None,
                    shell_hung_up: false,
                });
                Begun::Now
            }
            Shutdown::WindingDown(ending) => {
                ending.requesters.extend(requester);
                if force && !ending.forced {
                    ending.next = now;
                }
                Begun::Before
            }
            Shutdown::Over => Begun::Before,
        }
    }

    /// When the next step is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Shutdown::WindingDown(ending) => Some(ending.next),
            Shutdown::No | Shutdown::Over => None,
        }
    }

    pub(crate) fn awaited(&self) -> Option<&Awaited> {
        match self {
            Shutdown::WindingDown(ending) => ending.awaited.as_ref(),
            Shutdown::No | Shutdown::Over => None,
        }
    }

    /// Whether processes that were alive at the last look are still alive, so that there is no
    /// need to look at all of them again.
    pub(crate) fn still_waits(&mut self) -> bool {
        match self {
            Shutdown::WindingDown(ending) => {
                ending.awaited.as_mut().is_some_and(|awaited| !awaited.are_gone())
            }
            Shutdown::No | Shutdown::Over => true,
        }
    }

    /// Everything was sent KILL, which took this long. True if that has been tried for long enough.
    pub(crate) fn mark_killed(&mut self, now: Instant, took: Duration) -> bool {
        let Shutdown::WindingDown(ending) = self else { return false };
        ending.awaited = None;
        // Looking takes longer the more there are; they need the time to end themselves.
        ending.next = now + AGAIN.max(4 * took);
        ending.forced = true;
        if now <= ending.give_up {
            return false;
        }
        ending.reason.push_str("; some of its processes are stuck in the kernel and could not be ended");
        true
    }

    /// What follows from the number of processes that are alive; the end of `awaited` is the next
    /// event.
    pub(crate) fn consider(
        &mut self,
        alive: usize,
        only_shell: bool,
        awaited: Option<Awaited>,
    ) -> ShutdownStep {
        let Shutdown::WindingDown(ending) = self else { return ShutdownStep::Wait };
        ending.awaited = awaited;
        if alive == 0 {
            ShutdownStep::Goodbye
        } else if only_shell && !ending.shell_hung_up {
            ending.shell_hung_up = true;
            ShutdownStep::HangUpShell
        } else {
            ShutdownStep::Wait
        }
    }

    /// Ends the wind-down: who asked for it, and why it happened.
    pub(crate) fn finish(&mut self) -> Option<(Vec<Requester>, String)> {
        match std::mem::replace(self, Shutdown::Over) {
            Shutdown::WindingDown(ending) => Some((ending.requesters, ending.reason)),
            Shutdown::No | Shutdown::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(force: bool, now: Instant) -> Shutdown {
        let mut shutdown = Shutdown::default();
        assert_eq!(shutdown.begin(None, force, "asked", now), Begun::Now);
        shutdown
    }

    #[test]
    fn a_grace_period_is_given_unless_it_is_forced() {
        let now = Instant::now();
        assert_eq!(begun(false, now).next_deadline(), Some(now + GRACE));
        assert_eq!(begun(true, now).next_deadline(), Some(now));
    }

    #[test]
    fn a_second_request_may_shorten_the_grace_period_and_is_answered_too() {
        let now = Instant::now();
        let mut shutdown = begun(false, now);
        let second = Requester { link: 1, req: 2 };
        assert_eq!(shutdown.begin(Some(second), true, "again", now), Begun::Before);
        assert_eq!(shutdown.next_deadline(), Some(now));
        assert_eq!(shutdown.finish(), Some((vec![second], "asked".to_owned())));
        assert!(shutdown.is_over() && shutdown.finish().is_none());
    }

    #[test]
    fn the_shell_hangs_up_last_and_once() {
        let mut shutdown = begun(false, Instant::now());
        for (alive, only_shell, next) in [
            (2, false, ShutdownStep::Wait),
            (1, true, ShutdownStep::HangUpShell),
            (1, true, ShutdownStep::Wait),
            (0, false, ShutdownStep::Goodbye),
        ] {
            assert_eq!(shutdown.consider(alive, only_shell, None), next);
        }
    }

    #[test]
    fn processes_that_kill_does_not_end_are_given_up() {
        let now = Instant::now();
        let mut shutdown = begun(true, now);
        assert!(!shutdown.mark_killed(now, Duration::ZERO));
        assert_eq!(shutdown.next_deadline(), Some(now + AGAIN));
        assert!(shutdown.mark_killed(now + GRACE + GIVE_UP + AGAIN, Duration::ZERO));
        assert!(shutdown.finish().unwrap().1.contains("stuck in the kernel"));
    }
}
