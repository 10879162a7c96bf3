//! The shell comes back: what it says then, as an event for the driver.

use trl_protocol::exec::Stream;
use trl_protocol::wire::Dialect;

use super::Host;
use crate::driver::{Event, Exit, OwnLine, Prompt, Status};
use crate::shell::prompt::{self, Heard, Report};
use crate::shell::{cwd_of, reach};

/// What bash reports for a text that cannot be parsed, and zsh for some errors of its own.
const SYNTAX_ERROR: i32 = 2;
/// What a shell reports after an interrupt, whatever its program died of.
pub(super) const INTERRUPTED: i32 = 128 + libc::SIGINT;

impl Host {
    /// The shell has written to its status channel. A prompt after a command is the end of it.
    pub(super) fn on_status(&mut self) {
        let Some(shell) = &mut self.shell else { return };
        shell.hear();
        let listens = self.driver.listens_for_prompt() && !shell.control.has_more();
        if listens && let Some(heard) = shell.come_back() {
            shell.control.free();
            self.on_prompt(&heard);
        }
    }

    /// The shell has read from its input: if that is empty now, it asks for its next line.
    pub(super) fn on_control(&mut self) {
        let Some(shell) = &mut self.shell else { return };
        match shell.control.on_read() {
            Ok(true) => {
                shell.hear();
                let heard = shell.at_prompt();
                self.on_prompt(&heard);
            }
            Ok(false) => {}
            Err(_) => shell.control.give_up(),
        }
    }

    fn on_prompt(&mut self, heard: &Heard) {
        let Some(shell) = &mut self.shell else { return };
        shell.script = None;
        self.startup.keep_noise(&heard.noise);
        if self.driver.reads_startup_files() && !shell.is_at_top() {
            return self.drive(Event::StderrReplaced);
        }
        let prompt = match self.driver.foreground() {
            Some(number) => self.observe_command(number, heard.report.as_ref(), &heard.noise),
            None => Prompt::default(),
        };
        self.drive(Event::Prompt(prompt));
    }

    /// The shell is back from a command: everything that the driver needs to know about it.
    fn observe_command(&mut self, number: u64, report: Option<&Report>, noise: &str) -> Prompt {
        if !noise.is_empty() && self.is_engine_failure(noise) {
            let retried = self.commands.get(number).is_some_and(|exec| exec.retried);
            return Prompt { line: OwnLine::Failed { retried }, ..Prompt::default() };
        }
        self.drain_outputs(number);
        let is_asked = self.driver.has_asked();
        // What the prompt says is not believed if the text could have written one: the shell is asked
        // under a secret that the text cannot know.
        let may_lie = !is_asked && self.may_be_lied_to(number);
        let report = report.filter(|_| !may_lie);
        let Some(report) = report else { return Prompt::default() };
        self.note_cwd(number, &report.cwd);
        let status =
            Status { code: self.true_status(number, report.status), noexec: report.flags.contains('n') };
        let plain = self.commands.get(number).is_some_and(|exec| self.state.is_left_alone_by(&exec.spec));
        Prompt { line: OwnLine::Ran, report: Some(status), plain }
    }

    /// Whether this command, or what an earlier one has left running, could have written a prompt of its own.
    fn may_be_lied_to(&mut self, number: u64) -> bool {
        let (Some(exec), Some(shell)) = (self.commands.get(number), &mut self.shell) else { return false };
        let (text, state) = (&exec.spec.command, self.state.snapshot());
        shell.may_be_lied_to |= reach::may_leave_writer(text, state);
        shell.may_be_lied_to || reach::may_reach_descriptors(text, state)
    }

    /// If the shell prompts on its terminal, the user has switched the line editor on, and the shell
    /// no longer hears the host. The command is over all the same.
    pub(super) fn look_for_prompt_at_terminal(&mut self) {
        let Some(shell) = &self.shell else { return };
        let Some(number) = self.driver.foreground() else { return };
        let Some(exec) = self.commands.get(number) else { return };
        if let Some(report) = prompt::listen(&exec.terminal, shell.secret()).report
            && shell.is_at_top()
        {
            self.note_cwd(number, &report.cwd);
            self.drive(Event::PromptAtTerminal { status: report.status });
        }
    }

