//! The engine: from a queued command to its outcome, stage by stage.
//!
//! The shell is asked one line at a time and answers by coming back for the next
//! (see [`crate::shell::control`]). After each command it prints its state, once
//! the reply is on its way; from that state a shell that died is replaced.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use trl_protocol::exec::{Outcome, Stream};
use trl_protocol::fault::{Code, Fault};
use trl_protocol::limits;
use trl_protocol::wire::{FromHost, Mode, Stdin};

use crate::exec::escalation::{Escalation, Step};
use crate::exec::{Exec, Input, Output, Phase, Requester, Running, Stopping, Why, durations};
use crate::host::{Host, Settling, Stage, output_pipe, timestamp};
use crate::shell::dialect::{Launch, Settle};
use crate::shell::prompt::Report;
use crate::shell::snapshot::Snapshot;
use crate::shell::{Held, Shell, cwd_of, path_of, plain, umask_of};
use crate::tree;

/// How long the shell may take for a line of ours that runs no command.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Commands that may wait to be entered into the shell's history.
const UNRECORDED: usize = 200;

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

impl Host {
    /// Starts the next command if the shell is free for it.
    pub(crate) fn advance(&mut self) {
        if self.ending.is_some() {
            return;
        }
        if matches!(self.stage, Stage::Dead | Stage::Idle) {
            self.restart_if_asked();
        }
        if matches!(self.stage, Stage::Dead) && !self.queue.is_empty() {
            self.replace_shell();
        }
        while matches!(self.stage, Stage::Idle) {
            let Some(number) = self.queue.front().copied() else { return };
            // A command that may look at the history finds the ones before it there.
            if !self.unrecorded.is_empty() && !self.is_plain(number) {
                return self.settle(None, self.last_status, false);
            }
            self.queue.pop_front();
            if let Err(error) = self.launch(number) {
                self.refuse(
                    number,
                    Fault::new(Code::ResourcePressure, format!("the command could not be started: {error}")),
                );
            }
        }
    }

    /// Takes back a command that never ran.
    pub(crate) fn refuse(&mut self, number: u64, fault: Fault) {
        let Some(exec) = self.execs.remove(&number) else { return };
        self.queue.retain(|queued| *queued != number);
        let following = self.subscriptions.iter().filter(|subscription| subscription.exec == number);
        let mut asking: Vec<Requester> = following.map(|s| Requester { link: s.link, req: s.req }).collect();
        asking.extend(exec.requester.filter(|requester| !asking.contains(requester)));
        self.subscriptions.retain(|subscription| subscription.exec != number);
        for requester in asking {
            self.send(requester.link, &FromHost::Fault { req: requester.req, fault: fault.clone() });
        }
        self.journal.discard(exec.journal);
    }

    fn launch(&mut self, number: u64) -> io::Result<()> {
        let Some(exec) = self.execs.get_mut(&number) else { return Ok(()) };
        let Some(shell) = &mut self.shell else { return Err(io::ErrorKind::NotConnected.into()) };
        let (stdout, stdout_write) = output_pipe()?;
        let (stderr, stderr_write) = output_pipe()?;
        let text = Held::new(format!("{}\n", exec.spec.command).as_bytes())?;
        let stdin = match &exec.input {
            Input::Empty | Input::Closed => "/dev/null".to_owned(),
            Input::Whole(file) => path_of(file),
            Input::Open { read: Some(read), .. } => path_of(read),
            Input::Open { read: None, .. } => "/dev/null".to_owned(),
        };
        let line = shell.dialect.run_line(&Launch {
            text: &exec.spec.command,
            text_path: &text.path(),
            stdin: &stdin,
            stdout: &path_of(&stdout_write),
            stderr: &path_of(&stderr_write),
            env: &exec.spec.env,
            cwd: exec.spec.working_dir.as_deref(),
            state: &self.snapshot,
        });
        exec.outputs = [(stdout, stdout_write), (stderr, stderr_write)]
            .map(|(read, hold)| Some(Output { read, hold: Some(hold), enlarged: false }));
        shell.control.send(&line)?;
        exec.text = Some(text);
        self.stage = Stage::Running(number);
        self.command_count += 1;
        self.mark_running(number, None);
        self.feed(number);
        Ok(())
    }

