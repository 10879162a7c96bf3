//! Ending a background command: the same steps as for the command in the shell, until everything that was
//! part of it is gone. Its own process often goes first, a shell that obeys; the programs that it
//! waited for have the same time as ever, and the outcome comes after them.

use std::collections::BTreeSet;
use std::time::Instant;

use rustix::process::{Pid, Signal};

use super::Host;
use super::outcome::End;
use super::stopping::children;
use crate::awaited::Awaited;
use crate::commands::{Background, Exec, LastProgram, StopTargets};
use crate::driver::{Exit, Step, Why};
use crate::strays::with_descendants;
use crate::tree::{self, Process};

impl Host {
    pub(super) fn stop_background(&mut self, number: u64) {
        let step =
            self.background_mut(number).and_then(|background| background.stop(Why::Cancel, Instant::now()));
        if let Some(step) = step {
            self.signal_background(number, step);
        }
    }

    /// The next steps of background commands whose time has come.
    pub(super) fn continue_background_stops(&mut self, now: Instant) {
        let due = |exec: &Exec| {
            let background = exec.running()?.background.as_ref()?;
            background.next_deadline().filter(|at| *at <= now).map(|_| exec.number)
        };
        let due: Vec<u64> = self.commands.active().filter_map(due).collect();
        for number in due {
            let step = self.background_mut(number).and_then(|background| background.due_step(now));
            if let Some(step) = step {
                self.signal_background(number, step);
                self.finish_if_gone(number);
            }
        }
    }

    fn background_mut(&mut self, number: u64) -> Option<&mut Background> {
        self.commands.get_mut(number)?.running_mut()?.background.as_mut()
    }

    fn signal_background(&mut self, number: u64, step: Step) {
        let shell = self.shell.as_ref().map(|shell| shell.raw_pid());
        let Some(running) = self.commands.get_mut(number).and_then(Exec::running_mut) else { return };
        let Some(pid) = running.background.as_ref().map(|background| background.pid) else { return };
        let targets = running.targets.get_or_insert_with(|| Box::new(first_targets(pid, shell)));
        targets.doomed = members(pid, targets);
        let alive: BTreeSet<(i32, u64)> = targets.doomed.iter().map(Process::identity).collect();
        let waited_for = targets.waited_for.intersection(&alive).copied().collect();
        targets.note_step(step, waited_for);
        targets.awaited = None;
        targets.signal(step);
    }

    /// The process of a background command has ended.
    pub(super) fn on_background_ended(&mut self, number: u64, exit: Exit) {
        let Some(background) = self.background_mut(number) else { return };
        if background.why_stopped().is_none() {
            return self.finish(number, End::Process(exit), None);
        }
        background.mark_ended(exit);
        self.finish_if_gone(number);
    }

    /// Something that was part of a stopped command has ended.
    pub(super) fn finish_stopped_backgrounds(&mut self) {
        let ended = |exec: &Exec| exec.running()?.background.as_ref()?.ended().map(|_| exec.number);
        let ended: Vec<u64> = self.commands.active().filter_map(ended).collect();
        for number in ended {
            self.finish_if_gone(number);
        }
    }

    /// Finishes a stopped command whose process has ended once nothing of it is left, or what is left is
    /// stuck in the kernel.
    fn finish_if_gone(&mut self, number: u64) {
        let Some(running) = self.commands.get_mut(number).and_then(Exec::running_mut) else { return };
        let (Some(background), Some(targets)) = (&running.background, &mut running.targets) else { return };
        let Some(exit) = background.ended() else { return };
        if !background.is_exhausted() {
            if targets.awaited.as_mut().is_some_and(|awaited| !awaited.are_gone()) {
                return;
            }
            targets.doomed = members(background.pid, targets);
            if targets.doomed.is_empty() {
                // One look may miss a process whose parent has just died, two do not.
                targets.doomed = members(background.pid, targets);
            }
            if !targets.doomed.is_empty() {
                // Without a descriptor for it, the next look is when the next step is due.
                targets.awaited = Awaited::new(targets.doomed.clone()).ok();
                return;
            }
        }
        let why = background.why_stopped();
        let exit = last_end(exit, self.fatal_signal(number), self.caught_exit(number));
        self.finish(number, End::Process(exit), why);
    }
}

/// What a stop begins with. `shell` is the session's: a background command that is no shell any more
/// waits for nobody.
fn first_targets(pid: i32, shell: Option<i32>) -> StopTargets {
    let all = tree::descendants(std::process::id() as i32);
    let in_session: BTreeSet<(i32, u64)> =
        all.iter().filter(|process| process.session == pid).map(Process::identity).collect();
    let doomed = with_descendants(all, |process| process.pid == pid);
    let own: BTreeSet<(i32, u64)> = doomed.iter().map(Process::identity).collect();
    let program = trl_sys::process::program(pid);
    let is_shell = program.is_some() && program == shell.and_then(trl_sys::process::program);
    let waited_for = children(&doomed, Pid::from_raw(pid).filter(|_| is_shell));
    StopTargets {
        last_program: LastProgram::of(&doomed, &waited_for, is_shell.then_some(pid)),
        waited_for,
        spared: in_session.difference(&own).copied().collect(),
        doomed,
        ..StopTargets::default()
    }
}

/// The processes of a background command. The first one may be gone once it is being stopped, and its pid
/// somebody else's.
pub(super) fn background_job(pid: i32, targets: Option<&StopTargets>) -> Vec<Process> {
    match targets {
        Some(targets) => members(pid, targets),
        None => tree::look(pid).into_iter().chain(tree::descendants(pid)).collect(),
    }
}

/// What of the command is alive: what was known of it, with all below that, and what came since and has
/// lost its parents. A background command has a session of the kernel's to itself.
fn members(pid: i32, targets: &StopTargets) -> Vec<Process> {
    let known: BTreeSet<(i32, u64)> = targets.doomed.iter().map(Process::identity).collect();
    let all = tree::descendants(std::process::id() as i32);
    let spared = with_descendants(all.clone(), |process| targets.spared.contains(&process.identity()));
    let spared: BTreeSet<(i32, u64)> = spared.iter().map(Process::identity).collect();
    let mut members = with_descendants(all, |process| {
        let identity = process.identity();
        known.contains(&identity) || (process.session == pid && !spared.contains(&identity))
    });
    // One whose parent has just died may be in neither list of children.
    let found: BTreeSet<(i32, u64)> = members.iter().map(Process::identity).collect();
    let missed = targets.doomed.iter().filter(|process| !found.contains(&process.identity()));
    members.extend(missed.filter(|process| tree::is_alive(process)).cloned());
    members
}

/// A shell that obeyed may have gone before the programs that it waited for: their end is the command's.
fn last_end(exit: Exit, programs: Option<Signal>, caught: Option<Exit>) -> Exit {
    match (exit, programs, caught) {
        (Exit::Signal(libc::SIGINT | libc::SIGTERM), _, Some(caught @ (Exit::Code(_) | Exit::Signal(_)))) => {
            caught
        }
        (Exit::Signal(libc::SIGINT), Some(signal), _) => Exit::Signal(signal.as_raw()),
        (Exit::Signal(libc::SIGTERM), Some(Signal::KILL), _) => Exit::Signal(libc::SIGKILL),
        (exit, _, _) => exit,
    }
}
