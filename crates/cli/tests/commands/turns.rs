//! One session runs one command at a time, in the order they came; sessions do not wait for each other.

use std::time::Instant;
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::{Ran, Session, Shell, daemon, in_each_shell, process};

/// A foreground command that has certainly begun and ends when told.
#[track_caller]
fn hold(session: &mut Session) -> (u64, String) {
    session.stream_until(json!({"command": "echo up; read line", "stdin_open": true, "timeout_s": 0}), "up\n")
}

#[track_caller]
fn release(session: &mut Session, (request, exec_id): (u64, String)) {
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "go\n", "eof": true}));
    assert!(session.connection.finish(request).result.is_ok());
}

fn ten_at_once_run_one_after_the_other_as_they_came(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let requests: Vec<u64> = (0..10)
        .map(|number| {
            let command = format!(
                "echo START-{number} >>log; sleep 0.0{}; echo out-{number}; echo err-{number} >&2; echo END-{number} >>log",
                9 - number
            );
            let params = session.params(json!({"command": command, "wait_s": 20}));
            session.connection.begin(m::ExecRun::NAME, params)
        })
        .collect();
    for (number, request) in requests.into_iter().enumerate() {
        let ran = session.connection.finish(request).ran().exits(0);
        ran.prints(&format!("out-{number}\n"), &format!("err-{number}\n"));
    }
    let expected: String = (0..10).map(|number| format!("START-{number}\nEND-{number}\n")).collect();
    assert_eq!(std::fs::read_to_string(daemon.work().join("log")).unwrap_or_default(), expected);
}

fn commands_of_several_clients_do_not_mix(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let clients: Vec<_> = (0..6)
        .map(|number| {
            let (mut connection, id) = (daemon.connect(), session.id.clone());
            std::thread::spawn(move || {
                for turn in 0..5 {
                    let command =
                        format!("echo {number}.{turn}; echo a >>log; echo b >>log; echo {number}.{turn}");
                    let params = json!({"session_id": id, "command": command, "wait_s": 20});
                    let line = format!("{number}.{turn}\n");
                    Ran::read(connection.ok(m::ExecRun::NAME, params)).exits(0).prints(&line.repeat(2), "");
                }
            })
        })
        .collect();
    for client in clients {
        assert!(client.join().is_ok());
    }
    session.run("uniq -c <log | grep -cv '^ *1 '").exits(1).prints("0\n", "");
}

fn a_busy_session_says_so_unless_asked_to_wait(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let held = hold(&mut session);
    let message = session.refused(json!({"command": "touch hit"}), "SESSION_BUSY");
    assert!(message.contains("wait_s"), "what to do is told: {message}");
    session.refused(json!({"command": "touch hit", "wait_s": 0}), "SESSION_BUSY");
    session.refused(json!({"command": "touch hit", "wait_s": 0.1}), "SESSION_BUSY");
    assert_eq!(session.info()["state"], "running");
    release(&mut session, held);
    assert_eq!(session.info()["state"], "idle");
    session.survives();
    assert!(!process::exists(daemon.work().join("hit")), "a refused command never runs");
}

fn a_cancelled_command_in_the_queue_never_runs(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let held = hold(&mut session);
    let queue = |session: &mut Session, command: &str| {
        let params = session.params(json!({"command": command, "background": false, "wait_s": 20}));
        let started = session.connection.ok(m::ExecStart::NAME, params);
        assert_eq!(started["state"], "queued", "{started}");
        started["exec_id"].as_str().unwrap_or_default().to_owned()
    };
    let doomed = queue(&mut session, "touch hit");
    let next = queue(&mut session, "echo next");
    assert_eq!(session.exec_info(&doomed)["state"], "queued");
    assert_eq!(session.info()["queued"], 2);
    let cancelled = session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": doomed}));
    assert_eq!(cancelled, json!({"exec_id": doomed, "cancelled": true}));
    let info = session.exec_info(&doomed);
    assert_eq!((&info["state"], &info["cancelled"]), (&json!("finished"), &json!(true)), "{info}");
    assert_eq!(info["exit_code"], json!(null), "what never ran has no status: {info}");
    release(&mut session, held);
    assert_eq!(session.attach(&next).output("stdout"), b"next\n");
    assert!(!process::exists(daemon.work().join("hit")));
}

