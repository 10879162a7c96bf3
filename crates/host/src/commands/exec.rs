//! One command: its streams, its phase, and what others are told about it.

use std::collections::{BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trl_confine::linux::cgroups::Hits;
use trl_journal::ExecJournal;
use trl_protocol::exec::{ExecInfo, ExecState, FinishedFields, Outcome, Stream};
use trl_protocol::ids::{ExecId, SessionId};
use trl_protocol::wire::RunSpec;
use trl_sys::pidfd::ProcessHandle;
use trl_sys::process;

use super::output::Output;
use crate::awaited::Awaited;
use crate::cage::Visible;
use crate::driver::{Exit, Step, Stop, Why};
use crate::shell::MemFile;
use crate::shell::messages::MessageFilter;
use crate::shell::snapshot::Hidden;
use crate::strays::ProcessSnapshot;
use crate::terminal::{NextLook, Tty};
use crate::tree::{self, Process};

/// Who is to hear how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requester {
    pub(crate) link: u64,
    pub(crate) req: u64,
}

#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) number: u64,
    pub(crate) spec: RunSpec,
    pub(crate) created_at: String,
    pub(crate) started_at: Option<String>,
    pub(crate) finished_at: Option<String>,
    pub(crate) phase: Phase,
    pub(crate) journal: ExecJournal,
    pub(crate) outputs: [Option<Output>; 2],
    pub(crate) input: Input,
    /// The text, while the shell may read it.
    pub(crate) text: Option<MemFile>,
    /// What it can open by path, while it runs.
    pub(crate) shown: Vec<Visible>,
    pub(crate) requester: Option<Requester>,
    /// Who sent the same command again.
    pub(crate) repeated: Vec<Requester>,
    pub(crate) notes: Vec<String>,
    /// It could not run when it arrived.
    pub(crate) had_to_wait: bool,
    /// The first shell could not run it.
    pub(crate) retried: bool,
    /// What it does not see of the session's environment (`replace_env`).
    pub(crate) hidden: Option<Box<Hidden>>,
    /// Takes out what the shell itself writes to its stderr.
    pub(crate) messages: Option<Box<MessageFilter>>,
    /// When a line of its stderr that is not whole is passed on as it is.
    pub(crate) held_until: Option<Instant>,
    /// Ids of writes that were applied, newest last.
    pub(crate) writes: VecDeque<String>,
    /// The last that it wrote to its controlling terminal.
    pub(crate) terminal: Vec<u8>,
    /// The prompt at which it waits for input.
    pub(crate) waiting: Option<String>,
    /// When it is looked at next, to see whether it waits.
    pub(crate) next_look: Option<NextLook>,
    /// Of a command on a terminal.
    pub(crate) tty: Option<Box<Tty>>,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Queued { until: Instant },
    Running(Running),
    Finished { outcome: Outcome, at: Instant },
}

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) since: Instant,
    /// How often the session had run into its limits when it began.
    pub(crate) hits: Hits,
    /// The last signal that someone asked for by name.
    pub(crate) named: Option<i32>,
    /// While the command is being stopped.
    pub(crate) targets: Option<Box<StopTargets>>,
    /// None for a command in the shell, whose deadlines are the driver's.
    pub(crate) background: Option<Background>,
}

/// A command that is a process of its own.
#[derive(Debug)]
pub(crate) struct Background {
    pub(crate) pid: i32,
    /// When its time is over; None once it is being stopped.
    deadline: Option<Instant>,
    stop: Option<Stop>,
    /// How its process ended, while what it has started is still being stopped.
    ended: Option<Exit>,
}

impl Background {
    pub(crate) fn new(pid: i32, deadline: Option<Instant>) -> Background {
        Background { pid, deadline, stop: None, ended: None }
    }

