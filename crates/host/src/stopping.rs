//! Bringing a running command to its end: signals to what runs, step by step, until
//! everything that was part of it is gone.

use std::collections::BTreeSet;
use std::time::Instant;

use rustix::process::Signal;
use trl_protocol::fault::Fault;
use trl_protocol::wire::FromHost;

use crate::awaited::Awaited;
use crate::exec::escalation::Step;
use crate::exec::{Exec, Phase, Stopping, Why};
use crate::host::{Host, Stage};
use crate::outcome::End;
use crate::strays::Seen;
use crate::tree;

impl Host {
    pub(crate) fn on_cancel(
        &mut self,
        req: u64,
        number: Option<u64>,
        signal: Option<i32>,
    ) -> Result<Option<FromHost>, Fault> {
        // While the shell tidies up after one command, the next one is all there is.
        let current = || self.running_number().or_else(|| self.queue.front().copied());
        let Some(number) = number.or_else(current) else {
            return Ok(Some(FromHost::Cancelled { req, exec: None }));
        };
        let exec = self.known(number)?;
        match &exec.phase {
            Phase::Finished { .. } => return Ok(Some(FromHost::Cancelled { req, exec: None })),
            Phase::Queued { .. } => self.drop_queued(number),
            Phase::Running(running) => {
                let beside = running.pid;
                match signal {
                    None if running.stopping.is_none() => self.stop(number, Why::Cancel),
                    None => {}
                    Some(raw) => {
                        let named = named_signal(raw)?;
                        self.signal_command(beside, named);
                        if let Some(running) = self.execs.get_mut(&number).and_then(Exec::running_mut) {
                            running.named = Some(raw);
                        }
                    }
                }
            }
        }
        Ok(Some(FromHost::Cancelled { req, exec: Some(number) }))
    }

    /// A queued command never runs; whoever waits for it hears that it was cancelled.
    fn drop_queued(&mut self, number: u64) {
        self.queue.retain(|queued| *queued != number);
        self.finish(number, End::Unknown("it was cancelled before it ran".to_owned()));
    }

    /// A stopped command is over when everything that was part of it is gone.
    pub(crate) fn go_on_waning(&mut self) {
        let Stage::Waning { exec: number, status, asked } = self.stage else { return };
        let shell = self.shell.as_ref().map(|shell| shell.pid);
        let Some(running) = self.execs.get_mut(&number).and_then(Exec::running_mut) else { return };
        if let (Some(stopping), Some(shell)) = (&mut running.stopping, shell) {
            if stopping.awaited.as_mut().is_some_and(|awaited| !awaited.are_gone()) {
                return;
            }
            for stray in stopping.seen.strays(shell) {
                tree::signal(&stray, Signal::KILL);
                stopping.doomed.push(stray);
            }
            stopping.doomed.retain(tree::is_alive);
            if !stopping.doomed.is_empty() && !stopping.escalation.is_exhausted() {
                // Without a descriptor for it, the next look is when the time for it comes.
                stopping.awaited = Awaited::new(stopping.doomed.clone()).ok();
                return;
            }
        }
        let seen = running.stopping.as_mut().map(|stopping| std::mem::take(&mut stopping.seen));
        self.finish(number, End::Status(status));
        if self.ending.is_none() {
            seen.into_iter().for_each(|seen| self.watch_aftermath(seen));
            // The shell may still have an interrupt to digest; an empty line takes it.
            self.stage = Stage::Clearing { exec: number, status, asked };
            self.say(Some(" \n".to_owned()));
        }
    }

    /// Takes the next step towards the end of a running command.
    pub(crate) fn stop(&mut self, number: u64, why: Why) {
        let waning = matches!(self.stage, Stage::Waning { exec, .. } if exec == number);
        let Some(beside) = self.execs.get(&number).and_then(Exec::running).map(|running| running.pid) else {
            return;
        };
        let shell = self.shell.as_ref().filter(|_| beside.is_none()).map(|shell| shell.pid);
        self.watch_control_at = None;
        let mut job = if waning { Vec::new() } else { self.job(beside).processes };
        let Some(running) = self.execs.get_mut(&number).and_then(Exec::running_mut) else { return };
        let stopping = running.stopping.get_or_insert_with(|| {
            let seen = shell.map(|shell| Seen::now(shell, &job));
            Stopping::new(why, seen.unwrap_or_default())
        });
        let strays = shell.map(|shell| stopping.seen.strays(shell)).unwrap_or_default();
        job.extend(strays);
        let again: BTreeSet<(i32, u64)> = job.iter().map(|process| (process.pid, process.started)).collect();
        stopping.doomed.retain(|process| !again.contains(&(process.pid, process.started)));
        stopping.doomed.append(&mut job);
        stopping.awaited = None;
        let (step, grace) = stopping.escalation.next();
        stopping.next = Instant::now() + grace;
        if let (Some(shell), false) = (shell, waning) {
            // First, so that nothing of the text goes on when its current program has died.
            rustix::process::kill_process(shell, Signal::INT).ok();
            if step == Step::EndShell {
                rustix::process::kill_process(shell, Signal::KILL).ok();
            }
        }
        let signal = match step {
            Step::Interrupt => Signal::INT,
            Step::Terminate => Signal::TERM,
            Step::Kill | Step::EndShell => Signal::KILL,
        };
        for process in &stopping.doomed {
            tree::signal(process, signal);
            // A job that was stopped dies of its signal only when it goes on.
            tree::signal(process, Signal::CONT);
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
    pub(crate) fn job(&self, beside: Option<i32>) -> Job {
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
}

/// What a running command consists of.
pub(crate) struct Job {
    pub(crate) processes: Vec<tree::Process>,
    /// The shell itself is in the foreground, with a loop or a builtin.
    is_shell: bool,
}

/// The C library keeps 32 and 33 to itself.
fn named_signal(raw: i32) -> Result<Signal, Fault> {
    match (Signal::from_named_raw(raw), raw) {
        (Some(signal), _) => Ok(signal),
        // SAFETY: a signal of the kernel's that the C library leaves to programs; this one is only sent.
        (None, 34..=64) => Ok(unsafe { Signal::from_raw_unchecked(raw) }),
        (None, _) => Err(Fault::invalid(format!("param `signal`: {raw} cannot be sent; nothing was done"))),
    }
}
