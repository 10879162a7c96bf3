//! What the shell is doing, with the deadlines that hold while it does.

use std::collections::VecDeque;
use std::time::Instant;

use super::event::Purpose;
use super::stop::Stop;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// There is no shell: it has ended, or could not be started.
    Dead,
    /// A new shell was asked for; whether there is one is not known yet.
    Replacing,
    /// The shell reads its first line, then the scripts that restore its state.
    Starting {
        restore: Restore,
        deadline: Instant,
        /// Until then the prompt alone is waited for; afterwards the control channel is watched too.
        prompt_due: Option<Instant>,
        startup_files: StartupFiles,
    },
    /// The shell waits for a line.
    Idle,
    Running {
        exec: u64,
        /// When the command's time is over; None once it is being stopped.
        deadline: Option<Instant>,
        prompt_due: Option<Instant>,
        stop: Option<Stop>,
    },
    /// The command is over, but the prompt is the user's own: the shell was asked for the status.
    Asking {
        exec: u64,
        /// When the shell must have answered.
        deadline: Instant,
        /// When the command's time is over; None once it is being stopped.
        exec_deadline: Option<Instant>,
        stop: Option<Stop>,
    },
    /// The shell is back at its prompt, but other processes of a stopped command are still alive.
    Draining { exec: u64, status: i32, asked: bool, stop: Stop },
    /// The shell reads an empty line, after a command that was interrupted.
    Clearing {
        exec: u64,
        status: i32,
        asked: bool,
        deadline: Instant,
        /// When the shell, if it is silent, is taken to wait for a stray process.
        stray_check: Instant,
    },
    /// The shell prints its state.
    Settling {
        purpose: Purpose,
        /// The functions of the user's that were in the way are uncovered.
        uncovered: bool,
        deadline: Instant,
        stray_check: Option<Instant>,
    },
}

/// The user's start-up files, which are read first. They may delay or replace the first prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartupFiles {
    None,
    Read,
    /// Somebody wants the shell to leave them.
    Interrupted,
}

/// How a fresh shell gets the last known state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Restore {
    /// Its own state is asked for first, to be compared.
    Compare,
    /// These scripts are still to be read.
    Scripts(VecDeque<String>),
}

impl Stage {
    pub(crate) fn reads_startup_files(&self) -> bool {
        matches!(self, Stage::Starting { startup_files, .. } if *startup_files != StartupFiles::None)
    }

    /// The command that has the shell.
    pub(crate) fn foreground(&self) -> Option<u64> {
        match self {
            Stage::Running { exec, .. } | Stage::Asking { exec, .. } | Stage::Draining { exec, .. } => {
                Some(*exec)
            }
            Stage::Dead
            | Stage::Replacing
            | Stage::Starting { .. }
            | Stage::Idle
            | Stage::Clearing { .. }
            | Stage::Settling { .. } => None,
        }
    }

    /// When something is due next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let next = |stop: &Option<Stop>| stop.as_ref().map(Stop::next);
        let due = match self {
            Stage::Dead | Stage::Replacing | Stage::Idle => [None; 3],
            Stage::Starting { deadline, prompt_due, .. } => [Some(*deadline), *prompt_due, None],
            Stage::Running { deadline, prompt_due, stop, .. } => [*deadline, *prompt_due, next(stop)],
            Stage::Asking { deadline, exec_deadline, stop, .. } => {
                [Some(*deadline), *exec_deadline, next(stop)]
            }
            Stage::Draining { stop, .. } => [Some(stop.next()), None, None],
            Stage::Clearing { deadline, stray_check, .. } => [Some(*deadline), Some(*stray_check), None],
            Stage::Settling { deadline, stray_check, .. } => [Some(*deadline), *stray_check, None],
        };
        due.into_iter().flatten().min()
    }
}