    /// When its time is over, or the next step of its stop is due.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.stop.as_ref().map(Stop::next).or(self.deadline)
    }

    /// The step that is due now.
    pub(crate) fn due_step(&mut self, now: Instant) -> Option<Step> {
        if self.next_deadline()? > now {
            return None;
        }
        self.deadline = None;
        Some(self.stop.get_or_insert_with(|| Stop::new(Why::Timeout, now)).step(now))
    }

    /// Begins to stop it, unless that has begun.
    pub(crate) fn stop(&mut self, why: Why, now: Instant) -> Option<Step> {
        if self.stop.is_some() {
            return None;
        }
        self.deadline = None;
        Some(self.stop.insert(Stop::new(why, now)).step(now))
    }

    pub(crate) fn why_stopped(&self) -> Option<Why> {
        self.stop.as_ref().map(Stop::why)
    }

    pub(crate) fn mark_ended(&mut self, exit: Exit) {
        self.ended = Some(exit);
    }

    pub(crate) fn ended(&self) -> Option<Exit> {
        self.ended
    }

    /// Whether its stop has taken every step.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.stop.as_ref().is_some_and(Stop::is_exhausted)
    }
}

/// The processes of a command that is being stopped.
#[derive(Debug, Default)]
pub(crate) struct StopTargets {
    /// Everything below the shell when the stop began.
    pub(crate) seen: ProcessSnapshot,
    /// What a background command had left to itself before the stop began; it goes on.
    pub(crate) spared: BTreeSet<(i32, u64)>,
    /// Everything that was part of the command when it was stopped.
    pub(crate) doomed: Vec<Process>,
    /// Those of them whose end is awaited.
    pub(crate) awaited: Option<Awaited>,
    /// The programs that the shell waited for when the stop began.
    pub(crate) waited_for: BTreeSet<(i32, u64)>,
    /// Programs that the shell waited for and that got TERM, which they neither caught nor ignored.
    pub(crate) terminated: BTreeSet<(i32, u64)>,
    /// Programs that the shell waited for and that got KILL.
    pub(crate) killed: BTreeSet<(i32, u64)>,
    /// Those that were ready for INT when they got it.
    pub(crate) interrupted: BTreeSet<(i32, u64)>,
    /// The program whose end is the command's: of those that the shell waited for, the one that came last.
    pub(crate) last_program: Option<LastProgram>,
}

/// A program that is not the host's own child. A shell that was interrupted itself does not tell how it ended.
#[derive(Debug)]
pub(crate) struct LastProgram {
    process: Process,
    handle: Option<ProcessHandle>,
    /// It got a signal of the stop and has something of its own to do about it.
    is_told: bool,
}

impl LastProgram {
    /// `shell`: whoever waits. A copy of it that has not become a program catches what the shell catches, and its
    /// end says nothing about the command.
    pub(crate) fn of(
        job: &[Process],
        waited_for: &BTreeSet<(i32, u64)>,
        shell: Option<i32>,
    ) -> Option<LastProgram> {
        let shell = shell.and_then(process::program)?;
        let is_program = |process: &&Process| process::program(process.pid).is_some_and(|own| own != shell);
        let candidates = job.iter().filter(|process| waited_for.contains(&process.identity()));
        let candidates = candidates.filter(is_program);
        let process = *candidates.max_by_key(|process| (process.started, process.pid))?;
        let handle = ProcessHandle::open(process.pid).filter(|_| tree::is_alive(&process));
        Some(LastProgram { process, handle, is_told: false })
    }

    /// How it ended, if it has caught a signal of the stop; `Unknown` if the kernel does not tell.
    pub(crate) fn exit(&self) -> Option<Exit> {
        if !self.is_told {
            return None;
        }
        let status = process::unread_exit_status(&self.process)
            .or_else(|| self.handle.as_ref().and_then(ProcessHandle::exit_status));
        Some(status.map_or(Exit::Unknown, Exit::from_wait_status))
    }
}

impl StopTargets {
    /// Gives all of them the signal of this step. INT is repeated for programs that were just starting; one that
    /// catches it gets it once, since many take the second for an order to leave everything as it is.
    pub(crate) fn signal(&mut self, step: Step) {
        let signal = match step {
            Step::Interrupt => Signal::INT,
            Step::Terminate => Signal::TERM,
            Step::Kill | Step::KillShell => Signal::KILL,
        };
        for process in &self.doomed {
            let catches = step != Step::Kill && process::catches(process.pid, signal.as_raw());
            if catches && let Some(last) = &mut self.last_program {
                last.is_told |= last.process.identity() == process.identity();
            }
            let is_ready = catches && step == Step::Interrupt;
            if is_ready && !self.interrupted.insert(process.identity()) {
                continue;
            }
            tree::signal_and_continue(process, signal);
        }
    }

