//! The shell's lifecycle as a state machine without I/O: events in, effects out.
//!
//! The shell is asked one line at a time and answers by coming back for the next. After each
//! command that may have changed something it prints its state, once the reply is on its way; a
//! shell that dies is replaced by one with that state.
//!
//! The driver holds no descriptor and has no clock of its own: the event loop tells it what
//! happened and when, and carries out what it asks for. [`Driver::handle`] is the only function
//! that changes the stage. Every stage × event is listed in `transitions.txt`, which a test
//! compares with the code.

mod event;
mod stage;
mod starting;
mod stop;
#[cfg(test)]
mod tests;
mod transitions;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub(crate) use event::{
    AskState, Attempt, CommandEnd, Effect, Event, Exit, Fresh, Launched, Next, Note, OwnLine, Prompt,
    Purpose, StartupFailure, StateRead, Status,
};
use stage::{Stage, StartupFiles};
use starting::{on_startup_interrupted, starting, without_files};
pub(crate) use stop::{Step, Stop, Why};
use transitions::{on_launched, on_line_failed, on_prompt_at_terminal, on_stop};

/// How long the shell may take for a line of the engine's that runs no command.
pub(crate) const LINE_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for a shell that has much to print.
const LARGE_STATE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the user's start-up files may take.
pub(crate) const STARTUP_TIMEOUT: Duration = Duration::from_secs(30);

/// What differs between shells, as far as their lifecycle is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits {
    /// An interrupt may leave the shell reading lines without running them.
    pub(crate) may_run_nothing: bool,
}

pub(crate) type Effects = VecDeque<Effect>;

#[derive(Debug)]
pub(crate) struct Driver {
    stage: Stage,
    traits: Traits,
    /// The session is being ended.
    ending: bool,
    /// Somebody waits for a new shell, until this one is at rest.
    restart: bool,
    /// Lines without effect that were said again since the last command.
    repeats: u32,
}

impl Driver {
    /// A driver for a shell that was just spawned.
    pub(crate) fn new(traits: Traits, fresh: Fresh, now: Instant) -> Driver {
        let stage = starting(fresh, now);
        Driver { stage, traits, ending: false, restart: false, repeats: 0 }
    }

    /// Performs the transition that the event causes. No other function changes the stage.
    pub(crate) fn handle(&mut self, event: Event, now: Instant, effects: &mut Effects) {
        let stage = std::mem::replace(&mut self.stage, Stage::Dead);
        let next = self.next_stage(stage, event, now, effects);
        self.stage = match next {
            Stage::Idle | Stage::Dead if self.restart && !self.ending => self.replace(effects),
            next => next,
        };
    }

    /// The command that has the shell.
    pub(crate) fn foreground(&self) -> Option<u64> {
        self.stage.foreground()
    }

    /// Whether the shell was asked for the status of its command.
    pub(crate) fn has_asked(&self) -> bool {
        matches!(self.stage, Stage::Asking { .. })
    }

    /// Whether a command that arrives now would start at once.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.stage, Stage::Idle)
    }

    /// Whether [`Event::Next`] has an effect.
    pub(crate) fn takes_next(&self) -> bool {
        matches!(self.stage, Stage::Idle | Stage::Dead) && !self.ending
    }

    /// The last command was answered, but what it changed is not known yet.
    pub(crate) fn is_settling(&self) -> bool {
        matches!(self.stage, Stage::Settling { .. } | Stage::Clearing { .. }) && !self.ending
    }

    /// Whether the shell is at work on a line of the engine's that prints its state, also while the session ends.
    pub(crate) fn is_at_own_line(&self) -> bool {
        matches!(self.stage, Stage::Settling { .. } | Stage::Clearing { .. })
    }

    /// Whether the shell is at the user's start-up files.
    pub(crate) fn reads_startup_files(&self) -> bool {
        self.stage.reads_startup_files()
    }

    /// Whether the shell's prompt is trusted to tell that it is back.
    pub(crate) fn listens_for_prompt(&self) -> bool {
        match &self.stage {
            Stage::Running { stop, .. } => stop.is_none(),
            // What a start-up file has switched on may read the first line before it is run.
            Stage::Starting { startup_files, .. } => *startup_files != StartupFiles::None,
            Stage::Dead
            | Stage::Replacing
            | Stage::Idle
            | Stage::Asking { .. }
            | Stage::Draining { .. }
            | Stage::Clearing { .. }
            | Stage::Settling { .. } => false,
        }
    }

    /// Whether the control channel is to be watched for the shell coming back.
    pub(crate) fn watches_control(&self) -> bool {
        match &self.stage {
            Stage::Starting { prompt_due, .. } | Stage::Running { prompt_due, .. } => prompt_due.is_none(),
            Stage::Dead
            | Stage::Replacing
            | Stage::Idle
            | Stage::Asking { .. }
            | Stage::Draining { .. }
            | Stage::Clearing { .. }
            | Stage::Settling { .. } => true,
        }
    }

    /// When [`Event::Time`] is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.stage.next_deadline()
    }

    fn next_stage(&mut self, stage: Stage, event: Event, now: Instant, effects: &mut Effects) -> Stage {
        match event {
            Event::Prompt(prompt) => self.on_prompt(stage, prompt, now, effects),
            Event::PromptAtTerminal { status } => on_prompt_at_terminal(stage, status, effects),
            Event::StateRead(read) => self.on_state_read(stage, read, now, effects),
            Event::StateIsLarge => match stage {
                Stage::Settling { purpose, uncovered, stray_check, .. } => {
                    Stage::Settling { purpose, uncovered, stray_check, deadline: now + LARGE_STATE_TIMEOUT }
                }
                stage => stage,
            },
            Event::LineFailed => on_line_failed(stage, now, effects),
            Event::Next(next) => self.on_next(stage, next, now, effects),
            Event::Launched(launched) => on_launched(stage, launched, now),
            Event::LaunchFailed => match stage {
                Stage::Running { .. } => Stage::Idle,
                stage => stage,
            },
            Event::Stop { exec, why } => on_stop(stage, exec, why, now, effects),
            Event::Stragglers { alive } => self.on_stragglers(stage, alive, now, effects),
            Event::ShellEnded(exit) => self.on_shell_ended(stage, exit, effects),
            Event::Spawned(fresh) => self.on_spawned(stage, fresh, now, effects),
            Event::SpawnFailed => self.on_spawn_failed(stage, effects),
            Event::StartupInterrupted => on_startup_interrupted(stage, now),
            Event::StderrReplaced if stage.reads_startup_files() && !self.ending => {
                without_files(StartupFailure::StderrReplaced, effects)
            }
            Event::StderrReplaced => stage,
            Event::Restart => self.on_restart(stage, effects),
            Event::EndSession => {
                self.ending = true;
                stage
            }
            Event::AllGone => Stage::Dead,
            Event::Time => self.on_time(stage, now, effects),
        }
    }
}
