//! What each event means in each stage. [`super::Driver::handle`] is the only caller.

use std::time::{Duration, Instant};

use super::event::{
    AskState, Attempt, CommandEnd, Effect, Exit, Launched, Next, Note, OwnLine, Prompt, Purpose,
};
use super::event::{StartupFailure, StateRead, Status, Unknown};
use super::stage::{Restore, Stage, StartupFiles};
use super::starting::{after_files, restore, without_files};
use super::stop::{Stop, Why};
use super::{Driver, Effects, LINE_TIMEOUT};

/// A command that takes longer than this can afford a more careful look at the shell.
const PROMPT_DUE: Duration = Duration::from_millis(20);
/// A shell that is silent for this long after an interrupt waits for a stray process.
const SILENT: Duration = Duration::from_millis(200);
/// After an interrupt at the prompt the next line runs, or, if a trap for INT has returned, the
/// line after it.
const REPEATS: u32 = 2;

impl Driver {
    pub(super) fn on_prompt(
        &mut self,
        stage: Stage,
        prompt: Prompt,
        now: Instant,
        effects: &mut Effects,
    ) -> Stage {
        match stage {
            Stage::Starting { restore, startup_files, .. } => {
                if startup_files == StartupFiles::Interrupted {
                    effects.push_back(Effect::CloseStrayWatch);
                }
                after_files(restore, now, effects)
            }
            Stage::Running { exec, deadline, stop, .. } => {
                self.on_command_over(Over { exec, deadline, stop, asked: false }, prompt, now, effects)
            }
            Stage::Asking { exec, exec_deadline: deadline, stop, .. } => {
                self.on_command_over(Over { exec, deadline, stop, asked: true }, prompt, now, effects)
            }
            Stage::Clearing { exec, status, asked, stray_check, .. } => {
                with_stray_check(ask_after(exec, status, asked, now, effects), stray_check)
            }
            Stage::Settling { purpose, uncovered, deadline, stray_check } => {
                if stray_check.is_some() {
                    effects.push_back(Effect::CloseStrayWatch);
                }
                effects.push_back(Effect::ReadState { purpose });
                Stage::Settling { purpose, uncovered, deadline, stray_check: None }
            }
            stage @ (Stage::Dead | Stage::Replacing | Stage::Idle | Stage::Draining { .. }) => stage,
        }
    }

    /// The shell is back after a command, or after it was asked for the command's status.
    fn on_command_over(&mut self, over: Over, prompt: Prompt, now: Instant, effects: &mut Effects) -> Stage {
        let Over { exec, deadline, stop, asked } = over;
        let why = stop.as_ref().map(Stop::why);
        if let OwnLine::Failed { retried } = prompt.line {
            return match (retried, why) {
                (false, None) => {
                    effects.push_back(Effect::Requeue { exec });
                    abandon(Note::CouldNotRun, effects)
                }
                (false, Some(_)) => give_up(exec, Unknown::NeverRan, why, effects),
                (true, _) => give_up(exec, Unknown::CouldNotRun, why, effects),
            };
        }
        let Some(Status { code, noexec }) = prompt.report else {
            let attempt = match asked {
                false => Attempt::First,
                true if self.may_repeat() => self.next_attempt(),
                true => return give_up(exec, Unknown::NoStatus, why, effects),
            };
            effects.push_back(Effect::AskStatus(attempt));
            return Stage::Asking { exec, deadline: now + LINE_TIMEOUT, exec_deadline: deadline, stop };
        };
        if let Some(stop) = stop {
            effects.push_back(Effect::CheckStragglers { exec });
            return Stage::Draining { exec, status: code, asked, stop };
        }
        effects.push_back(Effect::Finish { exec, end: CommandEnd::Status(code), why });
        if self.ending {
            Stage::Idle
        } else if noexec {
            abandon(Note::NoExec, effects)
        } else if prompt.plain && !asked {
            effects.push_back(Effect::RecordLater { exec, status: code });
            Stage::Idle
        } else {
            ask_after(exec, code, asked, now, effects)
        }
    }

