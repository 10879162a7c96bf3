//! Limits that protect: each refusal says which one it was and how to get more.

use std::sync::atomic::{AtomicUsize, Ordering};
use trl_protocol::{Method as _, methods as m};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use trl_testkit::process::Signal;
use trl_testkit::{
    Connection, Daemon, GUARD, Session, Shell, daemon, needs, numbers, process, trl, wait_until,
};

/// A refusal must have this code and name all of these.
#[track_caller]
fn refused(answer: Result<Value, Value>, code: &str, words: &[&str]) {
    let error = answer.err().unwrap_or_default();
    assert_eq!(error["code"], code, "{error}");
    let message = error["message"].as_str().unwrap_or_default();
    for word in words {
        assert!(message.contains(word), "{word:?} is not in: {message}");
    }
}

fn run(session: &mut Session, params: Value) -> Result<Value, Value> {
    let params = session.params(params);
    session.connection.call(m::ExecRun::NAME, params)
}

#[test]
fn sessions() {
    let daemon = Daemon::builder(trl!()).arg("--max-sessions").arg("2").start();
    let mut first = daemon.session(Shell::Bash);
    let _second = daemon.session(Shell::Sh);
    let third = first.connection.call(m::SessionCreate::NAME, json!({}));
    refused(third, "MAX_SESSIONS_REACHED", &["2", "TRL_MAX_SESSIONS", m::SessionDestroy::NAME]);
    first.destroy();
    first.connection.ok(m::SessionCreate::NAME, json!({}));
}

#[test]
fn memory() {
    let daemon = Daemon::builder(trl!()).env("TRL_MIN_FREE_MEMORY", "1000000G").start();
    let created = daemon.connect().call(m::SessionCreate::NAME, json!({}));
    refused(created, "RESOURCE_PRESSURE", &["memory", "TRL_MIN_FREE_MEMORY"]);
    daemon.connect().ok(m::SystemPing::NAME, json!({}));
}

#[test]
fn commands_of_a_session() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"limits": {"max_commands": 2}}));
    session.ok("true");
    session.ok("true");
    refused(
        run(&mut session, json!({"command": "true"})),
        "SESSION_LIMIT_EXCEEDED",
        &["2", "limits.max_commands"],
    );
}

#[test]
fn requests_that_wait_for_a_session() {
    const EACH: usize = 1024;
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let exec_id = session.run("true").exec_id;
    let host = session.host_pid();
    process::signal(host, Signal::STOP);
    let refusals = AtomicUsize::new(0);
    let ask = || {
        let mut connection = daemon.connect();
        for _ in 0..EACH {
            connection.begin(m::ExecInfo::NAME, json!({"exec_id": exec_id}));
        }
        let mut answers = 0;
        for _ in 0..EACH {
            let line = connection.next_line().unwrap_or_default();
            match line["error"]["code"].as_str() {
                None => answers += 1,
                Some(_) => {
                    refused(Err(line["error"].clone()), "RESOURCE_PRESSURE", &["4096", "another session"]);
                    refusals.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        answers
    };
    let answers: usize = std::thread::scope(|scope| {
        let crowd: Vec<_> = (0..5).map(|_| scope.spawn(ask)).collect();
        wait_until("what is too much is refused", GUARD, || refusals.load(Ordering::Relaxed) == EACH);
        process::signal(host, Signal::CONT);
        crowd.into_iter().map(|client| client.join().unwrap_or_default()).sum()
    });
    assert_eq!((answers, refusals.into_inner()), (4096, EACH));
    session.survives();
}

#[test]
fn clients_at_a_time() {
    const MOST: usize = 20;
    let daemon = Daemon::builder(trl!()).env("TRL_MAX_CONNECTIONS", MOST.to_string()).start();
    let mut session = daemon.session(Shell::Bash);
    let mut crowd: Vec<Connection> = (1..MOST).map(|_| daemon.connect()).collect();
    wait_until("all of them are served", GUARD, || {
        session.connection.ok(m::SystemStats::NAME, json!({}))["connections"] == MOST
    });
    // One more is told so, after a while; those that are there go on.
    let line = daemon.connect().next_line().unwrap_or_default();
    refused(Err(line["error"].clone()), "RESOURCE_PRESSURE", &["20", "close some", "TRL_MAX_CONNECTIONS"]);
    session.survives();
    // One that waits is served as soon as there is room.
    let mut late = daemon.connect();
    late.begin(m::SystemPing::NAME, json!({}));
    crowd.pop();
    assert!(late.next_line().unwrap_or_default()["data"].is_object());
    session.survives();
}

#[test]
fn a_thousand_clients_are_served_without_a_word() {
    const MANY: u64 = 1024;
    let open_files = getrlimit(Resource::Nofile);
    if open_files.maximum.is_some_and(|most| most < 4 * MANY) {
        needs::skip("this user may not have so many files open (ulimit -Hn)");
        return;
    }
    // As many as the test itself has at hand; the daemon sees to itself.
    assert_eq!(setrlimit(Resource::Nofile, Rlimit { current: open_files.maximum, ..open_files }), Ok(()));
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let crowd: Vec<Connection> = (1..MANY).map(|_| daemon.connect()).collect();
    wait_until("all of them are served", GUARD, || {
        session.connection.ok(m::SystemStats::NAME, json!({}))["connections"] == MANY
    });
    session.survives();
    drop(crowd);
}

#[test]
fn the_queue() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"limits": {"max_queue": 1}}));
    session.stream_until(json!({"command": "echo up; sleep 1000"}), "up\n");
    refused(run(&mut session, json!({"command": "true"})), "SESSION_BUSY", &["wait_s", "cancel"]);
    session.start(json!({"command": "true", "background": false, "wait_s": 100}));
    let beyond = run(&mut session, json!({"command": "true", "wait_s": 100}));
    refused(beyond, "SESSION_LIMIT_EXCEEDED", &["1", "limits.max_queue"]);
}

