//! How a command ended: its true status, everything it wrote, and the answer to
//! whoever asked.

use std::time::Duration;

use rustix::process::Signal;
use trl_protocol::exec::{Outcome, Stream};
use trl_protocol::wire::{FromHost, Mode};

use super::Host;
use super::prompts::INTERRUPTED;
use crate::commands::{Input, Phase, Requester, durations};
use crate::driver::{Exit, Why};
use crate::shell::text;
use crate::tree;

impl Host {
    /// Ends a command: keeps everything it wrote and how it ended, and answers whoever asked.
    pub(super) fn finish(&mut self, number: u64, end: End, why: Option<Why>) {
        self.drain_outputs(number);
        let note = match end {
            End::Status(_) | End::Process(_) => self.state.take_note(),
            // The next command is told what became of the shell.
            End::Shell(_) | End::Unknown(_) => self.state.take_note().and(None),
            End::NeverRan => None,
        };
        let replaced = match end {
            End::Status(_) => self.state.take_replaced(),
            End::Shell(_) => self.state.take_replaced() || why.is_some(),
            End::Unknown(_) => true,
            End::Process(_) | End::NeverRan => false,
        };
        let shell_ended = matches!(end, End::Shell(_));
        let syntax_error = self.is_syntax_error(number, &end);
        let cwd = text::shown(self.state.cwd());
        let caught = self.caught_exit(number);
        let Some(exec) = self.commands.get_mut(number) else { return };
        exec.next_look = None;
        exec.input = Input::Closed;
        exec.shown.clear();
        if let Some(text) = exec.text.take() {
            self.kernel.spare.put_away(text.into_fd());
        }
        let (named, targets) =
            exec.running().map_or((None, None), |running| (running.named, running.targets.as_ref()));
        let hits = exec.running().map(|running| running.hits);
        // Of a shell that died: whatever is left ends with it.
        for process in targets.iter().flat_map(|targets| &targets.doomed) {
            tree::signal(process, Signal::KILL);
        }
        let elapsed = match &exec.phase {
            Phase::Running(running) => running.since.elapsed(),
            Phase::Queued { .. } => Duration::ZERO,
            Phase::Finished { .. } => return,
        };
        let (duration_ms, duration_us) = durations(elapsed);
        let mut notes: Vec<String> = note.into_iter().collect();
        notes.append(&mut exec.notes);
        let (exit_code, signal) = match (&end, caught) {
            // The shell was interrupted while it waited, and says so in the place of the program's status.
            (End::Status(INTERRUPTED), Some(exit @ (Exit::Code(_) | Exit::Signal(_)))) => exit_of(exit),
            (End::Status(INTERRUPTED), Some(Exit::Unknown)) => (Some(INTERRUPTED), None),
            _ => read_end(end, why.is_some() || named.is_some(), &mut notes),
        };
        // It died of the signal that someone sent, and not in a way of its own.
        let obeyed = named.is_some_and(|named| exit_code == Some(128 + named));
        if let (Some(Why::Timeout), Some(prompt)) = (why, exec.waiting.take()) {
            let prompt = if prompt.is_empty() { prompt } else { format!(", at the prompt: {prompt}") };
            notes.push(format!("it was waiting for input{prompt}"));
        }
        exec.waiting = None;
        let limit = hits.and_then(|before| self.cage.hit_since(before, &self.spec.limits, exit_code));
        notes.extend(limit.map(|limit| format!("it ran into the session's limit `{}`", limit.name())));
        let outcome = Outcome {
            exit_code,
            signal,
            duration_ms,
            duration_us,
            timed_out: why == Some(Why::Timeout),
            cancelled: why == Some(Why::Cancel) || obeyed,
            stdout_bytes: exec.journal.total(Stream::Stdout),
            stderr_bytes: exec.journal.total(Stream::Stderr),
            working_dir: cwd,
            limit,
            syntax_error,
            shell_ended,
            shell_replaced: replaced,
            notes,
        };
        self.activity.mark();
        let (now, at) = self.activity.last();
        self.commands.mark_finished(number, outcome, now, at);
        let was_stopped = why.is_some() || exit_code.is_some_and(|code| code > 128);
        self.leave_terminal(number, was_stopped);
        self.answer(number);
        self.notify_watchers(number);
        self.show_end(number);
        self.prune();
    }

