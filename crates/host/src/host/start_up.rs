//! From the shell's start to its first prompt, while the user's start-up files are read.

use rustix::process::Signal;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::wire::FromHost;
use trl_sys::process;

use super::Host;
use crate::commands::Requester;
use crate::driver::{Event, StartupFailure};
use crate::strays::{self, ProcessSnapshot};
use crate::{startup, tree};

impl Host {
    /// Whether the shell still reads its start-up files.
    pub(super) fn is_starting(&self) -> bool {
        self.has_never_been_ready() || self.driver.reads_startup_files()
    }

    /// Whether the session's first shell still reads its start-up files.
    fn has_never_been_ready(&self) -> bool {
        self.spec.rc && !self.startup.is_over()
    }

    /// The shell is ready for its first command.
    pub(super) fn end_startup(&mut self) {
        // What was written before the prompt is not for the first command.
        self.drain_terminal();
        for Requester { link, req } in self.startup.end() {
            let session = Box::new(self.info());
            self.subscribers.send(link, &FromHost::Session { req, session });
        }
    }

    pub(super) fn on_await_ready(&mut self, who: Requester) -> Result<Option<FromHost>, Fault> {
        if let Some(fault) = self.startup.failure() {
            return Err(fault.clone());
        }
        if self.has_never_been_ready() {
            self.startup.wait(who);
            return Ok(None);
        }
        Ok(Some(FromHost::Session { req: who.req, session: Box::new(self.info()) }))
    }

    /// The shell is gone before it was ready, or of no use. A session that never was ready is ended; one that has a
    /// state to restore, or whose files somebody wants to be left, gets a shell without start-up files.
    pub(super) fn on_startup_failed(&mut self, failure: StartupFailure) {
        let why = startup::explain(failure, self.startup.output().as_deref());
        let is_followed = matches!(failure, StartupFailure::Interrupted(_) | StartupFailure::StderrReplaced);
        if is_followed || self.startup.is_over() || self.state.known().is_some() {
            self.startup.skip_files();
            return self.state.set_note(format!("{why}; this time they were not read"));
        }
        let details = serde_json::json!({
            "session_id": self.spec.session_id,
            "state": "terminated",
            "startup_output": self.startup.output(),
        });
        let fault = |end: &str| {
            let message = format!("{why}. The session has ended{end}");
            Fault::new(Code::SessionTerminated, message).with_details(details.clone())
        };
        for number in self.commands.take_queue() {
            self.refuse(number, fault(", and the command did not run"));
        }
        for who in self.startup.fail(fault("")) {
            self.subscribers.refuse(who, fault(""));
        }
        self.wind_down(None, true, &why);
    }

    /// As Ctrl-C does at a keyboard: the shell leaves its start-up files and becomes ready.
    pub(super) fn interrupt_startup(&mut self, signal: Option<Signal>) {
        let signal = signal.unwrap_or(Signal::INT);
        if !matches!(signal, Signal::INT | Signal::TERM | Signal::HUP | Signal::QUIT | Signal::KILL) {
            // It is for the program that runs, and nobody wants the shell to leave its files.
            return self.job(None).signal(signal);
        }
        if self.shell.as_ref().is_some_and(|shell| process::dies_of(shell.raw_pid(), Signal::INT.as_raw())) {
            return self.startup.interrupt_again(signal, startup::UNTIL_PREPARED);
        }
        self.drive(Event::StartupInterrupted);
        let job = self.job(None).processes;
        let Some(shell) = &mut self.shell else { return };
        if shell.stray_watch.is_none() {
            shell.stray_watch = Some(ProcessSnapshot::now(shell.pid, &job));
        }
        // A copy of the shell takes an interrupt for its own, goes to the prompt and reads the engine's lines.
        let (copies, programs) = strays::copies_of(shell.pid, job);
        strays::end(&copies);
        // Before its programs: nothing of the files continues when the current one has died.
        self.interrupt_shell();
        for program in &programs {
            tree::signal(program, signal);
        }
        // Between its preparations and its files a shell may forget an interrupt.
        self.startup.interrupt_again(signal, startup::UNTIL_FORGOTTEN);
    }
}
