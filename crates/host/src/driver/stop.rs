//! How a running command is ended, as a pure sequence of steps with their times.
//!
//! INT, then TERM, then KILL, with a short grace period between, until the shell is back at its
//! prompt. At each step the shell itself gets INT too, so that the rest of the user's text does
//! not continue after its current program has died. Only when nothing helps is the shell killed.

use std::time::{Duration, Instant};

/// Why a command is being ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Timeout,
    Cancel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Interrupt,
    Terminate,
    Kill,
    /// The shell does not answer: it is killed, to be replaced.
    KillShell,
}

/// How often KILL is repeated before the shell is given up: programs of one text may die one
/// after the other.
const KILLS: u32 = 10;

/// A stop in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stop {
    why: Why,
    taken: u32,
    next: Instant,
}

impl Stop {
    /// A stop whose first step is due at once.
    pub(crate) fn new(why: Why, now: Instant) -> Stop {
        Stop { why, taken: 0, next: now }
    }

    pub(crate) fn why(&self) -> Why {
        self.why
    }

    /// When the next step is due.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// Takes the next step.
    pub(crate) fn step(&mut self, now: Instant) -> Step {
        let (step, grace) = match self.taken {
            // Repeated, because a program that is just starting may not have its handlers in place.
            0 => (Step::Interrupt, Duration::from_millis(100)),
            1 | 2 => (Step::Interrupt, Duration::from_millis(200)),
            3 => (Step::Terminate, Duration::from_millis(500)),
            taken if taken < 4 + KILLS => (Step::Kill, Duration::from_millis(100)),
            _ => (Step::KillShell, Duration::from_secs(1)),
        };
        self.taken += 1;
        self.next = now + grace;
        step
    }

    /// Whether every step has been taken. Processes that are still alive are stuck in the kernel.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.taken > 4 + KILLS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milder_steps_come_first_and_the_shell_last() {
        let now = Instant::now();
        let mut stop = Stop::new(Why::Cancel, now);
        let steps: Vec<Step> = (0..16).map(|_| stop.step(now)).collect();
        assert_eq!(
            steps[..5],
            [Step::Interrupt, Step::Interrupt, Step::Interrupt, Step::Terminate, Step::Kill]
        );
        assert_eq!(steps[13..], [Step::Kill, Step::KillShell, Step::KillShell]);
    }

    #[test]
    fn every_step_but_the_last_leaves_time_for_the_next() {
        let mut now = Instant::now();
        let begun = now;
        let mut stop = Stop::new(Why::Timeout, now);
        while stop.step(now) != Step::KillShell {
            assert!(stop.next() > now && !stop.is_exhausted());
            now = stop.next();
        }
        assert!(stop.is_exhausted());
        assert_eq!(now - begun, Duration::from_millis(100 + 400 + 500 + 1000));
    }
}
