//! The engine: from a queued command to its outcome, stage by stage.
//!
//! The shell is asked one line at a time and answers by coming back for the next
//! (see [`crate::shell::control`]). After each command it prints its state, once
//! the reply is on its way; from that state a shell that died is replaced.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use trl_journal::Began;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::limits;
use trl_protocol::wire::{FromHost, Stdin};

use crate::exec::{Exec, Input, Output, Phase, Requester, Running, Why};
use crate::host::{Host, Purpose, Stage, timestamp};
use crate::outcome::End;
use crate::shell::dialect::Launch;
use crate::shell::prompt::Report;
use crate::shell::{Held, cwd_of, path_of, plain, text};
use crate::terminal;

/// How long the shell may take for a line of ours that runs no command.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// A command that takes longer can afford a more careful look at the shell.
const PROMPT_DUE: Duration = Duration::from_millis(20);
/// The same for the first one, of a shell that reads the user's start-up files.
pub(crate) const FIRST_PROMPT_DUE: Duration = Duration::from_millis(300);
/// Commands that may wait to be entered into the shell's history.
const UNRECORDED: usize = 200;

impl Host {
    /// Starts the next command if the shell is free for it.
    pub(crate) fn advance(&mut self) {
        self.let_go_on();
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
                return self.settle(None, Purpose::History, self.last_status, false);
            }
            self.queue.pop_front();
            let env = self.execs.get(&number).map(|exec| &exec.spec.env);
            if let Err(fault) = env.map_or(Ok(()), |env| self.check_env(env)) {
                self.refuse(number, fault);
            } else if let Err(error) = self.launch(number) {
                self.refuse(number, Fault::refused_for_now("the command could not be started", &error));
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

    pub(crate) fn launch(&mut self, number: u64) -> io::Result<()> {
        let Some(exec) = self.execs.get_mut(&number) else { return Ok(()) };
        let Some(shell) = &mut self.shell else { return Err(io::ErrorKind::NotConnected.into()) };
        let (stdout, stdout_write) = self.spare.pipe()?;
        let (stderr, stderr_write) = self.spare.pipe()?;
        let held = self.spare.text(format!("{}\n", exec.spec.command).as_bytes())?;
        let stdin = match &exec.input {
            Input::Empty | Input::Closed => "/dev/null".to_owned(),
            Input::Whole(file) => path_of(file),
            Input::Open { read: Some(read), .. } => path_of(read),
            Input::Open { read: None, .. } => "/dev/null".to_owned(),
        };
        let [mut stdin, mut stdout_path, mut stderr_path] =
            [stdin, path_of(&stdout_write), path_of(&stderr_write)];
        let terminal = terminal::enter(exec, shell)?;
        if let Some(terminal) = &terminal {
            stdin.clone_from(terminal);
            stdout_path.clone_from(terminal);
            if exec.spec.merge_stderr {
                stderr_path.clone_from(terminal);
            }
        }
        let line = shell.dialect.run_line(&Launch {
            text: &text::of(exec.spec.command.as_bytes()),
            text_path: &held.path(),
            stdin: &stdin,
            stdout: &stdout_path,
            stderr: &stderr_path,
            env: &exec.spec.env,
            cwd: exec.spec.working_dir.as_deref(),
            state: &self.snapshot,
        });
        if exec.had_to_wait {
            self.journal.began(&mut exec.journal, &Began { at: timestamp() });
        }
        exec.outputs = [(stdout, stdout_write), (stderr, stderr_write)]
            .map(|(read, hold)| Some(Output { read, hold: Some(hold), enlarged: false }));
        if terminal.is_some() {
            self.terminal_owner = Some(number);
            exec.outputs[0] = None;
            exec.outputs[1].take_if(|_| exec.spec.merge_stderr);
        }
        shell.control.send(&line)?;
        shell.repeats = 0;
        let by_prompt = shell.counts() && !shell.control.has_more();
        self.watch_control_at = by_prompt.then(|| Instant::now() + PROMPT_DUE);
        exec.text = Some(held);
        self.stage = Stage::Running(number);
        self.command_count += 1;
        self.mark_running(number, None);
        self.show_start(number);
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
        exec.phase = Phase::Running(Running { since: now, deadline, stopping: None, named: None, pid });
        exec.started_at = Some(self.last_activity_at.clone());
        exec.stirs();
        self.tell_watchers(number);
    }

    /// The shell has said something. A prompt behind a command is the end of it.
    pub(crate) fn on_status(&mut self) {
        let Some(shell) = &mut self.shell else { return };
        shell.hear();
        let stopping = |exec: &Exec| exec.running().is_none_or(|running| running.stopping.is_some());
        let by_prompt = match &self.stage {
            Stage::Running(number) => !self.execs.get(number).is_none_or(stopping),
            // What a start-up file has switched on may take the first line in before it does it.
            Stage::Starting { .. } => self.spec.rc,
            _ => false,
        };
        if by_prompt && !shell.control.has_more() && shell.has_come_back() {
            shell.control.free();
            self.on_prompt();
        }
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

    pub(crate) fn on_prompt(&mut self) {
        let Some(shell) = &mut self.shell else { return };
        let heard = shell.at_prompt();
        self.stage_deadline = None;
        self.watch_control_at = None;
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Starting { restore, scripts, .. } => self.go_on_starting(restore, scripts),
            Stage::Running(exec) => self.on_command_over(exec, heard.report, &heard.noise, false),
            Stage::Asking { exec } => self.on_command_over(exec, heard.report, &heard.noise, true),
            Stage::Clearing { exec, status, asked } => {
                self.settle(Some(exec), Purpose::AfterCommand, status, asked)
            }
            Stage::Settling(settling) => self.on_settled(settling),
            stage @ (Stage::Idle | Stage::Dead | Stage::Waning { .. }) => self.stage = stage,
        }
        self.advance();
    }

    pub(crate) fn go_on_starting(&mut self, restore: bool, mut scripts: VecDeque<String>) {
        if restore && self.has_snapshot {
            return self.settle(None, Purpose::Baseline, 0, false);
        }
        while let Some(script) = scripts.pop_front() {
            let (Ok(held), Some(shell)) = (Held::script(&script), &self.shell) else { continue };
            let line = shell.dialect.restore_line(&held.path());
            self.stage = Stage::Starting { restore: false, scripts, current: Some(held) };
            return self.say(Some(line));
        }
    }

    pub(crate) fn say(&mut self, line: Option<String>) {
        self.stage_deadline = Some(Instant::now() + PATIENCE);
        if let (Some(shell), Some(line)) = (&mut self.shell, line) {
            // A shell that cannot be written to is about to be reaped.
            shell.control.send(&line).ok();
        }
    }

    /// Says a line again that had no effect, to a shell that may run nothing until it is
    /// interrupted. It reads now, so the interrupt comes before the line and takes the empty one.
    pub(crate) fn say_again(&mut self, line: &str) {
        if let Some(shell) = &mut self.shell {
            if shell.repeats == 0 {
                rustix::process::kill_process(shell.pid, Signal::INT).ok();
            }
            shell.repeats += 1;
        }
        self.say(Some(format!(" \n{line}")));
    }

    fn on_command_over(&mut self, number: u64, report: Option<Report>, noise: &str, asked: bool) {
        if !noise.is_empty() && self.is_engine_failure(noise) {
            self.run_in_new_shell(number);
            return;
        }
        self.drain_outputs(number);
        let Some(shell) = &self.shell else { return };
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
                    self.settle(Some(number), Purpose::AfterCommand, status, asked);
                }
            }
            None if !asked => {
                let line = shell.dialect.query_line(shell.nonce());
                self.stage = Stage::Asking { exec: number };
                self.say(Some(line));
            }
            None if shell.may_need_repeats() => {
                let line = shell.dialect.query_line(shell.nonce());
                self.stage = Stage::Asking { exec: number };
                self.say_again(&line);
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
    pub(crate) fn is_plain(&self, number: u64) -> bool {
        self.has_snapshot
            && self.unrecorded.len() < UNRECORDED
            && self.execs.get(&number).is_some_and(|exec| {
                exec.spec.env.is_empty()
                    && exec.spec.working_dir.is_none()
                    && plain::leaves_state_alone(&exec.spec.command, &self.snapshot)
            })
    }

    /// Whether our own line could not run: then nothing of the user's text has.
    pub(crate) fn is_engine_failure(&self, noise: &str) -> bool {
        let Some(shell) = &self.shell else { return false };
        let own = format!("/proc/{}/fd/", std::process::id());
        let name = format!("{}: ", self.spec.shell.rsplit('/').next().unwrap_or_default());
        let mut complaints = noise.lines().filter(|line| line.starts_with(&name));
        complaints.any(|line| line.contains(&own) || shell.dialect.is_own_failure(line))
    }

    /// A directory that held for one command only is not the session's.
    pub(crate) fn note_cwd(&mut self, number: u64, told: String) {
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

    /// Whatever is due now.
    pub(crate) fn on_time(&mut self, now: Instant) {
        let due: Vec<u64> =
            self.active_execs().filter(|(_, exec)| is_due(exec, now)).map(|(number, _)| number).collect();
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
        if self.watch_control_at.is_some_and(|at| at <= now) {
            self.watch_control_at = None;
        }
        if self.stage_deadline.is_some_and(|at| at <= now) {
            self.on_stuck_shell();
        }
        if self.aftermath.as_ref().is_some_and(|aftermath| aftermath.next <= now) {
            self.press_aftermath();
        }
        self.on_quiet(now);
        if self.ending.as_ref().is_some_and(|ending| ending.next <= now) {
            self.press_on();
        }
        if self.idle_deadline().is_some_and(|at| at <= now) {
            let why = self.why_over(now);
            self.wind_down(None, false, &why);
        }
    }
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
