//! One list of sessions, with those on other daemons.

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::Daemon;

use super::remote::{Pair, TOKEN, create, far_daemon, pair, prints, write_private};

#[test]
fn sessions_that_others_made_there_are_listed_and_used_by_their_id() {
    let Pair { far, proxy: _proxy, mut near } = pair();
    let mut there = far.connect();
    let made = there.ok(m::SessionCreate::NAME, json!({"name": "default", "shell": "bash"}));
    let id = made["session_id"].as_str().unwrap().to_owned();
    prints(&mut there, "default", "x=theirs", "");
    let mut here = near.connect();
    create(&mut here, "ours");
    let listed = here.ok(m::SessionList::NAME, json!({}))["sessions"].clone();
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
    here.ok(m::SessionList::NAME, json!({}));
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
        let listed = connection.ok(m::SessionList::NAME, json!({}))["sessions"].clone();
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