    pub(super) fn on_state_read(
        &mut self,
        stage: Stage,
        read: StateRead,
        now: Instant,
        effects: &mut Effects,
    ) -> Stage {
        let Stage::Settling { purpose, uncovered, stray_check, .. } = stage else { return stage };
        let again =
            |uncovered| Stage::Settling { purpose, uncovered, deadline: now + LINE_TIMEOUT, stray_check };
        match read {
            StateRead::Known => Stage::Idle,
            StateRead::Baseline(scripts) => restore(scripts, now, effects),
            StateRead::Unreadable if purpose == Purpose::AfterCommand && self.may_repeat() => {
                effects.push_back(Effect::AskStateAgain { attempt: self.next_attempt(), uncover: false });
                again(uncovered)
            }
            StateRead::Unreadable if !uncovered => {
                effects.push_back(Effect::AskStateAgain { attempt: Attempt::First, uncover: true });
                again(true)
            }
            // The shell has lost the words for it: the last good state goes into a new one.
            StateRead::Unreadable if purpose == Purpose::AfterCommand => abandon(Note::Unusable, effects),
            // A shell that never could print its state is used without.
            StateRead::Unreadable => Stage::Idle,
        }
    }

    /// Whether a line that had no effect may have one when it is said again.
    fn may_repeat(&self) -> bool {
        self.traits.may_run_nothing && self.repeats < REPEATS
    }

    fn next_attempt(&mut self) -> Attempt {
        self.repeats += 1;
        if self.repeats == 1 { Attempt::Interrupt } else { Attempt::Again }
    }

    pub(super) fn on_next(&mut self, stage: Stage, next: Next, now: Instant, effects: &mut Effects) -> Stage {
        match stage {
            stage @ (Stage::Idle | Stage::Dead) if self.ending => stage,
            Stage::Idle if next.history_first => {
                let purpose = Purpose::History;
                ask_state(AskState { exec: None, purpose, status: None, prompt_back: false }, now, effects)
            }
            Stage::Idle => {
                self.repeats = 0;
                effects.push_back(Effect::Launch { exec: next.exec });
                Stage::Running { exec: next.exec, deadline: None, prompt_due: None, stop: None }
            }
            Stage::Dead => {
                effects.push_back(Effect::SpawnShell);
                Stage::Replacing
            }
            stage @ (Stage::Replacing
            | Stage::Starting { .. }
            | Stage::Running { .. }
            | Stage::Asking { .. }
            | Stage::Draining { .. }
            | Stage::Clearing { .. }
            | Stage::Settling { .. }) => stage,
        }
    }

    pub(super) fn on_stragglers(
        &self,
        stage: Stage,
        alive: bool,
        now: Instant,
        effects: &mut Effects,
    ) -> Stage {
        let Stage::Draining { exec, status, asked, stop } = stage else { return stage };
        if alive && !stop.is_exhausted() {
            return Stage::Draining { exec, status, asked, stop };
        }
        let finish = Effect::Finish { exec, end: CommandEnd::Status(status), why: Some(stop.why()) };
        if self.ending {
            effects.push_back(finish);
            return Stage::Idle;
        }
        effects.extend([Effect::WatchStrays { exec }, finish, Effect::SayNothing]);
        Stage::Clearing { exec, status, asked, deadline: now + LINE_TIMEOUT, stray_check: now + SILENT }
    }

    pub(super) fn on_shell_ended(&self, stage: Stage, exit: Exit, effects: &mut Effects) -> Stage {
        let (exec, why) = match &stage {
            Stage::Running { exec, stop, .. } | Stage::Asking { exec, stop, .. } => {
                (*exec, stop.as_ref().map(Stop::why))
            }
            Stage::Draining { exec, stop, .. } => (*exec, Some(stop.why())),
            Stage::Starting { startup_files: StartupFiles::Interrupted, .. } if !self.ending => {
                // It came before the shell was prepared for it.
                return without_files(StartupFailure::Interrupted(Some(exit)), effects);
            }
            Stage::Starting { startup_files: StartupFiles::Read, .. } => {
                effects.push_back(Effect::StartupFailed(StartupFailure::Ended(exit)));
                return Stage::Dead;
            }
            Stage::Starting { .. } | Stage::Idle | Stage::Clearing { .. } | Stage::Settling { .. } => {
                effects.push_back(Effect::Note(Note::EndedBetween(exit)));
                return Stage::Dead;
            }
            Stage::Dead | Stage::Replacing => return stage,
        };
        effects.push_back(Effect::Finish { exec, end: CommandEnd::Shell(exit), why });
        effects.push_back(Effect::Note(Note::EndedWithCommand));
        Stage::Dead
    }