    pub(crate) fn mark_running(&mut self, number: u64, pid: Option<i32>) {
        let now = Instant::now();
        self.last_activity = now;
        self.last_activity_at = timestamp();
        let default = (self.spec.timeout_s.clamp(0.0, limits::MAX_SECONDS) * 1000.0) as u64;
        let background = pid.is_some();
        let Some(exec) = self.execs.get_mut(&number) else { return };
        // Beside the shell nobody waits: only a deadline that was asked for counts.
        let timeout = exec.spec.timeout_ms.unwrap_or(if background { 0 } else { default });
        let deadline = (timeout > 0).then(|| now + Duration::from_millis(timeout));
        exec.phase = Phase::Running(Running { since: now, deadline, stopping: None, pid });
        exec.started_at = Some(self.last_activity_at.clone());
    }

    /// The shell's input is empty: it has done its line and asks for the next.
    pub(crate) fn on_control(&mut self) {
        let Some(shell) = &mut self.shell else { return };
        match shell.control.on_writable() {
            Ok(true) => self.on_prompt(),
            Ok(false) => {}
            Err(_) => shell.control.give_up(),
        }
    }

    fn on_prompt(&mut self) {
        let Some(shell) = &mut self.shell else { return };
        let heard = shell.at_prompt();
        self.stage_deadline = None;
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Starting { scripts, .. } => self.go_on_starting(scripts),
            Stage::Running(exec) => self.on_command_over(exec, heard.report, &heard.noise, false),
            Stage::Asking { exec } => self.on_command_over(exec, heard.report, &heard.noise, true),
            Stage::Clearing { exec, status, asked } => self.settle(Some(exec), status, asked),
            Stage::Settling(settling) => self.on_settled(settling),
            stage @ (Stage::Idle | Stage::Dead | Stage::Waning { .. }) => self.stage = stage,
        }
        self.advance();
    }

    fn go_on_starting(&mut self, mut scripts: VecDeque<String>) {
        match scripts.pop_front() {
            Some(script) => match Held::new(script.as_bytes()) {
                Ok(held) => {
                    let line = self.shell.as_ref().map(|shell| shell.dialect.restore_line(&held.path()));
                    self.stage = Stage::Starting { scripts, current: Some(held) };
                    self.say(line);
                }
                Err(_) => self.go_on_starting(scripts),
            },
            // A fresh shell shows what every later state is compared with; a restored one is as it was.
            None => self.settle(None, 0, false),
        }
    }

    fn say(&mut self, line: Option<String>) {
        self.stage_deadline = Some(Instant::now() + PATIENCE);
        if let (Some(shell), Some(line)) = (&mut self.shell, line) {
            // A shell that cannot be written to is about to be reaped.
            shell.control.send(&line).ok();
        }
    }

    fn on_command_over(&mut self, number: u64, report: Option<Report>, noise: &str, asked: bool) {
        let Some(shell) = &self.shell else { return };
        if self.is_engine_failure(noise) {
            self.run_in_new_shell(number);
            return;
        }
        match report {
            Some(report) => {
                self.note_cwd(number, report.cwd);
                let status = self.true_status(number, report.status);
                if self
                    .execs
                    .get(&number)
                    .is_some_and(|exec| exec.running().is_some_and(|r| r.stopping.is_some()))
                {
                    self.stage = Stage::Waning { exec: number, status, asked };
                    return self.go_on_waning();
                }
                self.finish(number, End::Status(status));
                if report.flags.contains('n') && self.ending.is_none() {
                    // `set -n`: it would answer everything and run nothing.
                    self.abandon_shell("the command before had switched the shell's execution off (set -n)");
                } else if self.ending.is_none() && !asked && self.is_plain(number) {
                    self.last_status = status;
                    self.unrecorded.extend(self.execs.get(&number).map(|exec| exec.spec.command.clone()));
                } else if self.ending.is_none() {
                    self.settle(Some(number), status, asked);
                }
            }
            None if !asked => {
                let line = shell.dialect.query_line(shell.nonce());
                self.stage = Stage::Asking { exec: number };
                self.say(Some(line));
            }
            None => {
                self.give_up_shell(number, "the shell would not tell the status of this command".to_owned())
            }
        }
    }

    /// The user has switched the line editor on: the shell prompts and reads at its
    /// terminal now, and is deaf to us. The command is over all the same.
    pub(crate) fn on_prompt_at_terminal(&mut self, report: Report) {
        let Some(number) = self.running_number() else { return };
        self.note_cwd(number, report.cwd);
        self.finish(number, End::Status(report.status));
        self.abandon_shell("the command before had switched the line editor on");
        self.advance();
    }

    /// Whether the shell's state after the command is the state before it.
    fn is_plain(&self, number: u64) -> bool {
        self.baseline.is_some()
            && self.unrecorded.len() < UNRECORDED
            && self.execs.get(&number).is_some_and(|exec| {
                exec.spec.env.is_empty()
                    && exec.spec.working_dir.is_none()
                    && plain::leaves_state_alone(&exec.spec.command, &self.snapshot)
            })
    }

    /// A stopped command is over when everything that was part of it is gone.
    pub(crate) fn go_on_waning(&mut self) {
        let Stage::Waning { exec: number, status, asked } = self.stage else { return };
        let Some(running) = self.execs.get_mut(&number).and_then(Exec::running_mut) else { return };
        if let Some(stopping) = &mut running.stopping {
            stopping.doomed.retain(tree::is_alive);
            if !stopping.doomed.is_empty() && !stopping.escalation.is_exhausted() {
                stopping.watched = stopping.doomed.iter().filter_map(tree::watch).collect();
                return;
            }
        }
        self.finish(number, End::Status(status));
        if self.ending.is_none() {
            // The shell may still have an interrupt to digest; an empty line takes it.
            self.stage = Stage::Clearing { exec: number, status, asked };
            self.say(Some(" \n".to_owned()));
        }
    }

    /// Whether our own line could not run: then nothing of the user's text has.
    fn is_engine_failure(&self, noise: &str) -> bool {
        let Some(shell) = &self.shell else { return false };
        let own = format!("/proc/{}/fd/", std::process::id());
        let name = format!("{}: ", self.spec.shell.rsplit('/').next().unwrap_or_default());
        let mut complaints = noise.lines().filter(|line| line.starts_with(&name));
        complaints.any(|line| line.contains(&own) || shell.dialect.is_own_failure(line))
    }

    /// The shell is beyond use (no descriptors, no builtins): a new one runs the command, for the first time.
    fn run_in_new_shell(&mut self, number: u64) {
        let Some(exec) = self.execs.get_mut(&number) else { return };
        exec.outputs = [None, None];
        if exec.retried {
            self.give_up_shell(
                number,
                "the shell could not run this command, nor could a new one".to_owned(),
            );
            return;
        }
        exec.retried = true;
        exec.phase = Phase::Queued { until: Instant::now() + PATIENCE * 2 };
        self.queue.push_front(number);
        self.command_count -= 1;
        self.abandon_shell("the shell could not run commands any more");
    }

    /// Ends a shell that is of no use; the next command gets a new one.
    pub(crate) fn abandon_shell(&mut self, why: &str) {
        if let Some(shell) = self.shell.take() {
            // Reaped like any other child.
            rustix::process::kill_process(shell.pid, Signal::KILL).ok();
        }
        self.stage = Stage::Dead;
        self.stage_deadline = None;
        self.shell_note = Some(why.to_owned());
    }

    /// It is stuck in a line of ours: in a hook or a function of the user's that never ends.
    fn on_stuck_shell(&mut self) {
        self.stage_deadline = None;
        match self.running_number() {
            Some(number) => {
                self.give_up_shell(number, "the shell would not tell the status of this command".to_owned())
            }
            None => self.abandon_shell("the shell did not answer after the command before"),
        }
        self.advance();
    }

    /// The shell cannot be worked with any more: the command is over, the next one gets a new shell.
    fn give_up_shell(&mut self, number: u64, what: String) {
        self.abandon_shell("");
        self.shell_note = None;
        self.finish(number, End::Unknown(what));
        self.shell_note = Some("the shell was replaced after the command before".to_owned());
    }

    /// A directory that held for one command only is not the session's.
    fn note_cwd(&mut self, number: u64, told: String) {
        if self.execs.get(&number).is_some_and(|exec| exec.spec.working_dir.is_some()) {
            return;
        }
        // With prompt expansion switched off the shell tells the words instead of the
        // place, and zsh escapes what it cannot print.
        if told.starts_with('/') && !told.contains('\\') {
            self.cwd = told;
        } else if let Some(cwd) = self.shell.as_ref().and_then(|shell| cwd_of(shell.pid)) {
            self.cwd = cwd;
        }
    }

    /// bash's `eval` leaves `$?` untouched when the text ends inside a quote. If the
    /// status is the old one and the shell complained, bash itself is asked whether
    /// the text can be read at all.
    fn true_status(&mut self, number: u64, status: i32) -> i32 {
        const SYNTAX_ERROR: i32 = 2;
        let Some(shell) = &self.shell else { return status };
        if !shell.dialect.may_hide_syntax_error() || status != self.last_status || status == SYNTAX_ERROR {
            return status;
        }
        self.drain_outputs(number);
        let Some(exec) = self.execs.get(&number) else { return status };
        let total = exec.journal.total(Stream::Stderr);
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

    fn is_unreadable(&self, text: &str, extglob: bool) -> bool {
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
        let cwd = self.cwd.clone();
        let Some(exec) = self.execs.get_mut(&number) else { return };
        for output in exec.outputs.iter_mut().flatten() {
            output.hold = None;
        }
        exec.input = Input::Closed;
        exec.text = None;
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
        let (exit_code, signal) = read_end(end, why.is_some(), &mut notes);
        if let (Some(Why::Timeout), Some(prompt)) = (why, exec.waiting.take()) {
            notes.push(format!("it was waiting for input on its terminal, at the prompt: {prompt}"));
        }
        exec.waiting = None;
        let outcome = Outcome {
            exit_code,
            signal,
            duration_ms,
            duration_us,
            timed_out: why == Some(Why::Timeout),
            cancelled: why == Some(Why::Cancel),
            stdout_bytes: exec.journal.total(Stream::Stdout),
            stderr_bytes: exec.journal.total(Stream::Stderr),
            working_dir: cwd,
            notes,
        };
        self.last_activity = Instant::now();
        self.last_activity_at = timestamp();
        exec.finished_at = Some(self.last_activity_at.clone());
        self.journal.end(&mut exec.journal, &outcome);
        exec.phase = Phase::Finished { outcome, at: self.last_activity };
        self.answer(number);
        self.prune();
    }

    /// The reply of `exec.run`: head and tail, then the outcome.
    fn answer(&mut self, number: u64) {
        self.complete_subscriptions();
        let Some(exec) = self.execs.get_mut(&number) else { return };
        let Some(requester) = exec.requester.take() else { return };
        let (Mode::Collect, Some(outcome)) = (exec.spec.mode, exec.outcome().cloned()) else { return };
        let Some(link) = self.links.get_mut(&requester.link) else { return };
        let mut chunk = vec![0; 64 * 1024];
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

    /// Asks the shell to put back what held for one command and to print its state.
    fn settle(&mut self, number: Option<u64>, status: i32, prompt_back: bool) {
        self.last_status = status;
        let unrecorded = std::mem::take(&mut self.unrecorded);
        let exec = number.and_then(|number| self.execs.get(&number));
        let Some(shell) = &self.shell else { return };
        let script = shell.dialect.settle_script(&Settle {
            history: unrecorded
                .iter()
                .chain(exec.map(|exec| &exec.spec.command))
                .map(String::as_str)
                .collect(),
            cwd_back: exec.and_then(|exec| exec.spec.working_dir.as_ref()).map(|_| self.cwd.as_str()),
            env_back: exec.map(|exec| exec.spec.env.keys().map(String::as_str).collect()).unwrap_or_default(),
            state: &self.snapshot,
            prompt_back,
            status,
        });
        let (Ok(script), Ok(dump)) = (Held::new(script.as_bytes()), Held::new(b"")) else {
            // Without descriptors there is no snapshot this time; the last one stays.
            self.stage = Stage::Idle;
            return;
        };
        let line = shell.dialect.settle_line(&script.path(), &dump.path(), false);
        self.stage =
            Stage::Settling(Settling { script, dump, uncovered: false, after_command: number.is_some() });
        self.say(Some(line));
    }

    fn on_settled(&mut self, settling: Settling) {
        let Some(shell) = &self.shell else { return };
        let dump = settling.dump.read().unwrap_or_default();
        match shell.dialect.read_dump(&String::from_utf8_lossy(&dump)) {
            Some(mut snapshot) => {
                snapshot.umask = umask_of(shell.pid).unwrap_or_default();
                if self.baseline.is_none() {
                    self.baseline = Some(Snapshot::clone(&snapshot));
                }
                self.snapshot = snapshot;
            }
            None if !settling.uncovered => {
                let line = shell.dialect.settle_line(&settling.script.path(), &settling.dump.path(), true);
                self.stage = Stage::Settling(Settling { uncovered: true, ..settling });
                self.say(Some(line));
            }
            // It has lost the words for it: the last good snapshot goes into a new shell.
            None if settling.after_command => {
                self.abandon_shell("the command before had left the shell unusable")
            }
            // A shell that never could is used without.
            None => {}
        }
    }

    /// A new shell with the state of the last snapshot.
    pub(crate) fn replace_shell(&mut self) {
        let (dir, lost_dir) = existing_dir(&self.cwd, &self.spec.env);
        match Shell::spawn(&self.spec, &dir) {
            Ok(shell) => {
                let scripts = self.baseline.as_ref().map(|baseline| {
                    let guard = |entry: &str| shell.dialect.guard(entry);
                    self.snapshot.differs_from(baseline).scripts(guard, |entry| shell.dialect.is_risky(entry))
                });
                self.shell = Some(shell);
                self.stage_deadline = Some(Instant::now() + PATIENCE);
                self.restarts += 1;
                self.stage = Stage::Starting { scripts: scripts.unwrap_or_default().into(), current: None };
                let why = self.shell_note.take().unwrap_or_else(|| "the shell had ended".to_owned());
                let mut note = format!("{why}; this command ran in a new shell with the restored state");
                if let Some(gone) = lost_dir {
                    note.push_str(&format!(" (its directory {gone} is gone, it is in {dir} now)"));
                }
                self.shell_note = Some(note);
                self.cwd = dir;
            }
            Err(error) => {
                for number in std::mem::take(&mut self.queue) {
                    let fault = Fault::new(
                        Code::ResourcePressure,
                        format!("the shell has ended and no new one could be started: {error}"),
                    );
                    self.refuse(number, fault);
                }
            }
        }
    }

    /// Collects the dead: the shell, commands beside it, orphans.
    pub(crate) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if self.shell.as_ref().is_some_and(|shell| shell.pid == pid) {
                self.on_shell_ended(status);
            } else {
                self.on_child_ended(pid, status);
            }
        }
        self.go_on_winding_down();
        self.advance();
    }

    fn on_shell_ended(&mut self, status: WaitStatus) {
        self.shell = None;
        self.stage_deadline = None;
        let stage = std::mem::replace(&mut self.stage, Stage::Dead);
        match stage {
            Stage::Running(exec) | Stage::Asking { exec } | Stage::Waning { exec, .. } => {
                self.shell_note = None;
                self.finish(exec, End::Shell(status));
                self.shell_note = Some("the shell had ended with the command before".to_owned());
            }
            Stage::Starting { .. } | Stage::Idle | Stage::Clearing { .. } | Stage::Settling(_) => {
                self.shell_note =
                    Some(format!("the shell had ended between commands ({})", describe(status)));
            }
            Stage::Dead => {}
        }
    }

    fn on_child_ended(&mut self, pid: Pid, status: WaitStatus) {
        let pid = pid.as_raw_nonzero().get();
        let number = self.execs.iter().find(|(_, exec)| exec.running().is_some_and(|r| r.pid == Some(pid)));
        if let Some(number) = number.map(|(number, _)| *number) {
            self.finish(number, End::Process(status));
        }
    }

    /// Whatever is due now.
    pub(crate) fn on_time(&mut self, now: Instant) {
        let due: Vec<u64> =
            self.execs.iter().filter(|(_, exec)| is_due(exec, now)).map(|(number, _)| *number).collect();
        for number in due {
            match self.execs.get(&number).map(|exec| &exec.phase) {
                Some(Phase::Queued { .. }) => {
                    let fault = Fault::new(
                        Code::SessionBusy,
                        "the session was busy for the whole of wait_s; the command did not run",
                    );
                    self.refuse(number, fault);
                }
                Some(Phase::Running(running)) => {
                    let why = running.stopping.as_ref().map_or(Why::Timeout, |stopping| stopping.why);
                    self.stop(number, why);
                }
                Some(Phase::Finished { .. }) | None => {}
            }
        }
        if self.stage_deadline.is_some_and(|at| at <= now) {
            self.on_stuck_shell();
        }
        if self.terminal_quiet_at.is_some_and(|at| at <= now) {
            self.on_terminal_quiet();
        }
        if self.ending.as_ref().is_some_and(|ending| ending.next <= now) {
            self.press_on();
        }
        if self.idle_deadline().is_some_and(|at| at <= now) {
            self.wind_down(None, false, "the session was idle or old");
        }
    }

    /// Takes the next step towards the end of a running command.
    pub(crate) fn stop(&mut self, number: u64, why: Why) {
        let Some(running) = self.execs.get_mut(&number).and_then(Exec::running_mut) else { return };
        let fresh = Stopping {
            why,
            escalation: Escalation::default(),
            next: Instant::now(),
            doomed: Vec::new(),
            watched: Vec::new(),
        };
        let stopping = running.stopping.get_or_insert(fresh);
        let (step, grace) = stopping.escalation.next();
        stopping.next = Instant::now() + grace;
        let beside = running.pid;
        let waning = matches!(self.stage, Stage::Waning { exec, .. } if exec == number);
        let signal = match step {
            Step::Interrupt => Signal::INT,
            Step::Terminate => Signal::TERM,
            Step::Kill | Step::EndShell => Signal::KILL,
        };
        let job = if waning { Vec::new() } else { self.job(beside).processes };
        if let (None, false, Some(shell)) = (beside, waning, &self.shell) {
            // First, so that nothing of the text goes on when its current program has died.
            rustix::process::kill_process(shell.pid, Signal::INT).ok();
            if step == Step::EndShell {
                rustix::process::kill_process(shell.pid, Signal::KILL).ok();
            }
        }
        if let Some(stopping) =
            self.execs.get_mut(&number).and_then(Exec::running_mut).and_then(|r| r.stopping.as_mut())
        {
            stopping.doomed.retain(|process| !job.contains(process));
            stopping.doomed.extend(job);
            for process in &stopping.doomed {
                tree::signal(process, signal);
                // A job that was stopped dies of its signal only when it goes on.
                tree::signal(process, Signal::CONT);
            }
        }
        self.go_on_waning();
    }

    /// Just the signal named, to what runs. The shell itself only ever gets INT, which takes it to its prompt.
    pub(crate) fn signal_command(&self, beside: Option<i32>, signal: Signal) {
        let job = self.job(beside);
        for process in &job.processes {
            tree::signal(process, signal);
        }
        if let (true, Some(shell)) = (job.is_shell && job.processes.is_empty(), &self.shell) {
            rustix::process::kill_process(shell.pid, Signal::INT).ok();
        }
    }

    /// What runs now: the foreground job and all below it, or the command beside the shell.
    fn job(&self, beside: Option<i32>) -> Job {
        if let Some(pid) = beside {
            let processes = tree::look(pid).into_iter().chain(tree::descendants(pid)).collect();
            return Job { processes, is_shell: false };
        }
        let Some(shell) = &self.shell else { return Job { processes: Vec::new(), is_shell: false } };
        let shell_pid = shell.pid.as_raw_nonzero().get();
        let foreground =
            rustix::termios::tcgetpgrp(&shell.terminal).map_or(shell_pid, |pid| pid.as_raw_nonzero().get());
        Job { processes: tree::job(shell_pid, foreground), is_shell: foreground == shell_pid }
    }

    /// Forgets the oldest finished commands beyond what is kept.
    pub(crate) fn prune(&mut self) {
        let kept: u64 = self.execs.values().map(|exec| exec.journal.disk_bytes()).sum();
        let mut count = self.execs.len();
        let mut bytes = kept;
        let numbers: Vec<u64> = self.execs.keys().copied().collect();
        for number in numbers {
            let Some(exec) = self.execs.get(&number) else { continue };
            let Phase::Finished { at, .. } = &exec.phase else { continue };
            let old = at.elapsed() > Duration::from_secs(limits::KEPT_EXEC_S);
            if !old && count <= limits::KEPT_EXECS && bytes <= limits::KEPT_SESSION_BYTES {
                break;
            }
            let followed = self.subscriptions.iter().any(|subscription| subscription.exec == number);
            if exec.is_over() && !followed && count > 1 {
                bytes -= exec.journal.disk_bytes();
                count -= 1;
                if let Some(exec) = self.execs.remove(&number) {
                    self.journal.discard(exec.journal);
                }
            }
        }
    }
}

