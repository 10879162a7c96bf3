//! `session.fork`: another session with the settings of one and the state of its shell.

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, GUARD, Session, Shell, daemon, trl, wait_until};

/// A new session made from this one.
fn fork(daemon: &Daemon, session: &mut Session, params: Value) -> Session {
    let params = session.params(params);
    let created = session.connection.ok(m::SessionFork::NAME, params);
    let id = created["session_id"].as_str().unwrap_or_default().to_owned();
    Session { shell: session.shell, id, dir: session.dir.clone(), connection: daemon.connect(), created }
}

#[test]
fn a_fork_begins_with_the_state_and_goes_its_own_way() {
    for shell in Shell::installed() {
        let daemon = daemon!();
        let mut first =
            daemon.session_with(shell, json!({"name": "first", "env": {"GIVEN": "1", "GONE": "1"}}));
        first.put_state();
        first.ok("unset GONE; GIVEN=2; set -o noclobber; alias hi='echo aliased'");
        let mut second = fork(&daemon, &mut first, json!({"name": "second"}));
        let told = (&second.created["name"], &second.created["shell"], &second.created["state"]);
        assert_eq!(told, (&json!("second"), &json!(shell.name()), &json!("idle")), "{shell:?}");
        assert_ne!(second.pid(), first.pid());
        let probe =
            "echo \"$GIVEN ${GONE-unset} $TRL_SESSION_NAME $TRL_SESSION_ID $-\" | sed 's/ [^ ]*C[^ ]*$/ C/'";
        let ran = second.run(probe).exits(0).quietly();
        assert_eq!(ran.stdout, format!("2 unset second {} C\n", second.id), "{shell:?}");
        assert_eq!(ran.raw.get("shell_replaced"), None, "{shell:?}");
        second.run("alias hi").exits(0);
        second.has_state_back();
        // Neither hears of what the other does from now on.
        second.ok("plain=changed; cd /; umask 022; later=1");
        first.keeps_state();
        assert_eq!(first.ok("echo \"${later-none} $TRL_SESSION_NAME\""), "none first\n", "{shell:?}");
        first.destroy();
        assert_eq!(second.ok("echo $plain; pwd"), "changed\n/\n", "{shell:?}");
        // Its state is its own, also for a new shell.
        second.run("kill -9 $$").exits(137);
        assert_eq!(second.ok("echo $plain $TRL_SESSION_NAME; pwd"), "changed second\n/\n", "{shell:?}");
    }
}

#[test]
fn a_fork_right_after_a_command_has_what_that_changed() {
    let daemon = daemon!();
    for shell in Shell::installed() {
        let mut session = daemon.session(shell);
        for round in 0..5 {
            // In one piece: the fork is asked for while the shell still tells what the command has changed.
            let run = session.params(json!({"command": format!("x={round}")}));
            let run = session.connection.begin(m::ExecRun::NAME, run);
            session.connection.finish(run).data();
            let mut forked = fork(&daemon, &mut session, json!({}));
            assert_eq!(forked.ok("echo $x"), format!("{round}\n"), "{shell:?}");
            forked.destroy();
        }
    }
}

#[test]
fn a_running_command_is_not_disturbed_by_a_fork() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("x=before");
    let (running, _) = session.stream_until(
        json!({"command": "x=during; echo on; read line; echo $x $line", "stdin_open": true}),
        "on\n",
    );
    let exec_id = session.info()["running"].clone();
    let mut forked = fork(&daemon, &mut session, json!({}));
    assert_eq!(forked.ok("echo $x"), "before\n");
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "go\n"}));
    assert_eq!(session.connection.finish(running).output_from("stdout", 3), b"during go\n");
}

