//! A background command is ended as one in the shell is: INT, TERM and KILL, with time between, to all that
//! is part of it, and the outcome comes when that is gone.

use std::path::PathBuf;

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, Session, Shell, daemon, in_each_shell, process};

/// Ways to run a program such that another process waits for it.
const FORMS: &[&str] = &[
    "PROGRAM",
    "PROGRAM; echo after",
    "PROGRAM | cat",
    "(PROGRAM; echo after)",
    "PROGRAM & wait",
    "bash -c 'PROGRAM; echo after'",
    "f() { PROGRAM; }; f; echo after",
];

/// A program that takes its time to clean up after a signal and ignores those before it.
fn cleaner(daemon: &Daemon, signal: &str) -> String {
    let ignore = if signal == "TERM" { "$SIG{INT} = 'IGNORE';" } else { "" };
    let text = format!(
        "{ignore} $SIG{{{signal}}} = sub {{ select undef, undef, undef, .05; rename 'pid', 'cleaned'; exit 5 }};\n{UP}"
    );
    write(daemon, "cleaner.pl", &text)
}

fn stubborn(daemon: &Daemon) -> String {
    write(daemon, "stubborn.pl", &format!("$SIG{{INT}} = $SIG{{TERM}} = 'IGNORE';\n{UP}"))
}

/// Writes its pid into a file, and says so.
const UP: &str = "open F, '>', 'pid'; print F $$; close F; $| = 1; print \"up\\n\"; sleep 1 while 1;\n";

fn write(daemon: &Daemon, name: &str, text: &str) -> String {
    let path = daemon.work().join(name);
    assert!(std::fs::write(&path, text).is_ok(), "{name} is written");
    format!("perl {}", path.display())
}

/// Starts it, ends it when its program is up, and returns how it ended with the program's pid.
#[track_caller]
fn cancelled(session: &mut Session, command: &str) -> (Value, i32) {
    let exec_id = session.start(json!({"command": command, "timeout_s": 0}));
    // A pipe may hold what a program says; its file tells, too.
    let pid = session.dir.join("pid");
    trl_testkit::wait_until("the program is up", trl_testkit::GUARD, || read(&pid).is_some());
    let program = read(&pid).unwrap_or_default();
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
    let ended = session.connection.ok(m::ExecWait::NAME, json!({"exec_id": exec_id}));
    assert_eq!(ended["cancelled"], true, "{command}: {ended}");
    assert!(!process::alive(program), "{command}: the outcome came first: {ended}");
    (ended, program)
}

fn read(file: &PathBuf) -> Option<i32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn programs_have_time_to_clean_up(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for signal in ["TERM", "INT"] {
        let program = cleaner(&daemon, signal);
        for form in FORMS {
            let command = form.replace("PROGRAM", &program);
            let (ended, _) = cancelled(&mut session, &command);
            let cleaned = session.dir.join("cleaned");
            assert!(process::exists(&cleaned), "{signal}: {command}: {ended}");
            std::fs::remove_file(cleaned).unwrap_or_default();
        }
    }
    session.survives();
}

fn what_ignores_every_signal_is_killed_and_told_so(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let program = stubborn(&daemon);
    for form in FORMS {
        let command = form.replace("PROGRAM", &program);
        let (ended, _) = cancelled(&mut session, &command);
        std::fs::remove_file(session.dir.join("pid")).unwrap_or_default();
        assert!(ended["duration_ms"].as_u64() >= Some(1000), "{command}: {ended}");
        // In the others another process of the command obeyed.
        if ["PROGRAM", "PROGRAM; echo after", "f() { PROGRAM; }; f; echo after"].contains(form) {
            let told = (&ended["exit_code"], &ended["signal"]);
            assert_eq!(told, (&json!(137), &json!("SIGKILL")), "{command}: {ended}");
        }
    }
    session.survives();
}

fn a_deadline_gives_the_same_time(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let command = format!("{}; echo after", cleaner(&daemon, "TERM"));
    let ran = session.run_with(json!({"command": command, "background": true, "timeout_s": 5}));
    assert!(ran.timed_out && ran.stdout == "up\n", "{ran:?}");
    assert!(process::exists(session.dir.join("cleaned")), "{ran:?}");
}

/// What it has left to itself before it is stopped is not part of it.
fn what_it_has_left_goes_on(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let left = session.dir.join("left");
    let command = format!("(sleep 1000 & echo $! >left); {}; echo after", stubborn(&daemon));
    cancelled(&mut session, &command);
    let left = read(&left).unwrap_or_default();
    assert!(process::alive(left), "{left}");
    session.destroy();
    assert!(!process::alive(left));
}

/// The shell of the command obeys at once, its program not at all.
fn a_named_signal_reaches_what_a_stop_has_left(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let text = format!(
        "$SIG{{INT}} = $SIG{{TERM}} = 'IGNORE'; $SIG{{USR1}} = sub {{ rename 'pid', 'heard'; exit 5 }};\n{UP}"
    );
    let program = write(&daemon, "listener.pl", &text);
    let exec_id = session.start(json!({"command": format!("{program} & wait"), "timeout_s": 0}));
    let pid = session.dir.join("pid");
    trl_testkit::wait_until("the program is up", trl_testkit::GUARD, || read(&pid).is_some());
    let shell_pid = session.exec_info(&exec_id)["pid"].as_i64().unwrap_or_default() as i32;
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
    trl_testkit::wait_until("its shell is gone", trl_testkit::GUARD, || !process::alive(shell_pid));
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id, "signal": "USR1"}));
    let ended = session.connection.ok(m::ExecWait::NAME, json!({"exec_id": exec_id}));
    assert!(process::exists(session.dir.join("heard")), "{ended}");
}

in_each_shell!(
    a_named_signal_reaches_what_a_stop_has_left,
    programs_have_time_to_clean_up,
    what_ignores_every_signal_is_killed_and_told_so,
    a_deadline_gives_the_same_time,
    what_it_has_left_goes_on,
);
