//! From a queued command to a running one.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use trl_protocol::fault::Fault;
use trl_protocol::limits;
use trl_protocol::wire::RunSpec;

use super::Host;
use super::run::started;
use crate::activity::timestamp;
use crate::cage::Visible;
use crate::commands::{Background, Input, Output, Requester};
use crate::driver::{Event, Launched, Next};
use crate::shell::dialect::Launch;
use crate::shell::messages::{MessageFilter, Wording};
use crate::shell::snapshot::Snapshot;
use crate::shell::{Shell, plain, reach, text};
use crate::spare::Prepared;
use crate::terminal;

impl Host {
    /// Starts whatever can be started now: background commands that waited for the shell's state,
    /// and the next queued command if the shell is free for it.
    pub(super) fn advance(&mut self) {
        self.release_awaiting_state();
        while self.driver.takes_next()
            && let Some(number) = self.commands.front()
        {
            let Some(exec) = self.commands.get(number) else {
                self.commands.dequeue(number);
                continue;
            };
            let history_first = self.state.needs_history_for(&exec.spec);
            let can_launch = self.driver.is_idle() && !history_first;
            if can_launch && let Err(fault) = self.state.check_env(&exec.spec.env, self.dialect()) {
                self.refuse(number, fault);
                continue;
            }
            if can_launch && self.shell.as_mut().is_some_and(|shell| std::mem::take(&mut shell.is_new)) {
                // What a new shell has written is not the command's.
                self.drain_terminal();
            }
            self.drive(Event::Next(Next { exec: number, history_first }));
        }
    }

    /// Background commands and forks that waited for the shell's state have it now.
    pub(super) fn release_awaiting_state(&mut self) {
        if self.driver.is_settling() {
            return;
        }
        for requester in self.subscribers.take_forkers() {
            let answer = self.on_fork(requester);
            self.subscribers.reply(requester, answer);
        }
        for (requester, run) in self.commands.take_awaiting_state() {
            let answer = self.on_run(requester, run);
            self.subscribers.reply(requester, answer);
        }
    }

    /// How long a command may run. Nobody waits for a background command: only a deadline that was
    /// asked for counts there.
    pub(super) fn timeout_of(&self, run: &RunSpec) -> Option<Duration> {
        let default = match run.background {
            true => 0,
            false => (self.spec.timeout_s.clamp(0.0, limits::MAX_SECONDS) * 1000.0) as u64,
        };
        let timeout = run.timeout_ms.unwrap_or(default);
        (timeout > 0).then(|| Duration::from_millis(timeout))
    }

    /// Takes back a command that never ran.
    pub(super) fn refuse(&mut self, number: u64, fault: Fault) {
        let Some(discarded) = self.commands.discard(number) else { return };
        let mut asking: Vec<Requester> = self.subscribers.followers_of(number);
        asking.extend(discarded.requester.filter(|requester| !asking.contains(requester)));
        self.subscribers.unfollow(number);
        for requester in asking {
            self.subscribers.refuse(requester, fault.clone());
        }
    }

    /// Hands a command to the shell.
    pub(super) fn launch(&mut self, number: u64) -> Event {
        self.commands.dequeue(number);
        match self.tell_shell(number) {
            Ok(by_prompt) => {
                self.mark_running(number, None);
                self.tell_start(number);
                self.show_start(number);
                self.feed(number);
                let timeout = self.commands.get(number).and_then(|exec| self.timeout_of(&exec.spec));
                Event::Launched(Launched { by_prompt, timeout })
            }
            Err(error) => {
                self.refuse(number, Fault::refused_for_now("the command could not be started", &error));
                Event::LaunchFailed
            }
        }
    }

    /// Those who follow a command hear that it runs now.
    fn tell_start(&mut self, number: u64) {
        let shell = self.shell_pid();
        let Some(exec) = self.commands.get(number) else { return };
        for Requester { link, req } in self.subscribers.listeners_of(number) {
            self.subscribers.send(link, &started(req, exec, shell));
        }
    }

