//! One list of sessions, with those on other daemons.

use std::net::TcpListener;

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Connection, Daemon, GUARD, wait_until};

use super::remote::{Pair, TOKEN, create, far_daemon, near_daemon, pair, prints, write_private};

/// The list that every daemon has answered. One that takes its time is not waited for.
fn all_sessions(connection: &mut Connection) -> Value {
    let mut list = json!({});
    wait_until("every daemon has answered", GUARD, || {
        list = connection.ok(m::SessionList::NAME, json!({}));
        list["unanswered"].is_null()
    });
    list["sessions"].clone()
}

#[test]
fn sessions_that_others_made_there_are_listed_and_used_by_their_id() {
    let Pair { far, proxy: _proxy, mut near } = pair();
    let mut there = far.connect();
    let made = there.ok(m::SessionCreate::NAME, json!({"name": "default", "shell": "bash"}));
    let id = made["session_id"].as_str().unwrap().to_owned();
    prints(&mut there, "default", "x=theirs", "");
    let mut here = near.connect();
    create(&mut here, "ours");
    let listed = all_sessions(&mut here);
    let row = |it: &Value| (it["name"].clone(), it["runtime"].clone(), it["foreign"].clone());
    let rows: Vec<_> = listed.as_array().unwrap().iter().map(row).collect();
    let theirs = (json!(null), json!("far"), json!({"name": "default"}));
    assert_eq!(rows, [theirs, (json!("ours"), json!("far"), json!(null))], "{listed}");
    assert_eq!(here.ok(m::SessionList::NAME, json!({"own": true}))["sessions"], json!([]));

    prints(&mut here, &id, "echo $x; y=2", "theirs\n");
    here.fails(m::ExecRun::NAME, json!({"session_id": "default", "command": "true"}), "SESSION_NOT_FOUND");
    assert_eq!(here.ok(m::SessionInfo::NAME, json!({"session_id": id}))["foreign"]["name"], "default");
    here.ok(m::SessionRename::NAME, json!({"session_id": id, "name": "renamed"}));
    prints(&mut there, "renamed", "echo $y", "2\n");
    let shown = near.trl(&["ls"]);
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("RUNTIME") && text.contains(&id) && text.contains("(renamed)"), "{text}");

    let ended = near.trl(&["kill", "--all"]);
    assert!(ended.status.success(), "{ended:?}");
    assert!(near.terminate().success());
    let left = there.ok(m::SessionList::NAME, json!({}))["sessions"].clone();
    assert_eq!((left.as_array().map(Vec::len), &left[0]["name"]), (Some(1), &json!("renamed")), "{left}");
    near.restart();
    let mut here = near.connect();
    all_sessions(&mut here);
    here.ok(m::SessionDestroy::NAME, json!({"session_id": id}));
    assert_eq!(here.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    assert_eq!(there.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
}

#[test]
fn daemons_that_know_each_other_list_each_others_sessions_once() {
    let (second, address) = far_daemon(|builder| builder);
    let first = Daemon::builder(trl_testkit::trl!()).http().start();
    let know = |daemon: &Daemon, address: &str, token: &str| {
        write_private(&daemon.home().join(format!("config/tokens/{address}")), token);
        let runtime = format!("trl:http://{address}");
        let created = daemon.connect().ok(m::SessionCreate::NAME, json!({"runtime": runtime}));
        created["session_id"].clone()
    };
    let ids = [
        know(&first, &address.to_string(), TOKEN),
        know(&second, &first.http().address.to_string(), &first.http().token),
    ];
    for daemon in [&first, &second] {
        let mut connection = daemon.connect();
        let listed = all_sessions(&mut connection);
        let mut found: Vec<_> =
            listed.as_array().unwrap().iter().map(|it| it["session_id"].clone()).collect();
        let mut expected = ids.to_vec();
        found.sort_by_key(Value::to_string);
        expected.sort_by_key(Value::to_string);
        assert_eq!(found, expected, "{listed}");
        let of = |it: &Value| it["exec_id"].as_str().unwrap().to_owned();
        for id in &ids {
            prints(&mut connection, id.as_str().unwrap(), "echo here", "here\n");
        }
        let execs = connection.ok(m::ExecList::NAME, json!({}))["execs"].clone();
        let mut execs: Vec<String> = execs.as_array().unwrap().iter().map(of).collect();
        let count = execs.len();
        execs.sort();
        execs.dedup();
        assert!(count == execs.len() && count >= 2, "{execs:?}");
    }
    // One that ends cannot reach the other to end its session there.
    for (daemon, id) in [&first, &second].into_iter().zip(&ids) {
        daemon.connect().ok(m::SessionDestroy::NAME, json!({"session_id": id}));
    }
}

#[test]
fn a_daemon_that_does_not_answer_is_not_waited_for() {
    // It takes connections, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = near_daemon(&format!("http://{}", silent.local_addr().unwrap()), "");
    let mut here = near.connect();
    here.ok(m::SessionCreate::NAME, json!({"name": "mine"}));
    here.begin(m::ExecRun::NAME, json!({"session_id": "mine", "command": "sleep 5"}));
    for _ in 0..3 {
        let list = near.connect().ok(m::SessionList::NAME, json!({}));
        assert_eq!(
            (&list["unanswered"], &list["sessions"][0]["name"]),
            (&json!(["far"]), &json!("mine")),
            "{list}"
        );
    }
    assert_eq!(near.connect().ok(m::SessionInfo::NAME, json!({"session_id": "mine"}))["state"], "running");
    let list = near.connect().ok(m::SessionList::NAME, json!({"own": true}));
    assert_eq!(list["unanswered"], Value::Null, "{list}");
}

#[test]
fn what_happens_to_sessions_that_others_made_there_is_told_here() {
    let Pair { far, proxy: _proxy, near } = pair();
    let subscribe = |params: Value| {
        let mut changes = near.connect();
        let subscribed = changes.begin(m::EventsSubscribe::NAME, params);
        assert_eq!(changes.event(subscribed).name, "subscribed");
        (changes, subscribed)
    };
    let (mut changes, all) = subscribe(json!({"topics": ["session", "exec"]}));
    let (mut own_changes, own) = subscribe(json!({"topics": ["session"], "own": true}));
    // A session of ours is heard of once the other daemon is followed.
    let ours = create(&mut near.connect(), "ours");
    let mut seen = Vec::new();
    let mut until = |id: &str, change: &str| {
        while !seen.iter().any(|it: &Value| it["session_id"] == id && it["change"] == change) {
            seen.push(changes.event(all).data);
        }
        seen.clone()
    };
    until(&ours, "created");
    let mut there = far.connect();
    let theirs = there.ok(m::SessionCreate::NAME, json!({"name": "theirs", "shell": "bash"}));
    let id = theirs["session_id"].as_str().unwrap();
    until(id, "created");
    prints(&mut there, id, "echo x", "x\n");
    until(id, "finished");
    there.ok(m::SessionDestroy::NAME, json!({"session_id": id}));
    let seen = until(id, "ended");
    let row = |it: &Value| (it["change"].clone(), it["runtime"].clone(), it["name"].clone());
    // A command waits for a new shell that is just getting ready, or not.
    let of_theirs = |it: &&Value| it["session_id"] == id && it["change"] != "queued";
    let rows: Vec<_> = seen.iter().filter(of_theirs).map(row).collect();
    let told = |change: &str| (json!(change), json!("far"), Value::Null);
    assert_eq!(rows, ["created", "started", "finished", "ended"].map(told), "{seen:?}");
    let of_ours = |it: &&Value| it["session_id"] == ours && it["topic"] == "session";
    assert_eq!(seen.iter().filter(of_ours).count(), 1, "{seen:?}");

    // Daemons that follow each other ask for their own changes only.
    let local = near.connect().ok(m::SessionCreate::NAME, json!({}));
    assert_eq!(own_changes.event(own).data["session_id"], local["session_id"]);
}
