//! Requests that meet each other: each gets one honest answer, and nothing runs twice.

use std::collections::BTreeMap;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Connection, Shell, daemon, in_each_shell, process};

fn code(answer: &Result<Value, Value>) -> String {
    answer
        .as_ref()
        .err()
        .map(|error| error["code"].as_str().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

fn commands_race_with_the_end_of_their_session(shell: Shell) {
    let daemon = daemon!();
    for round in 0..6 {
        let mut session = daemon.session(shell);
        let runs: Vec<u64> = (0..5)
            .map(|_| {
                let params = session.params(json!({"command": "echo x; sleep 0.01", "wait_s": 20}));
                session.connection.begin(m::ExecRun::NAME, params)
            })
            .collect();
        let params = session.params(json!({"force": round % 2 == 0}));
        let end = session.connection.begin(m::SessionDestroy::NAME, params);
        for run in runs {
            let answer = session.connection.finish(run).result;
            assert!(
                answer.is_ok()
                    || ["SESSION_TERMINATED", "SESSION_NOT_FOUND"].contains(&code(&answer).as_str()),
                "{answer:?}"
            );
        }
        assert_eq!(session.connection.finish(end).data()["state"], "terminated");
    }
}

fn a_restart_meets_a_running_command(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let (request, exec_id) =
        session.stream_until(json!({"command": "echo up; sleep 1000; touch hit", "timeout_s": 0}), "up\n");
    let params = session.params(json!({}));
    let restarted = session.connection.call(m::SessionRestart::NAME, params);
    if restarted.is_ok() {
        let data = session.connection.finish(request).data();
        assert_ne!(data["exit_code"], 0, "{data}");
    } else {
        assert_eq!(code(&restarted), "SESSION_BUSY");
        // A restart cannot be queued.
        let problem = restarted.err().unwrap_or_default().to_string();
        assert!(problem.contains("exec.cancel") && !problem.contains("wait_s"), "{problem}");
        session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
        session.connection.finish(request).data();
    }
    session.run("true").exits(0);
    session.has_state_back();
    assert!(!process::exists(daemon.work().join("kept/hit")));
}

fn one_name_is_given_once(shell: Shell) {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    let requests: Vec<u64> = (0..8)
        .map(|_| connection.begin(m::SessionCreate::NAME, json!({"name": "one", "shell": shell.name()})))
        .collect();
    let answers: Vec<_> = requests.into_iter().map(|request| connection.finish(request).result).collect();
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
    assert!(answers.iter().all(|answer| answer.is_ok() || code(answer) == "NAME_TAKEN"));
    assert_eq!(connection.ok(m::SessionList::NAME, json!({}))["sessions"].as_array().map(Vec::len), Some(1));
}

in_each_shell!(
    commands_race_with_the_end_of_their_session,
    a_restart_meets_a_running_command,
    one_name_is_given_once,
);

/// Every command notes its number; whatever the daemon goes through, none runs twice,
/// and each that was answered ran.
#[test]
fn nothing_runs_twice_while_daemons_come_and_go() {
    let mut daemon = daemon!();
    let sessions: Vec<Value> = {
        let mut connection = daemon.connect();
        (0..4)
            .map(|number| {
                connection.ok(
                    m::SessionCreate::NAME,
                    json!({"shell": Shell::ALL[number % 3].name(), "working_dir": daemon.work()}),
                )["session_id"]
                    .clone()
            })
            .collect()
    };
    let (socket, log) = (daemon.socket(), daemon.work().join("log"));
    let clients: Vec<_> = sessions
        .iter()
        .enumerate()
        .map(|(client, session)| {
            let (socket, session) = (socket.clone(), session.clone());
            std::thread::spawn(move || drive(&socket, &session, client))
        })
        .collect();
    for _ in 0..5 {
        let before = lines(&log).len();
        trl_testkit::wait_until("work goes on", trl_testkit::GUARD, || lines(&log).len() > before + 20);
        daemon.restart();
    }
    let mut answered = Vec::new();
    for client in clients {
        answered.extend(client.join().unwrap_or_default());
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines(&log) {
        *counts.entry(line).or_default() += 1;
    }
    let twice: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let missing: Vec<_> = answered.iter().filter(|number| !counts.contains_key(*number)).collect();
    assert!(missing.is_empty(), "answered but never run: {missing:?}");
    assert!(answered.len() > 100, "{} answered", answered.len());
}

fn lines(log: &std::path::Path) -> Vec<String> {
    std::fs::read_to_string(log).unwrap_or_default().lines().map(str::to_owned).collect()
}

/// Runs numbered commands until 150 were sent; a cut connection is opened again.
fn drive(socket: &std::path::Path, session: &Value, client: usize) -> Vec<String> {
    let mut answered = Vec::new();
    let mut connection: Option<Connection> = None;
    for number in 0..150 {
        let name = format!("{client}.{number}");
        if connection.is_none() {
            trl_testkit::wait_until("a daemon answers", trl_testkit::GUARD, || {
                connection = Connection::open(socket).ok();
                connection.is_some()
            });
        }
        let Some(open) = connection.as_mut() else { continue };
        let params = json!({"session_id": session, "command": format!("echo {name} >>log"), "wait_s": 20});
        match open.try_call(m::ExecRun::NAME, params) {
            Some(Ok(data)) if data["exit_code"] == 0 => answered.push(name),
            Some(_) => {}
            None => connection = None,
        }
    }
    answered
}
