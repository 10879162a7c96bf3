//! What the driver asks for, carried out.

use trl_protocol::wire::Dialect;

use super::Host;
use super::outcome::End;
use crate::driver::{Attempt, CommandEnd, Effect, Event, Note};
use crate::shell::MemFile;
use crate::strays;

impl Host {
    /// Carries out one effect. What it leads to at once is the next event.
    pub(super) fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::SpawnShell => return Some(self.spawn_shell()),
            Effect::KillForeground => self.kill_foreground(),
            Effect::KillShell => self.kill_shell(),
            Effect::Note(note) => {
                // Busybox that could not be recognised does this after each command.
                self.prompts_on_stdout |=
                    matches!(note, Note::LineEditor) && self.spec.dialect == Dialect::Sh;
                self.state.set_note(note.text());
            }
            Effect::StartupFailed(failure) => self.on_startup_failed(failure),
            Effect::Restore(script) => return self.read_script(&script),
            Effect::Launch { exec } => return Some(self.launch(exec)),
            Effect::AskStatus(attempt) => self.ask_status(attempt),
            Effect::SayNothing => self.say(" \n"),
            Effect::AskState(ask) => return self.ask_state(ask),
            Effect::AskStateAgain { attempt, uncover } => self.ask_state_again(attempt, uncover),
            Effect::ReadState { purpose } => return Some(Event::StateRead(self.read_state(purpose))),
            Effect::Finish { exec, end, why } => {
                let end = match end {
                    CommandEnd::Status(status) => End::Status(status),
                    CommandEnd::Shell(exit) => End::Shell(exit),
                    CommandEnd::Unknown(unknown) => End::Unknown(unknown.text()),
                };
                self.finish(exec, end, why);
            }
            Effect::Requeue { exec } => self.requeue(exec),
            Effect::RecordLater { exec, status } => {
                self.state.set_last_status(status);
                if let Some(exec) = self.commands.get(exec) {
                    self.state.record_later(exec.spec.command.clone());
                }
            }
            Effect::Signal { exec, step, shell } => self.signal_step(exec, step, shell),
            Effect::CheckStragglers { exec } => {
                return Some(Event::Stragglers { alive: self.has_stragglers(exec) });
            }
            Effect::WatchStrays { exec } => self.watch_strays(exec),
            Effect::EndStrays => self.end_strays(),
            Effect::CloseStrayWatch => {
                if let Some(shell) = &mut self.shell
                    && let Some(seen) = shell.stray_watch.take()
                {
                    strays::end(&seen.strays(shell.pid));
                }
            }
            Effect::RefuseRestart => {
                if let Some(requester) = self.subscribers.withdraw_restart() {
                    let busy = self.busy("cancel it with exec.cancel, or wait for its end with exec.wait");
                    self.subscribers.refuse(requester, busy);
                }
            }
            Effect::AnswerRestart => self.answer_restart(),
        }
        None
    }

    /// Says one line to the shell.
    pub(super) fn say(&mut self, line: &str) {
        if let Some(shell) = &mut self.shell {
            // A shell that cannot be written to is about to be reaped.
            shell.control.send(line).ok();
        }
    }

    /// Says a line that may have to be said again; see [`Attempt`].
    pub(super) fn attempt(&mut self, attempt: Attempt, line: &str) {
        match attempt {
            Attempt::First => self.say(line),
            Attempt::Interrupt => {
                self.interrupt_shell();
                self.say(&format!(" \n{line}"));
            }
            Attempt::Again => self.say(&format!(" \n{line}")),
        }
    }

    fn ask_status(&mut self, attempt: Attempt) {
        let Some(shell) = &mut self.shell else { return };
        let Ok(secret) = shell.new_secret() else { return };
        let line = shell.dialect.query_line(&secret);
        self.attempt(attempt, &line);
    }

    /// Has a fresh shell read a script.
    fn read_script(&mut self, script: &str) -> Option<Event> {
        let (Ok(held), Some(shell)) = (MemFile::script(script), &mut self.shell) else {
            return Some(Event::LineFailed);
        };
        let Ok(shown) = self.cage.show_one(&held) else { return Some(Event::LineFailed) };
        let line = shell.dialect.restore_line(shown.path());
        shell.script = Some((held, shown));
        self.say(&line);
        None
    }
}
