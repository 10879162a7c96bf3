//! Ending a running command: signals to what runs, step by step, until everything that was part of
//! it is gone. Which step comes when is decided by [`crate::driver`]. Background commands are ended in
//! [`super::background_stop`].

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal};
use trl_protocol::fault::Fault;
use trl_protocol::wire::FromHost;

use super::Host;
use super::background_stop::background_job;
use super::outcome::End;
use crate::awaited::Awaited;
use crate::commands::{Exec, LastProgram, Phase, Running, StopTargets};
use crate::driver::{Event, Exit, Step, Why};
use crate::strays::{self, ProcessSnapshot};
use crate::tree;

impl Host {
    pub(super) fn on_cancel(
        &mut self,
        req: u64,
        number: Option<u64>,
        signal: Option<i32>,
    ) -> Result<Option<FromHost>, Fault> {
        // While the shell tidies up after one command, the next one is all there is.
        let current = || self.driver.foreground().or_else(|| self.commands.front());
        let number = number.or_else(current);
        // The files are for whoever waits for the shell; a background command has one of its own.
        let startup = self.is_starting()
            && match number {
                Some(number) => matches!(self.known(number)?.phase, Phase::Queued { .. }),
                None => true,
            };
        if startup {
            let named = signal.map(named_signal).transpose()?;
            self.interrupt_startup(named);
        }
        let Some(number) = number else {
            return Ok(Some(FromHost::Cancelled { req, exec: None, startup }));
        };
        match &self.known(number)?.phase {
            Phase::Finished { .. } => return Ok(Some(FromHost::Cancelled { req, exec: None, startup })),
            Phase::Queued { .. } => self.drop_queued(number),
            Phase::Running(running) => match signal {
                None if running.background.is_some() => self.stop_background(number),
                None => self.drive(Event::Stop { exec: number, why: Why::Cancel }),
                Some(raw) => {
                    let named = named_signal(raw)?;
                    self.signal_command(Some(running), named);
                    if let Some(running) = self.commands.get_mut(number).and_then(Exec::running_mut) {
                        running.named = Some(raw);
                    }
                }
            },
        }
        Ok(Some(FromHost::Cancelled { req, exec: Some(number), startup }))
    }

    /// A queued command never runs; whoever waits for it hears that it was cancelled.
    fn drop_queued(&mut self, number: u64) {
        self.commands.dequeue(number);
        self.finish(number, End::NeverRan, Some(Why::Cancel));
    }

    /// Takes one step towards the end of the command in the shell. `with_shell`: the shell itself is
    /// still at work on it.
    pub(super) fn signal_step(&mut self, number: u64, step: Step, with_shell: bool) {
        let shell = self.shell.as_ref().map(|shell| shell.pid);
        let mut job = match with_shell {
            true => self.job(None).processes,
            // The shell is back: what is in its foreground now is not part of the command.
            false => Vec::new(),
        };
        let Some(running) = self.commands.get_mut(number).and_then(Exec::running_mut) else { return };
        let targets = running.targets.get_or_insert_with(|| {
            let waited_for = children(&job, shell);
            Box::new(StopTargets {
                seen: shell.map(|shell| ProcessSnapshot::now(shell, &job)).unwrap_or_default(),
                last_program: LastProgram::of(
                    &job,
                    &waited_for,
                    shell.map(|shell| shell.as_raw_nonzero().get()),
                ),
                waited_for,
                ..StopTargets::default()
            })
        });
        let waited_for = children(&job, shell);
        // The shell continues with its text whatever it is told: more of its programs would only die
        // one after the other.
        let goes_on =
            step == Step::Kill && !targets.killed.is_empty() && !waited_for.is_subset(&targets.killed);
        targets.note_step(step, waited_for);
        let strays = shell.map(|shell| targets.seen.strays(shell)).unwrap_or_default();
        job.extend(strays);
        let again: BTreeSet<(i32, u64)> = job.iter().map(tree::Process::identity).collect();
        targets.doomed.retain(|process| !again.contains(&process.identity()));
        targets.doomed.append(&mut job);
        targets.awaited = None;
        if let (Some(shell), true) = (shell, with_shell) {
            // First, so that nothing of the text continues when its current program has died.
            rustix::process::kill_process(shell, Signal::INT).ok();
            if step == Step::KillShell || goes_on {
                rustix::process::kill_process(shell, Signal::KILL).ok();
            }
        }
        targets.signal(step);
    }

    /// The signal that has ended every program that the shell waited for, if it was one of a stop's later steps.
    pub(super) fn fatal_signal(&self, number: u64) -> Option<Signal> {
        let StopTargets { waited_for, terminated, killed, .. } = self.stop_targets(number)?;
        if waited_for.is_empty() {
            None
        } else if waited_for.is_subset(killed) {
            Some(Signal::KILL)
        } else {
            (waited_for.is_subset(terminated) && waited_for.is_disjoint(killed)).then_some(Signal::TERM)
        }
    }

