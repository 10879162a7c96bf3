//! One command: its streams, its phase, and what is told about it.

pub mod escalation;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use trl_journal::ExecJournal;
use trl_protocol::exec::{ExecInfo, ExecState, FinishedFields, Outcome, Stream};
use trl_protocol::ids::{ExecId, SessionId};
use trl_protocol::wire::RunSpec;

use crate::awaited::Awaited;
use crate::shell::Held;
use crate::strays::Seen;
use crate::terminal::{Quiet, Tty};
use crate::tree::Process;
use escalation::Escalation;

/// Who is to hear how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requester {
    pub link: u64,
    pub req: u64,
}

#[derive(Debug)]
pub(crate) struct Exec {
    pub number: u64,
    pub spec: RunSpec,
    pub created_at: String,
    pub started_at: Option<String>,
    pub finished_at: Option<String>,
    pub phase: Phase,
    pub journal: ExecJournal,
    pub outputs: [Option<Output>; 2],
    pub input: Input,
    /// The text as the shell reads it, while it may.
    pub text: Option<Held>,
    pub requester: Option<Requester>,
    /// Who sent the same command again.
    pub repeated: Vec<Requester>,
    pub notes: Vec<String>,
    /// It could not run when it arrived.
    pub had_to_wait: bool,
    /// The first shell could not run it.
    pub retried: bool,
    /// Ids of writes that were applied, newest last.
    pub writes: VecDeque<String>,
    /// What it wrote to its controlling terminal, and whether it waits there.
    pub terminal: Vec<u8>,
    pub waiting: Option<String>,
    /// When it is looked at next, to see whether it waits.
    pub quiet: Option<Quiet>,
    /// Of a command on a terminal.
    pub tty: Option<Box<Tty>>,
}

#[derive(Debug)]
pub enum Phase {
    Queued { until: Instant },
    Running(Running),
    Finished { outcome: Outcome, at: Instant },
}

#[derive(Debug)]
pub struct Running {
    pub since: Instant,
    pub deadline: Option<Instant>,
    pub stopping: Option<Stopping>,
    /// The last signal that someone asked for by name.
    pub named: Option<i32>,
    /// Of a command beside the shell.
    pub pid: Option<i32>,
}

#[derive(Debug)]
pub(crate) struct Stopping {
    pub why: Why,
    pub escalation: Escalation,
    pub next: Instant,
    pub seen: Seen,
    /// Everything that was part of the command when it was stopped.
    pub doomed: Vec<Process>,
    /// Those of them whose end is awaited.
    pub awaited: Option<Awaited>,
}

impl Stopping {
    pub fn new(why: Why, seen: Seen) -> Stopping {
        Stopping {
            why,
            escalation: Escalation::default(),
            next: Instant::now(),
            seen,
            doomed: Vec::new(),
            awaited: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    Timeout,
    Cancel,
}

/// The host's end of an output pipe.
#[derive(Debug)]
pub struct Output {
    pub read: OwnedFd,
    /// Kept open until the command is over, so that the pipe has a writer from the start.
    pub hold: Option<OwnedFd>,
    /// The pipe was enlarged for a talkative command.
    pub enlarged: bool,
}

#[derive(Debug)]
pub enum Input {
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
    pub fn running(&self) -> Option<&Running> {
        match &self.phase {
            Phase::Running(running) => Some(running),
            Phase::Queued { .. } | Phase::Finished { .. } => None,
        }
    }

    pub fn running_mut(&mut self) -> Option<&mut Running> {
        match &mut self.phase {
            Phase::Running(running) => Some(running),
            Phase::Queued { .. } | Phase::Finished { .. } => None,
        }
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Finished { outcome, .. } => Some(outcome),
            Phase::Queued { .. } | Phase::Running(_) => None,
        }
    }

    /// Whether nothing more can come from it.
    pub fn is_over(&self) -> bool {
        self.outcome().is_some() && self.outputs.iter().all(Option::is_none)
    }

    pub fn info(&self, session: SessionId, shell_pid: Option<u32>) -> ExecInfo {
        let state = match &self.phase {
            Phase::Queued { .. } => ExecState::Queued,
            Phase::Running(_) => ExecState::Running,
            Phase::Finished { .. } => ExecState::Finished,
        };
        let dropped = Stream::BOTH.map(|stream| self.journal.dropped(stream));
        let total = Stream::BOTH.map(|stream| self.journal.total(stream));
        let pid = match &self.phase {
            Phase::Running(running) => running.pid.map(|pid| pid as u32).or(shell_pid),
            Phase::Queued { .. } | Phase::Finished { .. } => None,
        };
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
            outcome: self.outcome().cloned().map(|outcome| FinishedFields::of(outcome, self.spec.max_output)),
        }
    }
}

/// Run time as told: whole milliseconds, rounded up, never 0; exact microseconds beside.
pub fn durations(elapsed: Duration) -> (u64, u64) {
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