    pub(super) fn on_time(&self, stage: Stage, now: Instant, effects: &mut Effects) -> Stage {
        let is_due = |at: &Instant| *at <= now;
        match stage {
            Stage::Starting { deadline, startup_files: StartupFiles::Interrupted, .. }
                if is_due(&deadline) && !self.ending =>
            {
                without_files(StartupFailure::Interrupted(None), effects)
            }
            Stage::Starting { deadline, startup_files: StartupFiles::Read, .. } if is_due(&deadline) => {
                effects.extend([Effect::KillShell, Effect::StartupFailed(StartupFailure::Timeout)]);
                Stage::Dead
            }
            Stage::Starting { deadline, .. } if is_due(&deadline) => abandon(Note::NoAnswer, effects),
            Stage::Starting { restore, deadline, prompt_due, startup_files } => {
                let prompt_due = prompt_due.filter(|at| !is_due(at));
                Stage::Starting { restore, deadline, prompt_due, startup_files }
            }
            Stage::Running { exec, deadline, prompt_due, stop } => {
                let (deadline, stop) = go_on_stopping(exec, deadline, stop, now, effects);
                let prompt_due = prompt_due.filter(|at| !is_due(at) && stop.is_none());
                Stage::Running { exec, deadline, prompt_due, stop }
            }
            // The shell is stuck in a line of the engine's: in a hook or a function of the user's.
            Stage::Asking { exec, deadline, stop, .. } if is_due(&deadline) => {
                give_up(exec, Unknown::NoStatus, stop.as_ref().map(Stop::why), effects)
            }
            Stage::Asking { exec, deadline, exec_deadline, stop } => {
                let (exec_deadline, stop) = go_on_stopping(exec, exec_deadline, stop, now, effects);
                Stage::Asking { exec, deadline, exec_deadline, stop }
            }
            Stage::Draining { exec, status, asked, mut stop } => {
                if is_due(&stop.next()) {
                    next_step(&mut stop, exec, false, now, effects);
                    effects.push_back(Effect::CheckStragglers { exec });
                }
                Stage::Draining { exec, status, asked, stop }
            }
            Stage::Clearing { deadline, .. } | Stage::Settling { deadline, .. } if is_due(&deadline) => {
                abandon(Note::NoAnswer, effects)
            }
            Stage::Clearing { exec, status, asked, deadline, stray_check } => {
                let stray_check = check_strays(stray_check, now, effects);
                Stage::Clearing { exec, status, asked, deadline, stray_check }
            }
            Stage::Settling { purpose, uncovered, deadline, stray_check } => {
                let stray_check = stray_check.map(|at| check_strays(at, now, effects));
                Stage::Settling { purpose, uncovered, deadline, stray_check }
            }
            stage @ (Stage::Dead | Stage::Replacing | Stage::Idle) => stage,
        }
    }
}

/// A command that the shell has come back from.
struct Over {
    exec: u64,
    deadline: Option<Instant>,
    stop: Option<Stop>,
    asked: bool,
}

fn ask_after(exec: u64, status: i32, prompt_back: bool, now: Instant, effects: &mut Effects) -> Stage {
    let purpose = Purpose::AfterCommand;
    ask_state(AskState { exec: Some(exec), purpose, status: Some(status), prompt_back }, now, effects)
}

pub(super) fn ask_state(ask: AskState, now: Instant, effects: &mut Effects) -> Stage {
    effects.push_back(Effect::AskState(ask));
    let deadline = now + LINE_TIMEOUT;
    Stage::Settling { purpose: ask.purpose, uncovered: false, deadline, stray_check: None }
}

fn with_stray_check(stage: Stage, at: Instant) -> Stage {
    match stage {
        Stage::Settling { purpose, uncovered, deadline, .. } => {
            Stage::Settling { purpose, uncovered, deadline, stray_check: Some(at) }
        }
        stage => stage,
    }
}

/// The shell is of no use any more; the next command gets a new one.
fn abandon(note: Note, effects: &mut Effects) -> Stage {
    effects.extend([Effect::KillShell, Effect::Note(note)]);
    Stage::Dead
}

/// The shell is of no use any more, and the command in it is over with an unknown status.
fn give_up(exec: u64, unknown: Unknown, why: Option<Why>, effects: &mut Effects) -> Stage {
    let end = CommandEnd::Unknown(unknown);
    effects.extend([Effect::KillShell, Effect::Finish { exec, end, why }, Effect::Note(Note::Replaced)]);
    Stage::Dead
}

