//! What happens in a daemon, told as it happens.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Connection, Shell, daemon};

/// A subscription that holds, and the number of its first change.
fn subscribe(connection: &mut Connection, params: Value) -> (u64, u64) {
    let request = connection.begin(m::EventsSubscribe::NAME, params);
    let first = connection.event(request);
    assert_eq!(first.name, "subscribed");
    (request, first.data["next"].as_u64().unwrap())
}

#[track_caller]
fn next(connection: &mut Connection, request: u64) -> Value {
    let event = connection.event(request);
    assert_eq!(event.name, "change", "{event:?}");
    event.data
}

/// The next that is not a short wait for a shell that is just getting ready.
#[track_caller]
fn next_but_queued(connection: &mut Connection, request: u64) -> Value {
    loop {
        let change = next(connection, request);
        if change["change"] != "queued" {
            return change;
        }
    }
}

#[test]
fn every_change_is_told_in_order_and_again_from_its_number_on() {
    let daemon = daemon!();
    let mut watcher = daemon.connect();
    let (request, begin) = subscribe(&mut watcher, json!({}));
    let mut session = daemon.session(Shell::Bash);
    let created = next_but_queued(&mut watcher, request);
    assert_eq!(
        (&created["seq"], &created["topic"], &created["change"], &created["session_id"]),
        (&json!(begin), &json!("session"), &json!("created"), &json!(session.id)),
        "{created}"
    );
    let ran = session.run("(exit 3)");
    let (started, finished) =
        (next_but_queued(&mut watcher, request), next_but_queued(&mut watcher, request));
    assert_eq!(
        (&started["change"], &started["exec_id"]),
        (&json!("started"), &json!(ran.exec_id)),
        "{started}"
    );
    assert_eq!((&finished["change"], &finished["exit_code"]), (&json!("finished"), &json!(3)), "{finished}");
    let beside = session.start(json!({"command": "true"}));
    assert_eq!(next_but_queued(&mut watcher, request)["background"], true);
    let over = next_but_queued(&mut watcher, request);
    assert_eq!((&over["change"], &over["exec_id"]), (&json!("finished"), &json!(beside)), "{over}");
    let params = session.params(json!({}));
    session.connection.ok(m::SessionRestart::NAME, params);
    assert_eq!(next_but_queued(&mut watcher, request)["change"], "restarted");
    session.destroy();
    let ended = next_but_queued(&mut watcher, request);
    assert_eq!((&ended["change"], &ended["session_id"]), (&json!("ended"), &json!(session.id)), "{ended}");
    let mut late = daemon.connect();
    let (again, _) = subscribe(&mut late, json!({"from": begin, "topics": ["session"]}));
    let told: Vec<Value> = (0..3).map(|_| next(&mut late, again)["change"].clone()).collect();
    assert_eq!(told, ["created", "restarted", "ended"]);
    let (old, _) = subscribe(&mut late, json!({"from": 1}));
    assert_eq!(late.event(old).name, "missed");
    watcher.fails(m::EventsSubscribe::NAME, json!({"topics": ["weather"]}), "INVALID_PARAMS");
}

