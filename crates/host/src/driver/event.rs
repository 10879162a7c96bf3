//! What happens to the shell, and what the driver wants done about it.

use std::collections::VecDeque;
use std::time::Duration;

use super::stop::{Step, Why};

/// One thing that happened. The event loop observes it; the driver decides what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The shell has finished its line and asks for the next.
    Prompt(Prompt),
    /// The shell prompts on its terminal: the user has switched the line editor on, and the shell
    /// no longer reads the control channel.
    PromptAtTerminal { status: i32 },
    /// The answer to [`Effect::ReadState`].
    StateRead(StateRead),
    /// The shell that was asked for its state is large, so printing takes longer.
    StateIsLarge,
    /// The line that an effect asked for could not be made. The shell is still at its prompt.
    LineFailed,
    /// This command is next in the queue.
    Next(Next),
    /// The answer to [`Effect::Launch`].
    Launched(Launched),
    /// The answer to [`Effect::Launch`]: the command did not start and was refused.
    LaunchFailed,
    /// Somebody cancelled this command, or its deadline passed.
    Stop { exec: u64, why: Why },
    /// The answer to [`Effect::CheckStragglers`].
    Stragglers { alive: bool },
    /// The shell's process has ended.
    ShellEnded(Exit),
    /// The answer to [`Effect::SpawnShell`].
    Spawned(Fresh),
    /// The answer to [`Effect::SpawnShell`]: no process could be started.
    SpawnFailed,
    /// The shell was interrupted, so that it leaves the user's start-up files.
    StartupInterrupted,
    /// The user's start-up files have given the shell another stderr: its prompts cannot be heard.
    StderrReplaced,
    /// Somebody asks for a new shell.
    Restart,
    /// The session is being ended; no new command or shell is started from here on.
    EndSession,
    /// Every process of an ending session is gone.
    AllGone,
    /// Time has passed; something may be due.
    Time,
}

/// What the shell said when it came back. Outside of commands only the fact that it came back counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) line: OwnLine,
    /// None if the prompt is the user's own and tells nothing.
    pub(crate) report: Option<Status>,
    /// The command cannot have changed the shell's state.
    pub(crate) plain: bool,
}

/// Whether the engine's own line around the user's text could run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OwnLine {
    #[default]
    Ran,
    /// It could not, so nothing of the user's text ran. `retried`: a second shell had the same problem.
    Failed { retried: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) code: i32,
    /// `set -n`: the shell reads lines and runs none of them.
    pub(crate) noexec: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StateRead {
    /// The state was read, or the last known one stays valid.
    Known,
    /// The state of a fresh shell was read. These scripts bring it to the last known state.
    Baseline(VecDeque<String>),
    /// What the shell printed is not a state.
    Unreadable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) exec: u64,
    /// The command may look at the history, which lacks commands that ran before it.
    pub(crate) history_first: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Launched {
    /// The shell's prompt will tell that it is back.
    pub(crate) by_prompt: bool,
    /// How long the command may run from now on.
    pub(crate) timeout: Option<Duration>,
}

/// A shell that was just spawned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fresh {
    /// There is a state to restore.
    pub(crate) restore: bool,
    /// It reads the user's start-up files first.
    pub(crate) startup_files: bool,
}

/// Why a shell did not come through its start-up files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartupFailure {
    /// They took longer than they may.
    Timeout,
    /// They ended the shell.
    Ended(Exit),
    /// They were interrupted, and the shell did not survive that (so it ended) or did not leave them.
    Interrupted(Option<Exit>),
    /// They have replaced the shell's stderr.
    StderrReplaced,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Code(i32),
    Signal(i32),
    Unknown,
}

impl Exit {
    /// From the number that `wait` tells.
    pub(crate) fn from_wait_status(status: i32) -> Exit {
        match (libc::WIFEXITED(status), libc::WIFSIGNALED(status)) {
            (true, _) => Exit::Code(libc::WEXITSTATUS(status)),
            (false, true) => Exit::Signal(libc::WTERMSIG(status)),
            (false, false) => Exit::Unknown,
        }
    }
}

