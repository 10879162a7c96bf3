//! Start-up files: what they write, how long they take, and how they fail.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::fs;
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::{Daemon, GUARD, Session, Shell, daemon, wait_until};

const WITH_FILES: [(Shell, &str); 2] = [(Shell::Bash, ".bashrc"), (Shell::Zsh, ".zshrc")];

/// A session whose start-up files wait until the test lets them go on.
fn held(daemon: &Daemon, shell: Shell, file: &str, tty: bool) -> (Session, std::path::PathBuf) {
    let gate = daemon.user_home().join(format!("gate-{}-{tty}", shell.name()));
    let text = format!(
        "echo begun; echo problem >&2; while ! test -e {0}; do sleep .02; done; echo late; kept=yes\n",
        gate.display()
    );
    fs::write(daemon.user_home().join(file), text).unwrap();
    (daemon.session_with(shell, json!({"rc": true, "tty": tty})), gate)
}

fn await_state(session: &mut Session, state: &str) {
    wait_until("the state is reached", GUARD, || session.info()["state"] == state);
}

#[test]
fn a_session_is_being_created_until_its_start_up_files_are_over() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        for tty in [false, true] {
            let (mut session, gate) = held(&daemon, shell, file, tty);
            assert_eq!(session.created["state"], "creating");
            assert_eq!(session.info()["state"], "creating");
            // A command waits; it has not started, whatever its own deadline is.
            let params = session.params(json!({"command": "echo $kept", "timeout_s": 1}));
            let request = session.connection.begin(m::ExecStream::NAME, params);
            let queued = session.connection.event(request);
            assert_eq!(queued.name, "queued", "{queued:?}");
            let exec = json!({"exec_id": queued.data["exec_id"]});
            let mut other = daemon.connect();
            assert_eq!(other.ok(m::ExecInfo::NAME, exec)["state"], "queued");
            let busy = other.fails(m::ExecRun::NAME, session.params(json!({"command": ":"})), "SESSION_BUSY");
            assert!(busy.contains("start-up files"), "{busy}");
            fs::write(&gate, "").unwrap();
            let answer = session.connection.finish(request);
            assert_eq!(answer.events[0].name, "started", "{answer:?}");
            assert_eq!(String::from_utf8_lossy(&answer.output("stdout")).trim_end(), "yes");
            let info = session.info();
            let written = info["startup_output"].as_str().unwrap().replace("\r\n", "\n");
            for line in ["begun\n", "problem\n", "late\n"] {
                assert!(written.contains(line), "{written:?}");
            }
            assert_eq!(info["state"], "idle");
            session.destroy();
        }
    }
}

#[test]
fn cancelling_what_waits_for_start_up_files_interrupts_them() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        fs::write(daemon.user_home().join(file), "echo begun; sleep 1000\n").unwrap();
        let mut session = daemon.session_with(shell, json!({"rc": true}));
        let params = session.params(json!({"command": "echo never"}));
        let request = session.connection.begin(m::ExecRun::NAME, params);
        let mut other = daemon.connect();
        let listed = || json!({"session_id": session.id});
        wait_until("the command is queued", GUARD, || {
            !other.ok(m::ExecList::NAME, listed())["execs"].as_array().unwrap().is_empty()
        });
        other.ok(m::ExecCancel::NAME, listed());
        let cancelled = session.connection.finish(request);
        assert_eq!((&cancelled.data()["cancelled"], &cancelled.data()["stdout"]), (&json!(true), &json!("")));
        await_state(&mut session, "idle");
        session.run("echo free").exits(0).prints("free\n", "");
        session.destroy();
    }
}

#[test]
fn start_up_files_that_end_the_shell_are_a_truthful_error() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        fs::write(daemon.user_home().join(file), "echo goodbye; exit 3\n").unwrap();
        let mut connection = daemon.connect();
        let refused = connection.call(m::SessionCreate::NAME, json!({"shell": shell.name(), "rc": true}));
        let fault = refused.unwrap_err();
        let message = fault["message"].as_str().unwrap();
        assert_eq!(fault["code"], "SESSION_TERMINATED", "{fault}");
        assert!(
            message.contains("start-up files (exit status 3),") && message.contains("without rc"),
            "{message}"
        );
        assert!(message.contains("the last that they wrote is \"goodbye\""), "{message}");
        assert_eq!(connection.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    }
}

/// What is written just before the first prompt is never part of the first command.
#[test]
fn the_first_command_on_a_terminal_has_only_its_own_output() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        fs::write(daemon.user_home().join(file), "echo noise1; echo noise2; /bin/echo noise3\n").unwrap();
        for _ in 0..8 {
            let mut session = daemon.session_with(shell, json!({"rc": true, "tty": true}));
            let ran = session.run("echo own");
            assert_eq!(ran.stdout, "own\r\n", "{ran:?}");
            let written = session.info()["startup_output"].clone();
            assert_eq!(written.as_str().unwrap().matches("noise").count(), 3, "{written}");
            session.destroy();
        }
    }
}
