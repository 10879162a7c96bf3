//! Shells end. The command that was running gets its outcome at once; the next one runs in a new
//! shell with the restored state.

use std::collections::BTreeMap;

use rustix::process::{Signal, WaitOptions, WaitStatus};
use trl_protocol::fault::{Code, Fault};
use trl_protocol::wire::FromHost;

use super::Host;
use crate::cage::Cage;
use crate::commands::{Exec, Requester};
use crate::driver::{Event, Exit, Fresh};
use crate::revival::state_of_new_shell;
use crate::shell::{Shell, text};

impl Host {
    /// Kills a shell that is of no use, and lets go of it.
    pub(super) fn kill_shell(&mut self) {
        self.drain_terminal();
        if let Some(shell) = self.let_go_of_shell() {
            // Reaped like any other child.
            rustix::process::kill_process(shell.pid, Signal::KILL).ok();
        }
    }

    /// The shell has ended, or is to.
    fn let_go_of_shell(&mut self) -> Option<Shell> {
        let shell = self.shell.take()?;
        self.kernel.is_terminal_closed = false;
        if std::mem::take(&mut self.kernel.watches_terminal) {
            self.kernel.rare.remove(&shell.terminal);
        }
        Some(shell)
    }

    /// Starts a new shell, to be given the last known state.
    pub(super) fn spawn_shell(&mut self) -> Event {
        let (dir, lost_dir) = existing_dir(self.state.cwd(), &self.spec.env, &self.cage);
        let rc = self.spec.rc && !self.startup.skips_files();
        let shell = match Shell::spawn(&self.spec, &dir, rc, self.prompts_on_stdout, &mut self.cage) {
            Ok(shell) => shell,
            Err(error) => {
                for number in self.commands.take_queue() {
                    let what = "the shell has ended and no new one could be started";
                    self.refuse(number, Fault::refused_for_now(what, &error));
                }
                return Event::SpawnFailed;
            }
        };
        if let Some(size) = self.terminal.size() {
            // Without it the new terminal has a usual size.
            rustix::termios::tcsetwinsize(&shell.terminal, size).ok();
        }
        let startup_files = shell.reads_startup_files();
        if startup_files {
            self.startup.begin_again();
        }
        self.shell = Some(shell);
        let why = self.state.take_note().unwrap_or_else(|| "the shell had ended".to_owned());
        let mut note = format!("{why}; {}", state_of_new_shell(self.state.known()));
        if let Some(gone) = lost_dir {
            note.push_str(&format!(
                " (its directory {} is gone, it is in {} now)",
                text::shown(&gone),
                text::shown(&dir)
            ));
        }
        self.state.set_note(note);
        self.state.mark_restarted(dir);
        // A host after this one goes on counting.
        self.save_session();
        if self.subscribers.has_watchers() {
            let session = Box::new(self.info());
            self.subscribers.notify_watchers(None, Some(session));
        }
        self.state.mark_replaced();
        Event::Spawned(Fresh { restore: self.state.known().is_some(), startup_files })
    }

    /// Answers those who asked for a new shell.
    pub(super) fn answer_restart(&mut self) {
        for Requester { link, req } in self.subscribers.take_restarters() {
            let answer = match &self.shell {
                Some(_) => FromHost::Session { req, session: Box::new(self.info()) },
                None => {
                    let fault = Fault::new(Code::ResourcePressure, "no new shell could be started");
                    FromHost::Fault { req, fault }
                }
            };
            self.subscribers.send(link, &answer);
        }
    }

    /// Collects the dead: the shell, background commands, orphans.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            self.on_child_ended(pid.as_raw_nonzero().get(), exit(status));
        }
        self.continue_wind_down();
    }

    /// Hears of the dead in the cage, whom pid 1 inside has collected.
    pub(super) fn reap_inside(&mut self) {
        let (ended, is_gone) = self.cage.ended();
        for (pid, exit) in ended {
            self.on_child_ended(pid, exit);
        }
        if is_gone {
            // With pid 1, the kernel has ended all the others.
            let background = |exec: &Exec| Some(exec.running()?.background.as_ref()?.pid);
            let pids: Vec<i32> = self.commands.active().filter_map(background).collect();
            for pid in self.shell.as_ref().map(Shell::raw_pid).into_iter().chain(pids) {
                self.on_child_ended(pid, Exit::Signal(libc::SIGKILL));
            }
        }
        self.continue_wind_down();
    }

    fn on_child_ended(&mut self, pid: i32, exit: Exit) {
        if self.shell.as_ref().is_some_and(|shell| shell.raw_pid() == pid) {
            self.drain_terminal();
            self.let_go_of_shell();
            self.drive(Event::ShellEnded(exit));
            return;
        }
        let ended = self.commands.active().find_map(|exec| {
            let background = exec.running()?.background.as_ref()?;
            (background.pid == pid && background.ended().is_none()).then_some(exec.number)
        });
        if let Some(number) = ended {
            self.on_background_ended(number, exit);
        }
    }
}

fn exit(status: WaitStatus) -> Exit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

/// The directory, or the nearest one that exists, and the one that is gone. What exists in a cage is
/// found out by pid 1 inside.
pub(super) fn existing_dir(
    dir: &str,
    env: &BTreeMap<String, String>,
    cage: &Cage,
) -> (String, Option<String>) {
    let exists = |dir: &str| std::fs::metadata(text::os(dir)).is_ok_and(|meta| meta.is_dir());
    if cage.is_closed() || exists(dir) {
        return (dir.to_owned(), None);
    }
    let home = env.get("HOME").filter(|home| exists(home)).cloned();
    (home.unwrap_or_else(|| "/".to_owned()), Some(dir.to_owned()))
}
