//! What a result says about the shell: a text that is none, a shell that ended or was replaced.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Ran, Shell, daemon, in_each_shell};

/// `syntax_error`, `shell_ended`, `shell_replaced`; false where they are left out.
fn fields(raw: &Value) -> [bool; 3] {
    ["syntax_error", "shell_ended", "shell_replaced"].map(|name| raw[name].as_bool().unwrap_or(false))
}

fn told(ran: &Ran) -> [bool; 3] {
    fields(&ran.raw)
}

fn a_text_that_cannot_be_parsed_is_told(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for text in ["if true; )", "echo \"open", "echo a\nfor x in; do", "case x in"] {
        for more in [
            json!({}),
            json!({"background": true}),
            json!({"merge_stderr": true}),
            json!({"tty": true, "merge_stderr": true}),
        ] {
            let mut params = more.clone();
            params["command"] = json!(text);
            let ran = session.run_with(params);
            assert_eq!(
                (told(&ran), ran.exit_code),
                ([true, false, false], Some(shell.syntax_error())),
                "{more} {ran:?}"
            );
            assert_eq!(fields(&session.exec_info(&ran.exec_id)), [true, false, false]);
        }
    }
    // A bad condition is a syntax error where the shell has conditions; bash says 0 of it when asked to parse only.
    if shell == Shell::Bash {
        for text in ["echo before; [[ a b c ]]", "[[ -f ]]", "f() { [[ a b c ]]; }"] {
            let ran = session.run(text);
            assert_eq!((told(&ran), ran.exit_code), ([true, false, false], Some(2)), "{ran:?}");
        }
        let open_ended = session.run("cat <<END; cd /nonexistent/x\nx\n");
        assert_eq!(told(&open_ended), [false; 3], "bash only warns: {open_ended:?}");
    }
    // A text is not to blame for what it runs.
    for text in [
        "sh -c 'if true; )'; (exit 2)",
        "ls /nonexistent/x",
        "false",
        "eval 'if' 2>/dev/null; true",
        "cd /nonexistent/x",
    ] {
        assert_eq!(told(&session.run(text)), [false; 3], "{text}");
    }
}

fn a_shell_that_ended_or_was_replaced_is_told(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for text in ["exit 3", "exec sh -c 'exit 3'", "kill -9 $$"] {
        let ended = session.run(text);
        assert_eq!(told(&ended), [false, true, false], "{ended:?}");
        assert_eq!(told(&session.run("echo again")), [false, false, true], "{text}");
        assert_eq!(told(&session.run("echo again")), [false; 3], "{text}");
    }
    let params = session.params(json!({}));
    session.connection.ok(m::SessionRestart::NAME, params);
    assert_eq!(told(&session.run(":")), [false, false, true]);
}

fn a_stop_that_costs_the_shell_is_told(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("kept=yes").exits(0);
    let ran =
        session.run_with(json!({"command": "trap : INT; while :; do sleep 60; done", "timeout_s": 0.2}));
    assert_eq!((told(&ran), ran.timed_out), ([false, true, true], true), "{ran:?}");
    // The shell tells of each program that dies; one was enough.
    assert!(ran.stderr.matches("Killed").count() <= 1, "{ran:?}");
    session.run("echo $kept").exits(0).prints("yes\n", "");
}

/// INT and TERM pass it by: what ended it is KILL, whatever else the shell was told.
fn a_program_that_had_to_be_killed_was_killed(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let stubborn = "sh -c 'trap \"\" INT TERM; echo up; while :; do sleep 1; done'";
    let ran = session.run_with(json!({"command": stubborn, "timeout_s": 0.5}));
    assert_eq!((ran.exit_code, ran.signal.as_deref()), (Some(137), Some("SIGKILL")), "{ran:?}");
    assert_eq!(told(&ran), [false; 3]);
    assert_eq!(session.ok("echo $?"), "137\n");
    let ran = session.run_with(json!({"command": "sleep 60", "timeout_s": 0.2}));
    assert_eq!(ran.exit_code, Some(130), "{ran:?}");
}

in_each_shell!(
    a_text_that_cannot_be_parsed_is_told,
    a_shell_that_ended_or_was_replaced_is_told,
    a_stop_that_costs_the_shell_is_told,
    a_program_that_had_to_be_killed_was_killed,
);
