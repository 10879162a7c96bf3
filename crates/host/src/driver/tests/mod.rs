//! The driver without a shell: samples of every stage and event.

mod product;
mod races;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::event::Unknown;
use super::stage::Restore;
use super::*;

/// The command that has the shell in all samples.
const EXEC: u64 = 7;

/// A moment that all samples share.
fn start() -> Instant {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    *START.get_or_init(Instant::now)
}

fn at(milliseconds: u64) -> Instant {
    start() + Duration::from_millis(milliseconds)
}

fn driver(stage: Stage) -> Driver {
    let traits = Traits { may_run_nothing: true };
    Driver { stage, traits, ending: false, restart: false, repeats: 0 }
}

/// What the driver asks for when this happens.
fn tell(driver: &mut Driver, event: Event, milliseconds: u64) -> Vec<Effect> {
    let mut effects = Effects::new();
    driver.handle(event, at(milliseconds), &mut effects);
    effects.into()
}

fn stopping() -> Stop {
    let mut stop = Stop::new(Why::Cancel, start());
    stop.step(start());
    stop
}

/// The name of a stage; a new one does not compile until it has a name here, and the product test
/// fails until it has a sample.
fn stage_name(stage: &Stage) -> &'static str {
    match stage {
        Stage::Dead => "Dead",
        Stage::Replacing => "Replacing",
        Stage::Starting { .. } => "Starting",
        Stage::Idle => "Idle",
        Stage::Running { .. } => "Running",
        Stage::Asking { .. } => "Asking",
        Stage::Draining { .. } => "Draining",
        Stage::Clearing { .. } => "Clearing",
        Stage::Settling { .. } => "Settling",
    }
}

const STAGES: [&str; 9] =
    ["Dead", "Replacing", "Starting", "Idle", "Running", "Asking", "Draining", "Clearing", "Settling"];

fn stages() -> Vec<(&'static str, Stage)> {
    let deadline = at(5000);
    let scripts = |scripts: &[&str]| Restore::Scripts(scripts.iter().map(|s| (*s).to_owned()).collect());
    let running = |stop: Option<Stop>| Stage::Running {
        exec: EXEC,
        deadline: stop.is_none().then(|| at(1000)),
        prompt_due: stop.is_none().then(|| at(20)),
        stop,
    };
    let asking = |stop| Stage::Asking { exec: EXEC, deadline, exec_deadline: None, stop };
    let settling =
        |purpose, uncovered, stray_check| Stage::Settling { purpose, uncovered, deadline, stray_check };
    let starting = |restore| Stage::Starting {
        startup_files: if restore == Restore::Scripts(VecDeque::new()) {
            StartupFiles::Read
        } else {
            StartupFiles::None
        },
        restore,
        deadline,
        prompt_due: Some(at(300)),
    };
    let interrupted = Stage::Starting {
        restore: scripts(&[""]),
        deadline: at(900),
        prompt_due: None,
        startup_files: StartupFiles::Interrupted,
    };
    vec![
        ("Dead", Stage::Dead),
        ("Replacing", Stage::Replacing),
        ("Starting with start-up files, nothing to restore", starting(scripts(&[]))),
        ("Starting, start-up files interrupted", interrupted),
        ("Starting, a state to compare with", starting(Restore::Compare)),
        ("Starting, a script to read", starting(scripts(&["a=1"]))),
        ("Idle", Stage::Idle),
        ("Running", running(None)),
        ("Running, being stopped", running(Some(stopping()))),
        ("Asking", asking(None)),
        ("Asking, being stopped", asking(Some(stopping()))),
        ("Draining", Stage::Draining { exec: EXEC, status: 130, asked: false, stop: stopping() }),
        (
            "Clearing",
            Stage::Clearing { exec: EXEC, status: 130, asked: false, deadline, stray_check: at(200) },
        ),
        ("Settling after a command", settling(Purpose::AfterCommand, false, None)),
        ("Settling after a stopped command", settling(Purpose::AfterCommand, false, Some(at(200)))),
        ("Settling, uncovered", settling(Purpose::AfterCommand, true, None)),
        ("Settling for the history", settling(Purpose::History, false, None)),
        ("Settling for a baseline", settling(Purpose::Baseline, false, None)),
    ]
}

