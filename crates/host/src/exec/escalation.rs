//! How a command is brought to an end, as a pure sequence of steps.
//!
//! INT, then TERM, then KILL, with a short grace between, until the shell is back
//! at its prompt. At each step the shell itself gets INT too, so that the rest of
//! the user's text does not go on after its current program has died. Only when
//! nothing helps is the shell ended.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Interrupt,
    Terminate,
    Kill,
    /// The shell does not answer: end it, to be replaced.
    EndShell,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Escalation {
    taken: u32,
}

/// Programs that die of KILL one after the other, before the shell is given up.
const KILLS: u32 = 10;

impl Escalation {
    /// The next step, and how long to wait for its effect.
    pub fn next(&mut self) -> (Step, Duration) {
        let step = self.taken;
        self.taken += 1;
        match step {
            // Repeated: a program that is just starting may not have its signals in place.
            0 => (Step::Interrupt, Duration::from_millis(100)),
            1 | 2 => (Step::Interrupt, Duration::from_millis(200)),
            3 => (Step::Terminate, Duration::from_millis(500)),
            kill if kill < 4 + KILLS => (Step::Kill, Duration::from_millis(100)),
            _ => (Step::EndShell, Duration::from_secs(1)),
        }
    }
}

impl Escalation {
    /// Whether everything has been tried, more than once.
    pub fn is_exhausted(self) -> bool {
        self.taken > 4 + KILLS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milder_steps_come_first_and_the_shell_last() {
        let mut escalation = Escalation::default();
        let steps: Vec<Step> = (0..16).map(|_| escalation.next().0).collect();
        assert_eq!(steps[2..5], [Step::Interrupt, Step::Terminate, Step::Kill]);
        assert_eq!(steps[13..], [Step::Kill, Step::EndShell, Step::EndShell]);
    }
}
