//! The time before a shell is ready for its first command. The user's start-up files run then: they
//! may write, take long, hang or end the shell. None of that is part of any command.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use trl_protocol::fault::Fault;

use crate::commands::Requester;
use crate::driver::StartupFailure;
use crate::shell::prompt;

/// As much of what start-up files write is kept: the last of it.
const KEPT: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Startup {
    /// A shell of this session has been ready.
    is_over: bool,
    /// The present shell is ready, or was.
    is_ready: bool,
    /// Of the last shell that read its files.
    output: Vec<u8>,
    /// Start-up files did not let a later shell become ready: from then on they are not read.
    skip_files: bool,
    waiting: Vec<Requester>,
    /// Why the session ends without ever having been ready.
    failure: Option<Fault>,
    /// A signal for the files, and when the shell gets it if it is still at them.
    interrupt: Option<(Signal, Instant)>,
}

/// How long a shell that would die of a signal is given to prepare for it.
pub(crate) const UNTIL_PREPARED: Duration = Duration::from_millis(5);
/// How long a shell that has got a signal is given to leave its files.
pub(crate) const UNTIL_FORGOTTEN: Duration = Duration::from_millis(200);

impl Startup {
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether the present shell has become ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// The shell is ready. Gives those who waited for that.
    pub(crate) fn end(&mut self) -> Vec<Requester> {
        self.is_over = true;
        self.is_ready = true;
        self.interrupt = None;
        std::mem::take(&mut self.waiting)
    }

    /// A new shell reads the files again.
    pub(crate) fn begin_again(&mut self) {
        self.is_ready = false;
        self.interrupt = None;
        self.output.clear();
    }

    /// The session ends. Gives those who waited; whoever asks from now on is refused in the same way.
    pub(crate) fn fail(&mut self, fault: Fault) -> Vec<Requester> {
        self.failure = Some(fault);
        self.end()
    }

    pub(crate) fn failure(&self) -> Option<&Fault> {
        self.failure.as_ref()
    }

    pub(crate) fn interrupt_again(&mut self, signal: Signal, after: Duration) {
        self.interrupt = Some((signal, Instant::now() + after));
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.interrupt.map(|(_, at)| at)
    }

    /// The signal, once it is time to try again.
    pub(crate) fn take_interrupt(&mut self, now: Instant) -> Option<Signal> {
        self.interrupt.take_if(|(_, at)| *at <= now).map(|(signal, _)| signal)
    }

    pub(crate) fn wait(&mut self, who: Requester) {
        self.waiting.push(who);
    }

    pub(crate) fn skip_files(&mut self) {
        self.skip_files = true;
    }

    pub(crate) fn skips_files(&self) -> bool {
        self.skip_files
    }

    /// Keeps what the shell or its start-up files have written to the terminal.
    pub(crate) fn keep(&mut self, bytes: &[u8]) {
        if self.is_ready {
            return;
        }
        self.output.extend_from_slice(bytes);
        let excess = self.output.len().saturating_sub(KEPT);
        self.output.drain(..excess);
    }

    /// Keeps what came on the status channel. Its last line is the user's prompt.
    pub(crate) fn keep_noise(&mut self, noise: &str) {
        let lines = noise.rfind('\n').map_or("", |end| &noise[..=end]);
        self.keep(&crate::shell::text::bytes(lines));
    }

    /// What start-up files have written; None if that is nothing. With line editing or traces switched on, the shell
    /// has also written the engine's first line, which is not theirs.
    pub(crate) fn output(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.output);
        let theirs: String = text.split_inclusive('\n').filter(|line| !line.contains(prompt::MARK)).collect();
        (!theirs.is_empty()).then_some(theirs)
    }
}

/// What a client is told about a shell that did not become ready. `output`: what was written until then.
pub(crate) fn explain(failure: StartupFailure, output: Option<&str>) -> String {
    let what = match failure {
        StartupFailure::Timeout => {
            let most = crate::driver::STARTUP_TIMEOUT.as_secs();
            format!("the shell's start-up files did not finish within {most} s")
        }
        StartupFailure::Ended(exit) => format!("the shell ended while it read its start-up files ({exit})"),
        StartupFailure::Interrupted(Some(exit)) => {
            format!("the shell ended when its start-up files were interrupted ({exit})")
        }
        StartupFailure::Interrupted(None) => {
            "the shell's start-up files did not heed the interrupt".to_owned()
        }
        StartupFailure::StderrReplaced => {
            "the shell's start-up files redirect its stderr (exec 2>…), where it says how commands end"
                .to_owned()
        }
    };
    let last = output.and_then(|output| output.trim_end().lines().next_back()).unwrap_or_default();
    let wrote: String = last.chars().filter(|c| !c.is_control()).take(200).collect();
    let wrote = if wrote.is_empty() { wrote } else { format!(", the last that they wrote is {wrote:?}") };
    let advice = match failure {
        StartupFailure::Timeout
        | StartupFailure::Ended(_)
        | StartupFailure::Interrupted(None)
        | StartupFailure::StderrReplaced => "; repair them, or create the session without rc",
        // Whoever interrupted it is not to blame for the files.
        StartupFailure::Interrupted(Some(_)) => "",
    };
    format!("{what}{wrote}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_for_the_shell_that_reads_its_files_and_for_no_other() {
        let mut startup = Startup::default();
        startup.interrupt_again(Signal::INT, Duration::ZERO);
        let due = startup.next_deadline().unwrap();
        assert_eq!(startup.take_interrupt(due - Duration::from_nanos(1)), None);
        assert_eq!(startup.take_interrupt(due), Some(Signal::INT));
        assert_eq!(startup.take_interrupt(due), None, "once");
        for leave in [Startup::begin_again, |startup: &mut Startup| drop(startup.end())] {
            startup.interrupt_again(Signal::INT, Duration::ZERO);
            leave(&mut startup);
            assert_eq!(startup.next_deadline(), None);
        }
    }

    #[test]
    fn what_start_up_files_write_is_kept_without_the_prompt_and_bounded() {
        let mut startup = Startup::default();
        assert_eq!(startup.output(), None);
        startup.keep(b"welcome\r\n");
        startup.keep_noise("a: not found\nuser@host$ ");
        assert_eq!(startup.output().unwrap(), "welcome\r\na: not found\n");
        startup.keep_noise("$  PS1=$'\\E_trl;ab;$?;\\a'; set +o vi\n");
        startup.keep(b"\x1b_trl;ab;0;\x07\r\n");
        assert_eq!(startup.output().unwrap(), "welcome\r\na: not found\n", "the engine's own lines");
        startup.keep(&vec![b'x'; KEPT]);
        startup.keep(b"end");
        let kept = startup.output().unwrap();
        assert!(kept.len() == KEPT && kept.ends_with("xend"));
        let why = explain(StartupFailure::Timeout, Some("a\nb\x1b\r\n"));
        assert!(why.contains("30 s, the last that they wrote is \"b\"; repair"), "{why}");
        startup.end();
        startup.keep(b"of a command");
        assert_eq!(startup.output().unwrap(), kept);
    }
}