fn a_waiting_run_can_be_cancelled_by_someone_else(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let held = hold(&mut session);
    let params = session.params(json!({"command": "touch hit", "wait_s": 20}));
    let waiting = session.connection.begin(m::ExecRun::NAME, params);
    let mut other = daemon.connect();
    let mut queued = None;
    trl_testkit::wait_until("the second command queues", trl_testkit::GUARD, || {
        let list = other.ok(m::ExecList::NAME, json!({"session_id": session.id}));
        queued = list["execs"]
            .as_array()
            .and_then(|rows| rows.iter().find(|row| row["state"] == "queued").cloned());
        queued.is_some()
    });
    let exec_id = queued.unwrap_or_default()["exec_id"].clone();
    assert_eq!(other.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}))["cancelled"], true);
    let ran = session.connection.finish(waiting).ran();
    assert!(ran.cancelled && ran.exit_code.is_none(), "{ran:?}");
    release(&mut session, held);
    session.survives();
    assert!(!process::exists(daemon.work().join("hit")));
}

fn waiting_does_not_count_against_the_deadline(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let params = session.params(json!({"command": "sleep 1"}));
    let first = session.connection.begin(m::ExecRun::NAME, params);
    let params = session.params(json!({"command": "sleep 0.2; echo done", "wait_s": 20, "timeout_s": 0.8}));
    let second = session.connection.begin(m::ExecRun::NAME, params);
    let ran = session.connection.finish(second).ran();
    assert!(!ran.timed_out, "{ran:?}");
    ran.exits(0).prints("done\n", "");
    assert!(session.connection.finish(first).result.is_ok());
}

fn a_blocked_session_blocks_nobody_else(shell: Shell) {
    let daemon = daemon!();
    let mut blocked = daemon.session(shell);
    let held = hold(&mut blocked);
    let mut other = daemon.session(shell);
    other.survives();
    assert!(blocked.connection.ok(m::SystemPing::NAME, json!({}))["uptime_s"].is_number());
    assert_eq!(other.connection.ok(m::SystemStats::NAME, json!({}))["running_commands"], 1);
    release(&mut blocked, held);
}

in_each_shell!(
    ten_at_once_run_one_after_the_other_as_they_came,
    commands_of_several_clients_do_not_mix,
    a_busy_session_says_so_unless_asked_to_wait,
    a_cancelled_command_in_the_queue_never_runs,
    a_waiting_run_can_be_cancelled_by_someone_else,
    waiting_does_not_count_against_the_deadline,
    a_blocked_session_blocks_nobody_else,
);

#[test]
fn sessions_sleep_at_the_same_time() {
    let daemon = daemon!();
    let mut sessions: Vec<Session> = (0..4).map(|_| daemon.session(Shell::Bash)).collect();
    let timed = |sessions: &mut [Session]| {
        let start = Instant::now();
        let requests: Vec<u64> = sessions
            .iter_mut()
            .map(|session| {
                let params = session.params(json!({"command": "sleep 1"}));
                session.connection.begin(m::ExecRun::NAME, params)
            })
            .collect();
        for (session, request) in sessions.iter_mut().zip(requests) {
            assert!(session.connection.finish(request).result.is_ok());
        }
        start.elapsed()
    };
    let alone = timed(&mut sessions[..1]);
    let together = timed(&mut sessions);
    assert!(together < alone * 2, "one takes {alone:?}, four take {together:?}");
}

#[test]
fn a_full_queue_says_so() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"limits": {"max_queue": 2}}));
    let held = hold(&mut session);
    let queued: Vec<String> = (0..2)
        .map(|_| session.start(json!({"command": "echo x >>log", "background": false, "wait_s": 20})))
        .collect();
    let params = session.params(json!({"command": "touch hit", "background": false, "wait_s": 20}));
    session.connection.fails(m::ExecStart::NAME, params, "SESSION_LIMIT_EXCEEDED");
    release(&mut session, held);
    for exec_id in queued {
        session.attach(&exec_id).data();
    }
    session.run("cat log").exits(0).prints("x\nx\n", "");
    assert!(!process::exists(daemon.work().join("hit")));
}