#[test]
fn every_command_that_begins_after_a_subscription_is_told_once() {
    let daemon = daemon!();
    let in_new_session = |count: usize| {
        let mut connection = daemon.connect();
        let run = |_| {
            let made = connection.ok(m::SessionCreate::NAME, json!({"shell": "bash"}));
            let params = json!({"session_id": made["session_id"], "command": ":"});
            let ran = connection.ok(m::ExecRun::NAME, params);
            connection.ok(m::SessionDestroy::NAME, json!({"session_id": made["session_id"]}));
            ran["exec_id"].clone()
        };
        (0..count).map(run).collect::<Vec<Value>>()
    };
    let mut watcher = daemon.connect();
    // Some sessions are there, and some are being made, while the first subscription begins.
    let mut old: Vec<_> = (0..4).map(|_| daemon.session(Shell::Bash)).collect();
    let (request, ran) = std::thread::scope(|scope| {
        let makers: Vec<_> = (0..3).map(|_| scope.spawn(|| in_new_session(12))).collect();
        let (request, _) = subscribe(&mut watcher, json!({"topics": ["exec"]}));
        let mut ran: Vec<Value> = old.iter_mut().map(|session| json!(session.run(":").exec_id)).collect();
        makers.into_iter().for_each(|it| drop(it.join().unwrap()));
        ran.extend(in_new_session(8));
        (request, ran)
    });
    let last = json!(old[0].run(":").exec_id);
    let mut told = Vec::new();
    while !told.contains(&(last.clone(), json!("finished"))) {
        let change = next_but_queued(&mut watcher, request);
        told.push((change["exec_id"].clone(), change["change"].clone()));
    }
    for exec in ran {
        for change in ["started", "finished"] {
            let row = (exec.clone(), json!(change));
            assert_eq!(told.iter().filter(|it| **it == row).count(), 1, "{row:?} in {told:?}");
        }
    }
    let mut once = told.clone();
    once.sort_by_key(|it| format!("{it:?}"));
    once.dedup();
    assert_eq!(once.len(), told.len(), "{told:?}");
}

#[test]
fn a_session_that_lost_its_host_and_one_that_waits_are_told() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Sh);
    session.survives();
    let mut watcher = daemon.connect();
    let (request, _) = subscribe(&mut watcher, json!({}));
    let first = session.connection.begin(m::ExecRun::NAME, session.params(json!({"command": "sleep 0.3"})));
    assert_eq!(next_but_queued(&mut watcher, request)["change"], "started");
    let second =
        session.connection.begin(m::ExecRun::NAME, session.params(json!({"command": "true", "wait_s": 20})));
    assert_eq!(next(&mut watcher, request)["change"], "queued");
    session.connection.finish(first).data();
    session.connection.finish(second).data();
    let rest: Vec<Value> = (0..3).map(|_| next(&mut watcher, request)["change"].clone()).collect();
    assert_eq!(rest, ["finished", "started", "finished"]);
    session.kill_host();
    assert_eq!(next(&mut watcher, request)["change"], "lost");
    let params = session.params(json!({}));
    session.connection.ok(m::SessionRestart::NAME, params);
    let again = next(&mut watcher, request);
    assert_eq!(
        (&again["change"], &again["session_id"]),
        (&json!("restarted"), &json!(session.id)),
        "{again}"
    );
}

#[test]
fn agents_and_mail_are_told() {
    let daemon = daemon!();
    let mut watcher = daemon.connect();
    let (request, _) = subscribe(&mut watcher, json!({"topics": ["agent", "mail"]}));
    let mut agent = daemon.connect();
    agent.ok(m::AgentCreate::NAME, json!({"name": "ana"}));
    assert_eq!(next(&mut watcher, request)["agent"], "ana");
    let used = agent.ok(m::AgentUse::NAME, json!({"agent": "ana"}));
    let present = next(&mut watcher, request);
    assert_eq!((&present["change"], &present["label"]), (&json!("present"), &used["label"]), "{present}");
    let sent = agent.ok(m::MailSend::NAME, json!({"to": "ana", "text": "hello"}));
    let told = next(&mut watcher, request);
    assert_eq!((&told["change"], &told["message_id"]), (&json!("sent"), &sent["message_id"]), "{told}");
    assert!(!told.to_string().contains("hello"), "never what is said");
    agent.ok(m::AgentRelease::NAME, json!({}));
    assert_eq!(next(&mut watcher, request)["change"], "released");
}

#[test]
fn this_daemon_tells_where_sessions_can_be_made() {
    let daemon = daemon!();
    let found = daemon.connect().ok(m::SystemRuntimes::NAME, json!({}));
    let local = &found["runtimes"][0];
    assert_eq!(
        (&local["kind"], &local["available"], &local["default"]),
        (&json!("local"), &json!(true), &json!(true))
    );
    assert!(local["shells"].as_array().is_some_and(|shells| !shells.is_empty()), "{local}");
}