    /// Prepares the command's streams and says its line. True if the prompt will tell its end.
    fn tell_shell(&mut self, number: u64) -> io::Result<bool> {
        let (Some(exec), Some(shell)) = (self.commands.get_mut(number), &mut self.shell) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let Prepared {
            text: empty,
            stdout: (stdout, stdout_write),
            stderr: (stderr, stderr_write),
            mut shown,
        } = self.kernel.spare.take(&mut self.cage)?;
        terminal::enter(exec, shell)?;
        if self.state.begin_with_usual_term(&self.spec, &exec.spec) {
            exec.spec.env.entry("TERM".to_owned()).or_insert_with(|| terminal::TERM.to_owned());
        }
        if exec.spec.replace_env {
            let hidden = self.state.hidden_beside(&self.spec.env, &exec.spec.env);
            exec.hidden = Some(Box::new(hidden));
        }
        let terminal = exec.terminal_end();
        let input = match (terminal, &exec.input) {
            (Some(terminal), _) => Some(terminal),
            (None, Input::Whole(file)) => Some(file.as_fd()),
            (None, Input::Open { read, .. }) => read.as_ref().map(OwnedFd::as_fd),
            (None, Input::Empty | Input::Closed) => None,
        };
        if let Some(input) = input {
            shown.push(self.cage.show_one(&input)?);
        }
        let path = |index: usize| shown.get(index).map_or("/dev/null", Visible::path);
        let stdout_path = if terminal.is_some() { path(3) } else { path(1) };
        let stderr_path = if exec.spec.merge_stderr { stdout_path } else { path(2) };
        let on_terminal = terminal.is_some();
        // On a terminal people expect to be told about their jobs.
        let quiet = may_speak_of_jobs(shell, &exec.spec.command, self.state.snapshot()) && !exec.spec.tty;
        let launch = Launch {
            text: &text::of(exec.spec.command.as_bytes()),
            text_path: path(0),
            stdin: path(3),
            stdout: stdout_path,
            stderr: stderr_path,
            env: &exec.spec.env,
            hidden: exec.hidden.as_deref(),
            keep_copies: shell.dialect.copies_end().is_some_and(|end| {
                reach::may_close_descriptors(&exec.spec.command, self.state.snapshot())
                    && trl_sys::process::soft_limit(shell.raw_pid(), "Max open files")
                        .is_none_or(|most| most >= end)
            }),
            quiet,
            cwd: exec.spec.working_dir.as_deref(),
            state: self.state.snapshot(),
        };
        let line = shell.dialect.run_line(&launch);
        let quiet_text = shell.dialect.quiet_text(&launch);
        let wording = shell.dialect.wording();
        exec.messages = wording.map(|wording| {
            message_filter(wording, &self.spec.shell, &launch, quiet_text.is_some(), exec.spec.merge_stderr)
        });
        exec.text = Some(match &quiet_text {
            Some(text) => empty.fill(&text::bytes(text))?,
            None => empty.fill([&exec.spec.command, "\n"].concat().as_bytes())?,
        });
        exec.outputs = [(stdout, stdout_write), (stderr, stderr_write)]
            .map(|(read, hold)| Some(Output::new(read, Some(hold))));
        exec.outputs[1].take_if(|_| exec.spec.merge_stderr);
        if on_terminal {
            self.terminal.give_to(number);
            exec.outputs[0] = None;
        }
        exec.shown = shown;
        if exec.had_to_wait {
            // On disk before the shell has the line: a command that may have run is never taken for
            // one that has not.
            self.commands.mark_begun(number, timestamp());
        }
        self.kernel.is_terminal_closed = false;
        shell.control.send(&line)?;
        Ok(shell.counts() && !shell.control.has_more())
    }

    pub(super) fn mark_running(&mut self, number: u64, pid: Option<i32>) {
        self.activity.mark();
        let (now, at) = self.activity.last();
        let background = pid.map(|pid| {
            let timeout = self.commands.get(number).and_then(|exec| self.timeout_of(&exec.spec));
            Background::new(pid, timeout.map(|timeout| now + timeout))
        });
        self.commands.mark_running(number, background, self.cage.hits(), now, at);
        self.notify_watchers(number);
    }

    /// A command's line could not run, so nothing of its text has: a new shell gets it.
    pub(super) fn requeue(&mut self, number: u64) {
        let until = Instant::now() + crate::driver::LINE_TIMEOUT * 2;
        if let Some(exec) = self.commands.get_mut(number) {
            exec.outputs = [None, None];
            exec.shown.clear();
        }
        self.commands.requeue(number, until);
    }
}

/// Whether the shell may have jobs while this text runs, and would say so on its streams.
fn may_speak_of_jobs(shell: &mut Shell, text: &str, state: &Snapshot) -> bool {
    let Some(wording) = shell.dialect.wording() else { return false };
    let starts_jobs = plain::may_start_jobs(text, state);
    // A function that starts jobs may be called by any name where functions cannot be listed.
    shell.has_started_jobs |= starts_jobs && wording == Wording::Dash;
    shell.may_have_jobs || shell.has_started_jobs || starts_jobs
}

/// Takes out what the shell itself says on the command's streams.
fn message_filter(
    wording: Wording,
    shell: &str,
    launch: &Launch<'_>,
    is_quiet: bool,
    merged: bool,
) -> Box<MessageFilter> {
    // In one stream with stdout, a list of jobs could not be told from notices.
    let lists = wording == Wording::Dash || plain::may_list_jobs(launch.text, launch.state);
    let notices = launch.quiet && !(merged && lists);
    // `eval` is named in the place of the file, unless it may be the text's own.
    let file = if is_quiet && !launch.text.contains("eval") { "eval" } else { launch.text_path };
    Box::new(MessageFilter::new(wording, shell, file, notices))
}
