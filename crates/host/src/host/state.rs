//! Between two commands: the shell puts back what held for one only and prints its state, which is
//! kept for a new shell and a new host.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use trl_journal::{SessionFile, Since};
use trl_protocol::fault::{Code, Fault};
use trl_protocol::wire::{FromHost, SessionSpec};

use super::Host;
use crate::cage::Visible;
use crate::commands::Requester;
use crate::driver::{AskState, Attempt, Event, Purpose, StateRead};
use crate::revival::{Begin, SavedState};
use crate::shell::dialect::Settle;
use crate::shell::snapshot::Snapshot;
use crate::shell::{MemFile, StatePrint, careful, may_write, memory_of, text, umask_of};

impl Host {
    /// Asks the shell to put back what held for one command and to print its state.
    pub(super) fn ask_state(&mut self, ask: AskState) -> Option<Event> {
        if let Some(status) = ask.status {
            self.state.set_last_status(status);
        }
        let unrecorded = self.state.take_unrecorded();
        let exec = ask.exec.and_then(|number| self.commands.get(number));
        let shell = self.shell.as_mut()?;
        // Before the first print, what a variable goes back to is what the session began with.
        let begun = match self.state.known() {
            Some(_) => None,
            None => Some(Snapshot::of_env(&self.spec.env)),
        };
        if shell.dialect.wording().is_some() {
            shell.may_have_jobs = !trl_sys::process::children(shell.raw_pid()).is_empty();
        }
        let is_large = memory_of(shell.pid) > careful::FROM_BYTES;
        let script = shell.dialect.settle_script(&Settle {
            history: unrecorded
                .iter()
                .chain(exec.map(|exec| &exec.spec.command))
                .map(|command| text::of(command.as_bytes()))
                .collect(),
            cwd_back: exec.and_then(|exec| exec.spec.working_dir.as_ref()).map(|_| self.state.cwd()),
            env_back: exec.map(|exec| exec.spec.env.keys().map(String::as_str).collect()).unwrap_or_default(),
            hidden: exec.and_then(|exec| exec.hidden.as_deref()),
            state: begun.as_ref().unwrap_or(self.state.snapshot()),
            prompt_back: ask.prompt_back,
            status: self.state.last_status(),
            careful: is_large,
        });
        let (Ok(script), Ok(dump)) = (MemFile::script(&script), MemFile::new(b"")) else {
            return Some(Event::LineFailed);
        };
        let Ok(shown) = self.cage.show(&[script.as_fd(), dump.as_fd()]) else {
            return Some(Event::LineFailed);
        };
        let Ok([script_shown, printed_to]): Result<[Visible; 2], _> = shown.try_into() else {
            return Some(Event::LineFailed);
        };
        let mute = !may_write(shell.pid);
        let to = if mute { "/dev/null" } else { printed_to.path() };
        let line = shell.dialect.settle_line(script_shown.path(), to, false);
        shell.state_print = Some(StatePrint { text: script, script: script_shown, dump, printed_to, mute });
        self.say(&line);
        is_large.then_some(Event::StateIsLarge)
    }

    pub(super) fn ask_state_again(&mut self, attempt: Attempt, uncover: bool) {
        let Some(shell) = &self.shell else { return };
        let Some(print) = &shell.state_print else { return };
        let line = shell.dialect.settle_line(print.script.path(), print.printed_to.path(), uncover);
        self.attempt(attempt, &line);
    }

    /// Reads what the shell has printed, and keeps it.
    pub(super) fn read_state(&mut self, purpose: Purpose) -> StateRead {
        let Some(shell) = &mut self.shell else { return StateRead::Known };
        // The last known state stays when the shell may not write files.
        let Some(print) = shell.state_print.as_ref().filter(|print| !print.mute) else {
            return StateRead::Known;
        };
        let dump = print.dump.read().unwrap_or_default();
        let Some(mut snapshot) = shell.dialect.read_dump(&text::of(&dump)) else {
            return StateRead::Unreadable;
        };
        shell.state_print = None;
        if snapshot.partial && self.state.known().is_some() {
            return StateRead::Known;
        }
        snapshot.shed();
        snapshot.umask = umask_of(shell.pid).unwrap_or_default();
        match purpose {
            Purpose::Baseline => {
                let difference = self.state.snapshot().differs_from(&snapshot);
                let scripts = difference
                    .scripts(|entry| shell.dialect.guard(entry), |entry| shell.dialect.is_risky(entry));
                return StateRead::Baseline(scripts.into());
            }
            Purpose::AfterCommand | Purpose::History => {
                if self.state.learn(snapshot) {
                    self.save_session();
                }
            }
        }
        StateRead::Known
    }

    /// Tells what another session needs to begin as this one is. While a command runs, that is the
    /// state before it.
    pub(super) fn on_fork(&mut self, who: Requester) -> Result<Option<FromHost>, Fault> {
        if self.shutdown.has_begun() {
            return Err(Fault::new(Code::SessionTerminated, "the session is ending"));
        }
        if self.driver.is_settling() {
            self.subscribers.await_fork(who);
            return Ok(None);
        }
        let begin = Begin { snapshot: self.state.known().cloned(), cwd: self.state.cwd().to_owned() };
        let begin = serde_json::to_value(begin)
            .map_err(|error| Fault::internal(format!("the shell's state cannot be told: {error}")))?;
        let spec = Box::new(SessionSpec { begin_with: Some(begin), ..self.spec.clone() });
        Ok(Some(FromHost::Forked { req: who.req, spec }))
    }

    /// Writes down what a host after this one needs. On a full disk the last that could be written stays.
    pub(super) fn save_session(&mut self) {
        self.store_session().ok();
    }

    pub(super) fn store_session(&mut self) -> io::Result<()> {
        if self.shutdown.has_begun() {
            return Ok(());
        }
        self.state.mark_saved();
        let snapshot = self.state.known().cloned();
        let waiting = self.commands.queue().collect();
        let since = Since { next_number: self.commands.next_number(), waiting };
        let file = SessionFile::new(self.spec.clone(), self.info(), SavedState { snapshot, since });
        if let Some(kept) = &self.spec.keep_state {
            // What could not be kept only means that a later session begins anew.
            file.write_as(Path::new(kept), false).ok();
        }
        file.write(Path::new(&self.spec.state_dir), self.is_durable())
    }
}
