//! How a command ended: its true status, everything it wrote, and the answer to
//! whoever asked.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, WaitStatus};
use trl_protocol::exec::{Outcome, Stream};
use trl_protocol::wire::{FromHost, Mode};

use crate::exec::{Input, Phase, Requester, Why, durations};
use crate::host::{Host, timestamp};
use crate::replacement::describe;
use crate::shell::{Held, text};
use crate::tree;

impl Host {
    /// bash's `eval` leaves `$?` untouched when the text ends inside a quote. If the
    /// status is the old one and the shell complained, bash itself is asked whether
    /// the text can be read at all.
    pub(crate) fn true_status(&mut self, number: u64, status: i32) -> i32 {
        const SYNTAX_ERROR: i32 = 2;
        let Some(shell) = &self.shell else { return status };
        if !shell.dialect.may_hide_syntax_error() || status != self.last_status || status == SYNTAX_ERROR {
            return status;
        }
        let Some(exec) = self.execs.get(&number) else { return status };
        let total = exec.journal.total(Stream::Stderr);
        if total == 0 {
            return status;
        }
        let mut tail = [0; 512];
        let from = total.saturating_sub(tail.len() as u64);
        let (_, read) = self.journal.read(&exec.journal, Stream::Stderr, from, &mut tail);
        let tail = String::from_utf8_lossy(&tail[..read]);
        let last = tail.trim_end().rsplit('\n').next().unwrap_or_default();
        let name = self.spec.shell.rsplit('/').next().unwrap_or_default();
        if !last.starts_with(&format!("{name}: ")) {
            return status;
        }
        let extglob = self.snapshot.options.contains_key("shopt extglob");
        if self.is_unreadable(&exec.spec.command, extglob) { SYNTAX_ERROR } else { status }
    }