    /// Notes who of those that the shell waits for gets the signal of this step.
    pub(crate) fn note_step(&mut self, step: Step, waited_for: BTreeSet<(i32, u64)>) {
        let dies = |(pid, _): &(i32, u64)| process::dies_of(*pid, Signal::TERM.as_raw());
        match step {
            Step::Terminate => self.terminated.extend(waited_for.into_iter().filter(dies)),
            Step::Kill => self.killed.extend(waited_for),
            Step::Interrupt | Step::KillShell => {}
        }
    }
}

#[derive(Debug)]
pub(crate) enum Input {
    Empty,
    /// Given whole: the file that the shell opens.
    Whole(OwnedFd),
    Open {
        read: Option<OwnedFd>,
        write: Option<OwnedFd>,
        pending: VecDeque<u8>,
        eof: bool,
    },
    Closed,
}

impl Exec {
    pub(crate) fn running(&self) -> Option<&Running> {
        match &self.phase {
            Phase::Running(running) => Some(running),
            Phase::Queued { .. } | Phase::Finished { .. } => None,
        }
    }

    pub(crate) fn running_mut(&mut self) -> Option<&mut Running> {
        match &mut self.phase {
            Phase::Running(running) => Some(running),
            Phase::Queued { .. } | Phase::Finished { .. } => None,
        }
    }

    /// The process that runs it now: its own in the background, else the shell.
    pub(crate) fn pid(&self, shell_pid: Option<u32>) -> Option<u32> {
        self.running()?.background.as_ref().map(|background| background.pid as u32).or(shell_pid)
    }

    /// Where its stderr goes.
    pub(crate) fn stderr(&self) -> Stream {
        if self.spec.merge_stderr { Stream::Stdout } else { Stream::Stderr }
    }

    pub(crate) fn is_queued(&self) -> bool {
        matches!(self.phase, Phase::Queued { .. })
    }

    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Finished { outcome, .. } => Some(outcome),
            Phase::Queued { .. } | Phase::Running(_) => None,
        }
    }

    /// Whether nothing more can come from it.
    pub(crate) fn is_over(&self) -> bool {
        self.outcome().is_some() && self.outputs.iter().all(Option::is_none)
    }

    /// How much was typed or written to it that the kernel does not take before it reads.
    fn waiting_input(&self) -> Option<u64> {
        let bytes = match (&self.tty, &self.input) {
            (Some(tty), _) => tty.untaken(),
            (None, Input::Open { pending, .. }) => pending.len(),
            (None, Input::Empty | Input::Whole(_) | Input::Closed) => 0,
        };
        (bytes > 0).then_some(bytes as u64)
    }

    pub(crate) fn info(&self, session: SessionId, shell_pid: Option<u32>) -> ExecInfo {
        let state = match &self.phase {
            Phase::Queued { .. } => ExecState::Queued,
            Phase::Running(_) => ExecState::Running,
            Phase::Finished { .. } => ExecState::Finished,
        };
        let dropped = Stream::BOTH.map(|stream| self.journal.dropped(stream));
        let total = Stream::BOTH.map(|stream| self.journal.total(stream));
        let pid = self.pid(shell_pid);
        ExecInfo {
            exec_id: ExecId { session, number: self.number },
            session_id: session,
            command: self.spec.command.clone(),
            state,
            background: self.spec.background,
            tty: self.spec.tty,
            pid,
            created_at: self.created_at.clone(),
            started_at: self.started_at.clone(),
            finished_at: self.finished_at.clone(),
            stdout_bytes: total[0],
            stderr_bytes: total[1],
            stdout_dropped_bytes: dropped[0],
            stderr_dropped_bytes: dropped[1],
            waiting_for_input: self.waiting.clone(),
            stdin_waiting_bytes: self.waiting_input(),
            outcome: self.outcome().cloned().map(|outcome| FinishedFields::of(outcome, self.spec.max_output)),
        }
    }
}

/// Run time as it is reported: whole milliseconds, rounded up and never 0, and exact microseconds.
pub(crate) fn durations(elapsed: Duration) -> (u64, u64) {
    let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX).max(1);
    (micros.div_ceil(1000), micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_never_zero_and_rounds_up() {
        let ms = |micros| durations(Duration::from_micros(micros)).0;
        assert_eq!([0, 1, 999, 1000, 1001].map(ms), [1, 1, 1, 1, 2]);
    }
}
