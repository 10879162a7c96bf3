//! Shells end. The command that was running gets its outcome at once; the next one
//! runs in a new shell with the restored state.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use trl_protocol::fault::Fault;

use crate::engine::{FIRST_PROMPT_DUE, PATIENCE};
use crate::exec::Phase;
use crate::host::{Host, Stage};
use crate::outcome::End;
use crate::revival::without;
use crate::shell::snapshot::Snapshot;
use crate::shell::{Shell, text};
use crate::tree;

impl Host {
    /// The shell is beyond use (no descriptors, no builtins): a new one runs the command, for the first time.
    pub(crate) fn run_in_new_shell(&mut self, number: u64) {
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
        self.drain_terminal();
        if let Some(shell) = self.shell.take() {
            // Reaped like any other child.
            rustix::process::kill_process(shell.pid, Signal::KILL).ok();
        }
        self.stage = Stage::Dead;
        self.stage_deadline = None;
        self.shell_note = Some(why.to_owned());
    }

    /// It is stuck in a line of ours: in a hook or a function of the user's that never ends.
    pub(crate) fn on_stuck_shell(&mut self) {
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
    pub(crate) fn give_up_shell(&mut self, number: u64, what: String) {
        self.abandon_shell("");
        self.shell_note = None;
        self.finish(number, End::Unknown(what));
        self.shell_note = Some("the shell was replaced after the command before".to_owned());
    }

    /// Gives a fresh shell what the last state had beyond it.
    pub(crate) fn restore(&mut self, fresh: &Snapshot) {
        let Some(shell) = &self.shell else { return };
        let difference = self.snapshot.differs_from(fresh);
        let scripts =
            difference.scripts(|entry| shell.dialect.guard(entry), |entry| shell.dialect.is_risky(entry));
        self.go_on_starting(false, scripts.into());
    }

    /// A new shell, to be given the state of the last snapshot.
    pub(crate) fn replace_shell(&mut self) {
        let (dir, lost_dir) = existing_dir(&self.cwd, &self.spec.env);
        match Shell::spawn(&self.spec, &dir) {
            Ok(shell) => {
                if let Some(size) = self.terminal_size {
                    // Without it the new terminal has a usual size.
                    rustix::termios::tcsetwinsize(&shell.terminal, size).ok();
                }
                self.shell = Some(shell);
                self.stage_deadline = Some(Instant::now() + PATIENCE);
                self.watch_control_at = self.spec.rc.then(|| Instant::now() + FIRST_PROMPT_DUE);
                self.restarts += 1;
                self.stage = Stage::Starting { restore: true, scripts: VecDeque::new(), current: None };
                let why = self.shell_note.take().unwrap_or_else(|| "the shell had ended".to_owned());
                let mut note = format!("{why}; this command ran in a new shell with the restored state");
                note.push_str(&without(Some(&self.snapshot)));
                if let Some(gone) = lost_dir {
                    note.push_str(&format!(
                        " (its directory {} is gone, it is in {} now)",
                        text::shown(&gone),
                        text::shown(&dir)
                    ));
                }
                self.shell_note = Some(note);
                self.cwd = dir;
                self.tell_watchers_of_shell();
            }
            Err(error) => {
                for number in std::mem::take(&mut self.queue) {
                    let what = "the shell has ended and no new one could be started";
                    self.refuse(number, Fault::refused_for_now(what, &error));
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

    pub(crate) fn on_shell_ended(&mut self, status: WaitStatus) {
        self.drain_terminal();
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

    pub(crate) fn on_child_ended(&mut self, pid: Pid, status: WaitStatus) {
        let pid = pid.as_raw_nonzero().get();
        let number = self.active_execs().find(|(_, exec)| exec.running().is_some_and(|r| r.pid == Some(pid)));
        if let Some(number) = number.map(|(number, _)| number) {
            self.finish(number, End::Process(status));
        }
    }
}

/// The directory, or the nearest place that exists, and the one that is gone.
pub(crate) fn existing_dir(dir: &str, env: &BTreeMap<String, String>) -> (String, Option<String>) {
    let exists = |dir: &str| std::fs::metadata(text::os(dir)).is_ok_and(|meta| meta.is_dir());
    if exists(dir) {
        return (dir.to_owned(), None);
    }
    let home = env.get("HOME").filter(|home| exists(home)).cloned();
    (home.unwrap_or_else(|| "/".to_owned()), Some(dir.to_owned()))
}

pub(crate) fn describe(status: WaitStatus) -> String {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by {}", tree::signal_name(signal)),
        (None, None) => "in an unknown way".to_owned(),
    }
}