    pub(super) fn prune(&mut self) {
        let subscribers = &self.subscribers;
        self.commands.prune(|number| subscribers.is_followed(number));
    }

    /// A command has reached its next state.
    pub(super) fn notify_watchers(&mut self, number: u64) {
        if !self.subscribers.has_watchers() {
            return;
        }
        let Some(exec) = self.commands.get(number) else { return };
        let info = Box::new(exec.info(self.spec.session_id, self.shell_pid()));
        self.subscribers.notify_watchers(Some(info), None);
    }

    /// Tells whoever waits for a finished command.
    pub(super) fn answer(&mut self, number: u64) {
        self.subscribers.complete(&self.commands);
        let Some(exec) = self.commands.get_mut(number).filter(|exec| exec.outcome().is_some()) else {
            return;
        };
        let first = exec.requester.take().filter(|_| exec.spec.mode == Mode::Collect);
        for requester in first.into_iter().chain(std::mem::take(&mut exec.repeated)) {
            self.send_result(number, requester);
        }
    }

    /// The reply of `exec.run`: head and tail, then the outcome.
    fn send_result(&mut self, number: u64, requester: Requester) {
        let Some(exec) = self.commands.get(number) else { return };
        let Some(outcome) = exec.outcome().cloned() else { return };
        debug_assert!(!self.kernel.buffer.is_empty(), "nobody reads into it just now");
        let chunk = &mut self.kernel.buffer;
        for stream in Stream::BOTH {
            let total = exec.journal.total(stream);
            let head = if total <= exec.spec.max_output { total } else { exec.spec.max_output / 2 };
            let tail = total - (exec.spec.max_output - head).min(total - head);
            for (mut from, to) in [(0, head), (tail, total)] {
                while from < to {
                    let want = chunk.len().min((to - from) as usize);
                    let (offset, read) = self.commands.read(exec, stream, from, &mut chunk[..want]);
                    if read == 0 || offset >= to {
                        break;
                    }
                    let read = read.min((to - offset) as usize);
                    self.subscribers.send_data(requester, stream, offset, &chunk[..read]);
                    from = offset + read as u64;
                }
            }
        }
        let dropped = Stream::BOTH.map(|stream| exec.journal.dropped(stream));
        let done = FromHost::Done { req: requester.req, exec: number, outcome: Box::new(outcome), dropped };
        self.subscribers.send(requester.link, &done);
        // The reply leaves before the shell is asked for its state.
        if !self.is_durable() {
            self.subscribers.flush_link(requester.link);
        }
    }
}

/// How a command came to its end.
#[derive(Debug)]
pub(super) enum End {
    Status(i32),
    /// The shell itself ended.
    Shell(Exit),
    /// A background command ended.
    Process(Exit),
    /// The status is unknown; the text says why.
    Unknown(&'static str),
    /// It was cancelled while it was queued.
    NeverRan,
}

/// Exit code and signal as they are reported, with a note where the shell itself has ended.
fn read_end(end: End, stopped: bool, notes: &mut Vec<String>) -> (Option<i32>, Option<String>) {
    match end {
        End::Status(status) => {
            let signal = (stopped && status > 128).then(|| tree::signal_name(status - 128));
            (Some(status), signal)
        }
        End::Shell(exit) => {
            notes.push(format!(
                "the shell ended with this command ({exit}); the next one runs in a new shell"
            ));
            exit_of(exit)
        }
        End::Process(exit) => exit_of(exit),
        End::Unknown(note) => {
            notes.push(note.to_owned());
            (None, None)
        }
        End::NeverRan => {
            notes.push("it was cancelled before it ran".to_owned());
            (None, None)
        }
    }
}

fn exit_of(exit: Exit) -> (Option<i32>, Option<String>) {
    match exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (Some(128 + signal), Some(tree::signal_name(signal))),
        Exit::Unknown => (None, None),
    }
}