    pub(crate) fn is_unreadable(&self, text: &str, extglob: bool) -> bool {
        let Ok(held) = Held::new(format!("{text}\n").as_bytes()) else { return false };
        let mut command = Command::new(&self.spec.shell_path);
        command
            .args(if extglob { &["-O", "extglob", "-n"][..] } else { &["-n"] })
            .arg(held.path())
            .env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.code() == Some(2))
    }

    /// Ends a command: everything it wrote, how it ended, to whoever asked.
    pub(crate) fn finish(&mut self, number: u64, end: End) {
        self.drain_outputs(number);
        let session_note = self.shell_note.take();
        let cwd = text::shown(&self.cwd);
        let Some(exec) = self.execs.get_mut(&number) else { return };
        exec.quiet = None;
        exec.input = Input::Closed;
        if let Some(text) = exec.text.take() {
            self.spare.put_away(text.into_fd());
        }
        // Of a command beside the shell, or of a shell that died: whatever is left goes with it.
        for process in
            exec.running().and_then(|running| running.stopping.as_ref()).iter().flat_map(|s| &s.doomed)
        {
            tree::signal(process, Signal::KILL);
        }
        let (why, elapsed) = match &exec.phase {
            Phase::Running(running) => (running.stopping.as_ref().map(|s| s.why), running.since.elapsed()),
            Phase::Queued { .. } => (Some(Why::Cancel), Duration::ZERO),
            Phase::Finished { .. } => return,
        };
        let (duration_ms, duration_us) = durations(elapsed);
        let mut notes: Vec<String> = session_note.into_iter().collect();
        notes.append(&mut exec.notes);
        let named = exec.running().and_then(|running| running.named);
        let (exit_code, signal) = read_end(end, why.is_some() || named.is_some(), &mut notes);
        // It died of the signal that someone sent, and not in a way of its own.
        let obeyed = named.is_some_and(|named| exit_code == Some(128 + named));
        if let (Some(Why::Timeout), Some(prompt)) = (why, exec.waiting.take()) {
            let prompt = if prompt.is_empty() { prompt } else { format!(", at the prompt: {prompt}") };
            notes.push(format!("it was waiting for input{prompt}"));
        }
        exec.waiting = None;
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
            notes,
        };
        self.last_activity = Instant::now();
        self.last_activity_at = timestamp();
        exec.finished_at = Some(self.last_activity_at.clone());
        let ended = trl_journal::End { outcome, at: self.last_activity_at.clone() };
        self.journal.end(&mut exec.journal, &ended);
        exec.phase = Phase::Finished { outcome: ended.outcome, at: self.last_activity };
        let was_stopped = why.is_some() || exit_code.is_some_and(|code| code > 128);
        self.leave_terminal(number, was_stopped);
        self.answer(number);
        self.tell_watchers(number);
        self.show_end(number);
        self.prune();
    }

    /// Tells whoever waits for a finished command.
    pub(crate) fn answer(&mut self, number: u64) {
        self.complete_subscriptions();
        let Some(exec) = self.execs.get_mut(&number).filter(|exec| exec.outcome().is_some()) else { return };
        let first = exec.requester.take().filter(|_| exec.spec.mode == Mode::Collect);
        for requester in first.into_iter().chain(std::mem::take(&mut exec.repeated)) {
            self.send_result(number, requester);
        }
    }

    /// The reply of `exec.run`: head and tail, then the outcome.
    fn send_result(&mut self, number: u64, requester: Requester) {
        let Some(exec) = self.execs.get(&number) else { return };
        let Some(outcome) = exec.outcome().cloned() else { return };
        let Some(link) = self.links.get_mut(&requester.link) else { return };
        debug_assert!(!self.buffer.is_empty(), "nobody reads into it just now");
        let chunk = &mut self.buffer;
        for stream in Stream::BOTH {
            let total = exec.journal.total(stream);
            let head = if total <= exec.spec.max_output { total } else { exec.spec.max_output / 2 };
            let tail = total - (exec.spec.max_output - head).min(total - head);
            for (mut from, to) in [(0, head), (tail, total)] {
                while from < to {
                    let want = chunk.len().min((to - from) as usize);
                    let (offset, read) = self.journal.read(&exec.journal, stream, from, &mut chunk[..want]);
                    if read == 0 || offset >= to {
                        break;
                    }
                    let read = read.min((to - offset) as usize);
                    link.send_data(requester.req, stream, offset, &chunk[..read]);
                    from = offset + read as u64;
                }
            }
        }
        let dropped = Stream::BOTH.map(|stream| exec.journal.dropped(stream));
        link.send(&FromHost::Done { req: requester.req, exec: number, outcome: Box::new(outcome), dropped });
        // The reply leaves before the shell is asked for its state.
        link.flush().ok();
    }
}

/// How a command came to its end.
#[derive(Debug)]
pub(crate) enum End {
    Status(i32),
    /// The shell itself ended.
    Shell(WaitStatus),
    /// A command beside the shell ended.
    Process(WaitStatus),
    /// Nobody can say; the note says why.
    Unknown(String),
}

/// Exit code and signal as told, with a note where the shell itself has ended.
pub(crate) fn read_end(end: End, stopped: bool, notes: &mut Vec<String>) -> (Option<i32>, Option<String>) {
    match end {
        End::Status(status) => {
            let signal = (stopped && status > 128).then(|| tree::signal_name(status - 128));
            (Some(status), signal)
        }
        End::Shell(status) => {
            notes.push(format!(
                "the shell ended with this command ({}); the next one runs in a new shell",
                describe(status)
            ));
            exit_of(status)
        }
        End::Process(status) => exit_of(status),
        End::Unknown(note) => {
            notes.push(note);
            (None, None)
        }
    }
}

pub(crate) fn exit_of(status: WaitStatus) -> (Option<i32>, Option<String>) {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (Some(code), None),
        (None, Some(signal)) => (Some(128 + signal), Some(tree::signal_name(signal))),
        (None, None) => (None, None),
    }
}