/// As [`stage_name`], for events.
fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Prompt(_) => "Prompt",
        Event::PromptAtTerminal { .. } => "PromptAtTerminal",
        Event::StateRead(_) => "StateRead",
        Event::StateIsLarge => "StateIsLarge",
        Event::LineFailed => "LineFailed",
        Event::Next(_) => "Next",
        Event::Launched(_) => "Launched",
        Event::LaunchFailed => "LaunchFailed",
        Event::Stop { .. } => "Stop",
        Event::Stragglers { .. } => "Stragglers",
        Event::ShellEnded(_) => "ShellEnded",
        Event::Spawned { .. } => "Spawned",
        Event::SpawnFailed => "SpawnFailed",
        Event::StartupInterrupted => "StartupInterrupted",
        Event::StderrReplaced => "StderrReplaced",
        Event::Restart => "Restart",
        Event::EndSession => "EndSession",
        Event::AllGone => "AllGone",
        Event::Time => "Time",
    }
}

const EVENTS: [&str; 19] = [
    "Prompt",
    "PromptAtTerminal",
    "StateRead",
    "StateIsLarge",
    "LineFailed",
    "Next",
    "Launched",
    "LaunchFailed",
    "Stop",
    "Stragglers",
    "ShellEnded",
    "Spawned",
    "SpawnFailed",
    "StartupInterrupted",
    "StderrReplaced",
    "Restart",
    "EndSession",
    "AllGone",
    "Time",
];

fn prompt(code: i32) -> Prompt {
    Prompt { report: Some(Status { code, noexec: false }), ..Prompt::default() }
}

fn next(exec: u64) -> Next {
    Next { exec, history_first: false }
}

fn launched(by_prompt: bool) -> Event {
    Event::Launched(Launched { by_prompt, timeout: Some(Duration::from_secs(1)) })
}

/// Each event, with the moment at which it happens in milliseconds.
fn events() -> Vec<(&'static str, u64, Event)> {
    let failed = |retried| Prompt { line: OwnLine::Failed { retried }, ..Prompt::default() };
    let noexec = Prompt { report: Some(Status { code: 0, noexec: true }), ..Prompt::default() };
    let scripts = VecDeque::from(["a=1".to_owned()]);
    vec![
        ("Prompt with a status", 10, Event::Prompt(prompt(3))),
        ("Prompt after a plain command", 10, Event::Prompt(Prompt { plain: true, ..prompt(3) })),
        ("Prompt of the user's own", 10, Event::Prompt(Prompt::default())),
        ("Prompt with execution off", 10, Event::Prompt(noexec)),
        ("Prompt, the line could not run", 10, Event::Prompt(failed(false))),
        ("Prompt, the line could not run again", 10, Event::Prompt(failed(true))),
        ("PromptAtTerminal", 10, Event::PromptAtTerminal { status: 3 }),
        ("StateRead: known", 10, Event::StateRead(StateRead::Known)),
        ("StateRead: baseline", 10, Event::StateRead(StateRead::Baseline(scripts))),
        (
            "StateRead: baseline, nothing to restore",
            10,
            Event::StateRead(StateRead::Baseline(VecDeque::new())),
        ),
        ("StateRead: unreadable", 10, Event::StateRead(StateRead::Unreadable)),
        ("StateIsLarge", 10, Event::StateIsLarge),
        ("LineFailed", 10, Event::LineFailed),
        ("Next", 10, Event::Next(next(8))),
        ("Next, history first", 10, Event::Next(Next { history_first: true, ..next(8) })),
        ("Launched, the prompt will tell", 10, launched(true)),
        ("Launched", 10, launched(false)),
        ("LaunchFailed", 10, Event::LaunchFailed),
        ("Stop this command", 10, Event::Stop { exec: EXEC, why: Why::Cancel }),
        ("Stop another command", 10, Event::Stop { exec: EXEC + 1, why: Why::Timeout }),
        ("Stragglers alive", 10, Event::Stragglers { alive: true }),
        ("Stragglers gone", 10, Event::Stragglers { alive: false }),
        ("ShellEnded", 10, Event::ShellEnded(Exit::Code(4))),
        ("Spawned", 10, Event::Spawned(Fresh { restore: false, startup_files: false })),
        ("Spawned, start-up files", 10, Event::Spawned(Fresh { restore: false, startup_files: true })),
        ("Spawned, a state to restore", 10, Event::Spawned(Fresh { restore: true, startup_files: false })),
        ("SpawnFailed", 10, Event::SpawnFailed),
        ("StartupInterrupted", 10, Event::StartupInterrupted),
        ("StderrReplaced", 10, Event::StderrReplaced),
        ("Restart", 10, Event::Restart),
        ("EndSession", 10, Event::EndSession),
        ("AllGone", 10, Event::AllGone),
        ("Time, nothing due", 10, Event::Time),
        ("Time, something due soon", 400, Event::Time),
        ("Time, the command's deadline", 1200, Event::Time),
        ("Time, the line's deadline", 5000, Event::Time),
    ]
}