    /// Whether the engine's own line could not run; then nothing of the user's text has.
    fn is_engine_failure(&self, noise: &str) -> bool {
        let Some(shell) = &self.shell else { return false };
        let own = self.cage.shown_below();
        let name = format!("{}: ", self.spec.shell.rsplit('/').next().unwrap_or_default());
        let mut complaints = noise.lines().filter(|line| line.starts_with(&name));
        complaints.any(|line| complains_of(line, &own) || shell.dialect.is_own_failure(line))
    }

    /// Notes the session's directory. One that held for one command only is not the session's.
    fn note_cwd(&mut self, number: u64, reported: &str) {
        if self.commands.get(number).is_some_and(|exec| exec.spec.working_dir.is_some()) {
            return;
        }
        // With prompt expansion switched off the shell reports the variable's name instead of the
        // directory, and zsh escapes what it cannot print.
        if reported.starts_with('/') && !reported.contains('\\') {
            if reported != self.state.cwd() {
                self.state.set_cwd(reported.to_owned());
            }
        } else if let Some(cwd) = self.shell.as_ref().and_then(|shell| cwd_of(shell.pid)) {
            self.state.set_cwd(cwd);
        }
    }

    /// bash's `eval` leaves `$?` untouched when the text ends inside a quote. If the status is the
    /// old one and the shell complained, bash itself is asked whether the text can be parsed at all.
    fn true_status(&self, number: u64, status: i32) -> i32 {
        let caught = self.caught_exit(number);
        // Of a pipeline that was interrupted and whose last program exits with 0, zsh says this.
        let is_pipeline = self.spec.dialect == Dialect::Zsh
            && status == SYNTAX_ERROR
            && matches!(caught, Some(Exit::Code(0)));
        if status == INTERRUPTED || is_pipeline {
            match (caught, self.fatal_signal(number)) {
                (Some(Exit::Code(code)), _) => return code,
                (Some(Exit::Signal(signal)), _) => return 128 + signal,
                (_, Some(signal)) => return 128 + signal.as_raw(),
                _ => {}
            }
        }
        // Of a loop of its own that was interrupted zsh says sometimes 130 and sometimes this.
        if self.spec.dialect == Dialect::Zsh && status == SYNTAX_ERROR && self.was_interrupted_alone(number) {
            return INTERRUPTED;
        }
        let Some(shell) = &self.shell else { return status };
        let is_old = status == self.state.last_status() && status != SYNTAX_ERROR;
        if !shell.dialect.may_hide_syntax_error() || !is_old {
            return status;
        }
        let Some(exec) = self.commands.get(number) else { return status };
        if exec.journal.total(Stream::Stderr) == 0 {
            return status;
        }
        let mut tail = [0; 512];
        let read = self.commands.tail(exec, Stream::Stderr, &mut tail);
        let tail = String::from_utf8_lossy(&tail[..read]);
        let last = tail.trim_end().rsplit('\n').next().unwrap_or_default();
        let name = self.spec.shell.rsplit('/').next().unwrap_or_default();
        if !last.starts_with(&format!("{name}: ")) {
            return status;
        }
        if self.is_unparsable(&exec.spec.command) { SYNTAX_ERROR } else { status }
    }
}

/// Whether a shell says here that it could not open a file below `dir`: `FILE: problem` or `problem: FILE`. A hook of
/// the user's may write the engine's line, which has the files as arguments.
fn complains_of(line: &str, dir: &str) -> bool {
    line.match_indices(dir).any(|(at, _)| {
        let rest = line[at + dir.len()..].trim_start_matches(|c: char| c.is_ascii_digit());
        rest.starts_with(':') || (rest.is_empty() && line[..at].ends_with(": "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complaints_are_taken_for_complaints() {
        let dir = "/proc/12/fd/";
        for line in [
            "bash: /proc/12/fd/20: No such file or directory",
            "zsh: no such file or directory: /proc/12/fd/9",
            "sh: 1: cannot create /proc/12/fd/20: Too many open files",
        ] {
            assert!(complains_of(line, dir), "{line}");
        }
        for line in [
            "bash: \\. /proc/12/fd/13 < /dev/null >| /proc/12/fd/20 2>| /proc/12/fd/22",
            "zsh: eval \"$(</proc/12/fd/13)\" </dev/null >|/proc/12/fd/20",
            "bash: x: command not found",
        ] {
            assert!(!complains_of(line, dir), "{line}");
        }
    }
}