/// One thing to be done. Effects are carried out in the order in which they were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Start a new shell process; answered with `Spawned` or `SpawnFailed`.
    SpawnShell,
    /// Kill what the shell runs in the foreground.
    KillForeground,
    /// Kill the shell's process and let go of it.
    KillShell,
    /// Remember this for the next result.
    Note(Note),
    /// The shell is gone before it was ready.
    StartupFailed(StartupFailure),
    /// Have a fresh shell read this script.
    Restore(String),
    /// Start the command; answered with `Launched` or `LaunchFailed`.
    Launch { exec: u64 },
    /// Ask for the status of the command.
    AskStatus(Attempt),
    /// Have the shell read an empty line, which consumes an interrupt that is still pending.
    SayNothing,
    /// Have the shell put back what held for one command and print its state.
    AskState(AskState),
    /// The same question once more. `uncover`: functions of the user's are in the way.
    AskStateAgain { attempt: Attempt, uncover: bool },
    /// Read what the shell has printed; answered with `StateRead`.
    ReadState { purpose: Purpose },
    /// The command is over.
    Finish { exec: u64, end: CommandEnd, why: Option<Why> },
    /// The command has not run; it is to be the next one again.
    Requeue { exec: u64 },
    /// The command left the state alone; the history gets it later.
    RecordLater { exec: u64, status: i32 },
    /// Signal what runs of the command. `shell`: the shell itself is to be interrupted, too.
    Signal { exec: u64, step: Step, shell: bool },
    /// See which processes of the stopped command are alive; answered with `Stragglers`.
    CheckStragglers { exec: u64 },
    /// Processes of the stopped command may still appear below the shell.
    WatchStrays { exec: u64 },
    /// The shell is silent: it waits for a process that belonged to the stopped command.
    EndStrays,
    /// As `EndStrays`; and no more will come.
    CloseStrayWatch,
    /// Answer the last who asked for a new shell: not while a command runs.
    RefuseRestart,
    /// Answer all who asked for a new shell.
    AnswerRestart,
}

/// How a line is said to a shell that may be reading lines without running them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Just the line.
    First,
    /// The shell reads now, so an interrupt comes before the line; an empty line consumes it.
    Interrupt,
    /// An empty line first, in case that the interrupt is consumed only now.
    Again,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskState {
    /// The command whose temporary directory and variables are put back.
    pub(crate) exec: Option<u64>,
    pub(crate) purpose: Purpose,
    /// `$?` that the shell is to have afterwards; None if it stays what it is.
    pub(crate) status: Option<i32>,
    /// The user's own prompt was saved and is put back.
    pub(crate) prompt_back: bool,
}

/// Why the shell prints its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A command may have changed it.
    AfterCommand,
    /// Nothing has changed; the history gets what it lacks.
    History,
    /// The state of a fresh shell is compared with the last known one.
    Baseline,
}

/// How a command in the shell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandEnd {
    Status(i32),
    /// The shell itself ended.
    Shell(Exit),
    /// The status is unknown; this is why.
    Unknown(Unknown),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The shell did not report a status.
    NoStatus,
    /// Neither this shell nor a new one could run the command.
    CouldNotRun,
    /// The command was stopped while the shell failed to start it.
    NeverRan,
}

impl Unknown {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Unknown::NoStatus => "the shell would not tell the status of this command",
            Unknown::CouldNotRun => "the shell could not run this command, nor could a new one",
            Unknown::NeverRan => "it was stopped before the shell could run it",
        }
    }
}

/// What became of the shell; part of the next result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    EndedWithCommand,
    EndedBetween(Exit),
    Replaced,
    CouldNotRun,
    NoAnswer,
    NoExec,
    LineEditor,
    Unusable,
    Restarted,
}

impl Note {
    pub(crate) fn text(self) -> String {
        match self {
            Note::EndedWithCommand => "the shell had ended with the command before".to_owned(),
            Note::EndedBetween(exit) => format!("the shell had ended between commands ({exit})"),
            Note::Replaced => "the shell was replaced after the command before".to_owned(),
            Note::CouldNotRun => "the shell could not run commands any more".to_owned(),
            Note::NoAnswer => "the shell did not answer after the command before".to_owned(),
            Note::NoExec => "the command before had switched the shell's execution off (set -n)".to_owned(),
            Note::LineEditor => "the command before had switched the line editor on".to_owned(),
            Note::Unusable => "the command before had left the shell unusable".to_owned(),
            Note::Restarted => "the shell was restarted on request".to_owned(),
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit status {code}"),
            Exit::Signal(signal) => write!(f, "killed by {}", crate::tree::signal_name(*signal)),
            Exit::Unknown => f.write_str("in an unknown way"),
        }
    }
}