#[test]
fn the_size_of_what_is_sent() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let long = "x".repeat(9 << 20);
    refused(
        run(&mut session, json!({"command": long})),
        "PAYLOAD_TOO_LARGE",
        &["command", "8388608", "file"],
    );
    let exec_id = session.start(json!({"command": "sleep 1000", "stdin_open": true}));
    let write = |session: &mut Session| {
        let data = "y".repeat(9 << 20);
        session.connection.call(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": data}))
    };
    write(&mut session).expect("the first is below the limit");
    refused(write(&mut session), "RESOURCE_PRESSURE", &["stdin", "again"]);
    session.survives();
    // Exactly as much as is allowed.
    let text = format!("echo here #{}", "x".repeat((8 << 20) - 11));
    assert_eq!(run(&mut session, json!({"command": text})).unwrap_or_default()["stdout"], "here\n");
    refused(run(&mut session, json!({"command": text + "x"})), "PAYLOAD_TOO_LARGE", &["8388608"]);
}

#[test]
fn defaults() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let limits = session.connection.ok(m::SystemInfo::NAME, json!({}))["limits"].clone();
    let expected = json!({
        "max_sessions": 64, "max_output_bytes": 1 << 20, "journal_bytes": 64 << 20, "default_timeout_s": 60.0, "max_idle_s": 3600.0, "session_ttl_s": 86_400.0,
        "max_line_bytes": 16 << 20, "max_command_bytes": 8 << 20, "max_stdin_bytes": 16 << 20,
    });
    for (name, value) in expected.as_object().into_iter().flatten() {
        assert_eq!(limits[name], *value, "{name}: {limits}");
    }
    let info = session.info();
    assert_eq!((&info["timeout_s"], &info["idle_timeout_s"]), (&json!(60.0), &json!(3600.0)), "{info}");
    session.stream_until(json!({"command": "echo up; sleep 1000"}), "up\n");
    for _ in 0..256 {
        session.start(json!({"command": "true", "background": false, "wait_s": 100}));
    }
    let beyond = run(&mut session, json!({"command": "true", "wait_s": 100}));
    refused(beyond, "SESSION_LIMIT_EXCEEDED", &["256", "limits.max_queue"]);
}

#[test]
fn output() {
    let daemon = Daemon::builder(trl!()).env("TRL_JOURNAL_BYTES", "300k").start();
    let mut session = daemon.session(Shell::Bash);
    let ran = session.run_with(json!({"command": numbers::command(2_000_000), "max_output_bytes": 1000}));
    assert!(ran.stdout_truncated && ran.stdout_bytes == 2_000_000, "{ran:?}");
    assert!(ran.stdout.contains("left out") && ran.stdout.contains("exec.output"), "{ran:?}");
    let range =
        session.connection.ok(m::ExecOutput::NAME, json!({"exec_id": ran.exec_id, "stream": "stdout"}));
    let kept = 2_000_000 - range["dropped_bytes"].as_u64().unwrap_or_default();
    assert!((240 << 10..=300 << 10).contains(&kept), "300 KiB are kept: {range:.200}");
}

#[test]
fn idle_time_and_age() {
    let daemon = Daemon::builder(trl!()).env("TRL_SESSION_TTL_SEC", "1").start();
    for (params, words) in [
        (json!({"idle_timeout_s": 0.2}), ["0.2 s", "idle_timeout_s"]),
        (json!({"idle_timeout_s": 0}), ["1 s", "TRL_SESSION_TTL_SEC"]),
    ] {
        let mut session = daemon.session_with(Shell::Bash, params);
        let host = session.host_pid();
        process::assert_ends("a session beyond its limit", host);
        wait_until("it is told", GUARD, || {
            session.connection.ok(m::SessionList::NAME, json!({}))["sessions"] == json!([])
        });
        refused(run(&mut session, json!({"command": "true"})), "SESSION_TERMINATED", &words);
    }
}

#[test]
fn descriptors() {
    let script = "ulimit -n 40; exec \"$0\" \"$@\"";
    let daemon = Daemon::builder(trl!()).launched_by(&["bash", "-c", script]).start();
    let mut connection = daemon.connect();
    let mut count = 0;
    let refusal = loop {
        match connection.call(m::SessionCreate::NAME, json!({"shell": "sh"})) {
            Ok(_) => count += 1,
            error => break error,
        }
        assert!(count < 40, "forty descriptors cannot serve so many sessions");
    };
    refused(refusal, "RESOURCE_PRESSURE", &["ulimit -n"]);
}