pub(super) fn on_prompt_at_terminal(stage: Stage, status: i32, effects: &mut Effects) -> Stage {
    let (exec, why) = match &stage {
        Stage::Running { exec, stop, .. } | Stage::Asking { exec, stop, .. } => {
            (*exec, stop.as_ref().map(Stop::why))
        }
        Stage::Draining { exec, stop, .. } => (*exec, Some(stop.why())),
        Stage::Dead
        | Stage::Replacing
        | Stage::Starting { .. }
        | Stage::Idle
        | Stage::Clearing { .. }
        | Stage::Settling { .. } => return stage,
    };
    effects.push_back(Effect::Finish { exec, end: CommandEnd::Status(status), why });
    abandon(Note::LineEditor, effects)
}

/// The command has the shell now, and its time begins.
pub(super) fn on_launched(stage: Stage, launched: Launched, now: Instant) -> Stage {
    match stage {
        Stage::Running { exec, stop: None, .. } => Stage::Running {
            exec,
            deadline: launched.timeout.map(|timeout| now + timeout),
            prompt_due: launched.by_prompt.then(|| now + PROMPT_DUE),
            stop: None,
        },
        stage => stage,
    }
}

/// Nothing was said, so the shell is where it was before.
pub(super) fn on_line_failed(stage: Stage, now: Instant, effects: &mut Effects) -> Stage {
    match stage {
        Stage::Starting { restore: Restore::Scripts(scripts), .. } => restore(scripts, now, effects),
        // Without descriptors there is no snapshot this time; the last one stays.
        Stage::Settling { stray_check, .. } => {
            if stray_check.is_some() {
                effects.push_back(Effect::CloseStrayWatch);
            }
            Stage::Idle
        }
        stage @ (Stage::Dead
        | Stage::Replacing
        | Stage::Starting { restore: Restore::Compare, .. }
        | Stage::Idle
        | Stage::Running { .. }
        | Stage::Asking { .. }
        | Stage::Draining { .. }
        | Stage::Clearing { .. }) => stage,
    }
}

/// A stop that is under way is not begun again: its steps follow by time.
pub(super) fn on_stop(stage: Stage, exec: u64, why: Why, now: Instant, effects: &mut Effects) -> Stage {
    match stage {
        Stage::Running { exec: running, stop: None, .. } if running == exec => {
            let stop = Some(first_step(exec, why, now, effects));
            Stage::Running { exec, deadline: None, prompt_due: None, stop }
        }
        Stage::Asking { exec: asking, deadline, stop: None, .. } if asking == exec => {
            let stop = Some(first_step(exec, why, now, effects));
            Stage::Asking { exec, deadline, exec_deadline: None, stop }
        }
        stage @ (Stage::Dead
        | Stage::Replacing
        | Stage::Starting { .. }
        | Stage::Idle
        | Stage::Running { .. }
        | Stage::Asking { .. }
        | Stage::Draining { .. }
        | Stage::Clearing { .. }
        | Stage::Settling { .. }) => stage,
    }
}

fn first_step(exec: u64, why: Why, now: Instant, effects: &mut Effects) -> Stop {
    let mut stop = Stop::new(why, now);
    next_step(&mut stop, exec, true, now, effects);
    stop
}

fn next_step(stop: &mut Stop, exec: u64, shell: bool, now: Instant, effects: &mut Effects) {
    let step = stop.step(now);
    effects.push_back(Effect::Signal { exec, step, shell });
}

/// The next step of a stop that is due, or the first one of a command whose time is over.
fn go_on_stopping(
    exec: u64,
    deadline: Option<Instant>,
    stop: Option<Stop>,
    now: Instant,
    effects: &mut Effects,
) -> (Option<Instant>, Option<Stop>) {
    match (stop, deadline) {
        (Some(mut stop), _) => {
            if stop.next() <= now {
                next_step(&mut stop, exec, true, now, effects);
            }
            (None, Some(stop))
        }
        (None, Some(at)) if at <= now => (None, Some(first_step(exec, Why::Timeout, now, effects))),
        (None, deadline) => (deadline, None),
    }
}

/// When the shell's silence is looked at next.
fn check_strays(at: Instant, now: Instant, effects: &mut Effects) -> Instant {
    if at > now {
        return at;
    }
    effects.push_back(Effect::EndStrays);
    now + SILENT
}