    /// How the last program that the shell waited for has ended, if it has caught a signal of a stop.
    pub(super) fn caught_exit(&self, number: u64) -> Option<Exit> {
        self.stop_targets(number)?.last_program.as_ref()?.exit()
    }

    /// Whether a stop has found the shell at work without any program.
    pub(super) fn was_interrupted_alone(&self, number: u64) -> bool {
        self.stop_targets(number).is_some_and(|targets| targets.waited_for.is_empty())
    }

    fn stop_targets(&self, number: u64) -> Option<&StopTargets> {
        self.commands.get(number)?.running()?.targets.as_deref()
    }

    /// Whether something that was part of a stopped command is still alive. Its strays are killed.
    pub(super) fn has_stragglers(&mut self, number: u64) -> bool {
        let Some(shell) = self.shell.as_ref().map(|shell| shell.pid) else { return false };
        let running = self.commands.get_mut(number).and_then(Exec::running_mut);
        let Some(targets) = running.and_then(|running| running.targets.as_mut()) else { return false };
        if targets.awaited.as_mut().is_some_and(|awaited| !awaited.are_gone()) {
            return true;
        }
        for stray in targets.seen.strays(shell) {
            tree::signal(&stray, Signal::KILL);
            targets.doomed.push(stray);
        }
        targets.doomed.retain(tree::is_alive);
        if targets.doomed.is_empty() {
            return false;
        }
        // Without a descriptor for it, the next look is when the next step is due.
        targets.awaited = Awaited::new(targets.doomed.clone()).ok();
        true
    }

    /// One of the processes of a stopped command is gone.
    pub(super) fn on_straggler_gone(&mut self) {
        if let Some(number) = self.driver.foreground() {
            let alive = self.has_stragglers(number);
            self.drive(Event::Stragglers { alive });
        }
        self.finish_stopped_backgrounds();
    }

    /// The command is over; strays of it may still appear below the shell.
    pub(super) fn watch_strays(&mut self, number: u64) {
        let running = self.commands.get_mut(number).and_then(Exec::running_mut);
        let targets = running.and_then(|running| running.targets.as_mut());
        if let (Some(targets), Some(shell)) = (targets, &mut self.shell) {
            shell.stray_watch = Some(std::mem::take(&mut targets.seen));
        }
    }

    /// The shell is silent: it waits for a process that it should have forgotten.
    pub(super) fn end_strays(&mut self) {
        let job = self.job(None).processes;
        let Some(shell) = &self.shell else { return };
        if let Some(seen) = &shell.stray_watch {
            strays::end(&seen.strays(shell.pid));
            strays::end(&job);
        }
    }

    /// Sends just the signal named to what runs. The shell itself only ever gets INT, which takes it to
    /// its prompt.
    pub(super) fn signal_command(&self, running: Option<&Running>, signal: Signal) {
        let job = self.job(running);
        job.signal(signal);
        if job.is_shell && job.processes.is_empty() {
            self.interrupt_shell();
        }
    }

    /// Kills what the shell runs. The shell is stopped first, or it would go on with the next program; it is to be
    /// killed after that.
    pub(super) fn kill_foreground(&self) {
        if let Some(shell) = &self.shell {
            rustix::process::kill_process(shell.pid, Signal::STOP).ok();
        }
        self.job(None).signal(Signal::KILL);
    }

    pub(super) fn interrupt_shell(&self) {
        if let Some(shell) = &self.shell {
            rustix::process::kill_process(shell.pid, Signal::INT).ok();
        }
    }

    /// The processes of a background command; otherwise the foreground job and all below it.
    pub(super) fn job(&self, running: Option<&Running>) -> Job {
        if let Some(Running { background: Some(background), targets, .. }) = running {
            return Job { processes: background_job(background.pid, targets.as_deref()), is_shell: false };
        }
        let Some(shell) = &self.shell else { return Job { processes: Vec::new(), is_shell: false } };
        let shell_pid = shell.raw_pid();
        let foreground =
            rustix::termios::tcgetpgrp(&shell.terminal).map_or(shell_pid, |pid| pid.as_raw_nonzero().get());
        Job { processes: tree::job(shell_pid, foreground), is_shell: foreground == shell_pid }
    }
}

/// What a running command consists of.
pub(super) struct Job {
    pub(super) processes: Vec<tree::Process>,
    /// The shell itself is in the foreground, with a loop or a builtin.
    is_shell: bool,
}

impl Job {
    pub(super) fn signal(&self, signal: Signal) {
        for process in &self.processes {
            tree::signal(process, signal);
        }
    }
}

/// The processes of a job that the shell itself has started and waits for.
pub(super) fn children(job: &[tree::Process], shell: Option<Pid>) -> BTreeSet<(i32, u64)> {
    let shell = shell.map(|shell| shell.as_raw_nonzero().get());
    let is_child = |process: &&tree::Process| Some(process.parent) == shell && !process.zombie;
    job.iter().filter(is_child).map(tree::Process::identity).collect()
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