#[test]
fn settings_are_those_of_the_first() {
    let daemon = daemon!();
    let settings = json!({
        "timeout_s": 7, "idle_timeout_s": 70, "tty": true, "limits": {"max_queue": 3, "max_commands": 4}, "env": {"GIVEN": "x"},
    });
    let mut first = daemon.session_with(Shell::Bash, settings);
    first.ok(":");
    let mut second = fork(&daemon, &mut first, json!({}));
    let (one, two) = (first.info(), second.info());
    for field in ["shell", "timeout_s", "idle_timeout_s", "tty", "limits", "env_keys", "runtime"] {
        assert_eq!(one[field], two[field], "{field}");
    }
    assert_eq!((&two["command_count"], &two["name"], &two["restarts"]), (&json!(0), &Value::Null, &json!(0)));
    assert_eq!(second.ok("[ -t 1 ] && echo $GIVEN").trim_end(), "x");
}

#[test]
fn forks_are_sessions_like_any_other() {
    let mut daemon = Daemon::builder(trl!()).env("TRL_MAX_SESSIONS", "3").start();
    let mut session = daemon.session_with(Shell::Sh, json!({"name": "first"}));
    session.ok("x=1");
    let mut forked = fork(&daemon, &mut session, json!({"name": "second"}));
    let mut fails = |params: Value, code: &str| session.connection.fails(m::SessionFork::NAME, params, code);
    fails(json!({"session_id": "first", "name": "second"}), "NAME_TAKEN");
    fails(json!({"session_id": "first", "name": "a b"}), "INVALID_PARAMS");
    fails(json!({"session_id": "nobody"}), "SESSION_NOT_FOUND");
    let third = daemon.trl(&["fork", "second", "third"]);
    assert!(third.status.success(), "{third:?}");
    let id = daemon.connect().ok(m::SessionInfo::NAME, json!({"session_id": "third"}))["session_id"].clone();
    assert_eq!(String::from_utf8_lossy(&third.stdout).trim_end(), id);
    fails(json!({"session_id": "first"}), "MAX_SESSIONS_REACHED");
    daemon.connect().ok(m::SessionDestroy::NAME, json!({"session_id": "third"}));
    // It outlives the daemon, and its own host.
    daemon.kill9();
    daemon.restart();
    forked.connection = daemon.connect();
    assert_eq!(forked.ok("echo $x"), "1\n");
    forked.kill_host();
    wait_until("the loss is noticed", GUARD, || forked.info()["state"] == "lost");
    let params = forked.params(json!({}));
    forked.connection.fails(m::SessionFork::NAME, params.clone(), "SESSION_TERMINATED");
    forked.connection.ok(m::SessionRestart::NAME, params);
    assert_eq!(forked.ok("echo $x"), "1\n");
}

/// A session that continues with the kept state of an earlier one has what it is given itself, too.
#[test]
fn kept_state_leaves_what_the_next_session_is_given() {
    let daemon = daemon!();
    for shell in Shell::installed() {
        let keep = format!("kept-{}", shell.name());
        let env = json!({"BOTH": "old", "CHANGED": "old", "UNSET": "old"});
        let mut first = daemon.session_with(shell, json!({"keep_state": keep, "env": env, "name": "first"}));
        first.ok("CHANGED=mine; unset UNSET; own=1");
        first.ok(":");
        first.destroy();
        let env = json!({"BOTH": "new", "CHANGED": "new", "UNSET": "new", "ADDED": "new"});
        let mut next = daemon.session_with(shell, json!({"restore_state": keep, "env": env, "name": "next"}));
        let told = next.ok("echo \"$BOTH $CHANGED ${UNSET-unset} $ADDED $own $TRL_SESSION_NAME ${HOME:+home} ${PATH:+path}\"");
        assert_eq!(told, "new mine unset new 1 next home path\n", "{shell:?}");
        next.run_with(json!({"command": "echo $BOTH", "env": {"BOTH": "once"}}))
            .exits(0)
            .prints("once\n", "");
        assert_eq!(next.ok("echo $BOTH"), "new\n", "{shell:?}");
        next.destroy();
    }
}