/// What a running command consists of.
struct Job {
    processes: Vec<tree::Process>,
    /// The shell itself is in the foreground, with a loop or a builtin.
    is_shell: bool,
}

fn is_due(exec: &Exec, now: Instant) -> bool {
    match &exec.phase {
        Phase::Queued { until } => *until <= now,
        Phase::Running(running) => match &running.stopping {
            Some(stopping) => stopping.next <= now,
            None => running.deadline.is_some_and(|deadline| deadline <= now),
        },
        Phase::Finished { .. } => false,
    }
}

/// Exit code and signal as told, with a note where the shell itself has ended.
fn read_end(end: End, stopped: bool, notes: &mut Vec<String>) -> (Option<i32>, Option<String>) {
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

fn exit_of(status: WaitStatus) -> (Option<i32>, Option<String>) {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => (Some(code), None),
        (None, Some(signal)) => (Some(128 + signal), Some(tree::signal_name(signal))),
        (None, None) => (None, None),
    }
}

fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by {}", tree::signal_name(signal)),
        (None, None) => "in an unknown way".to_owned(),
    }
}

pub(crate) fn open_input(stdin: &Stdin) -> io::Result<Input> {
    match stdin {
        Stdin::Empty => Ok(Input::Empty),
        Stdin::Whole(bytes) => Ok(Input::Whole(Held::new(bytes)?.into_fd())),
        Stdin::Open(bytes) => {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&write, true)?;
            Ok(Input::Open {
                read: Some(read),
                write: Some(write),
                pending: bytes.iter().copied().collect(),
                eof: false,
            })
        }
    }
}

/// The directory, or the nearest place that exists, and the one that is gone.
fn existing_dir(dir: &str, env: &BTreeMap<String, String>) -> (String, Option<String>) {
    let exists = |dir: &str| std::fs::metadata(dir).is_ok_and(|meta| meta.is_dir());
    if exists(dir) {
        return (dir.to_owned(), None);
    }
    let home = env.get("HOME").filter(|home| exists(home)).cloned();
    (home.unwrap_or_else(|| "/".to_owned()), Some(dir.to_owned()))
}
