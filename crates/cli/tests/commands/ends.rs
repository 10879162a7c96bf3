//! How commands end, told apart: the steps of a stop, a status of the command's own, when it was over.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Shell, daemon, in_each_shell};

/// A program that ignores INT hears TERM before it would be killed.
fn a_program_is_asked_to_terminate_before_it_is_killed(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let polite =
        "sh -c 'trap \"\" INT; trap \"echo asked; exit 5\" TERM; echo up; while :; do sleep .05; done'";
    for background in [false, true] {
        // A background command is the process that its shell has become.
        let command = if background { format!("exec {polite}") } else { polite.to_owned() };
        let params = json!({"command": command, "timeout_s": 0.5, "background": background});
        let ran = session.run_with(params);
        assert_eq!((ran.stdout.as_str(), ran.timed_out), ("up\nasked\n", true), "{ran:?}");
    }
    session.survives();
}

/// 137 is what a shell makes of SIGKILL, but also a number that anyone may choose.
fn a_status_of_the_commands_own_is_no_signal(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for (command, background) in [("(exit 137)", false), ("sh -c 'exit 137'", false), ("exit 137", true)] {
        let ran = session.run_with(json!({"command": command, "background": background})).exits(137);
        assert_eq!((ran.signal.as_deref(), ran.cancelled), (None, false), "{ran:?}");
    }
    let ran = session.run_with(json!({"command": "kill -9 $$", "background": true})).exits(137);
    assert_eq!(ran.signal.as_deref(), Some("SIGKILL"), "{ran:?}");
}

/// Idle time counts from here: a session is not idle while a long command runs.
fn a_session_was_last_active_when_its_command_ended(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for background in [false, true] {
        let ran = session.run_with(json!({"command": "sleep .2", "background": background})).exits(0);
        let exec = session.exec_info(&ran.exec_id);
        let at = |name: &str| exec[name].as_str().unwrap().to_owned();
        assert!(at("finished_at") > at("started_at"), "{exec}");
        assert_eq!(session.info()["last_activity"], exec["finished_at"], "{exec}");
    }
}

/// Also after its host was killed and a new one has taken over what is on disk.
fn a_repetition_is_known_after_the_session_was_restarted(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let params = json!({"command": "echo ran >> log; echo out; (exit 3)", "run_id": "once"});
    let first = session.run_with(params.clone()).exits(3);
    session.ok(":");
    session.kill_host();
    trl_testkit::wait_until("it is lost", trl_testkit::GUARD, || session.info()["state"] == "lost");
    let restart = session.params(json!({}));
    session.connection.ok(m::SessionRestart::NAME, restart);
    let again = session.run_with(params).exits(3).prints("out\n", "");
    assert_eq!(again.exec_id, first.exec_id);
    assert_eq!(session.ok("cat log"), "ran\n");
}

in_each_shell!(
    a_program_is_asked_to_terminate_before_it_is_killed,
    a_status_of_the_commands_own_is_no_signal,
    a_session_was_last_active_when_its_command_ended,
    a_repetition_is_known_after_the_session_was_restarted,
);
