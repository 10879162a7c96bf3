//! `session.rename`: the name that a session is found by, whatever dies meanwhile.

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, GUARD, Session, Shell, daemon, wait_until};

fn rename(session: &mut Session, name: &str) -> Value {
    let params = session.params(json!({"name": name}));
    session.connection.ok(m::SessionRename::NAME, params)
}

/// What `session.info` says of the session with this name.
fn named(daemon: &Daemon, name: &str) -> Value {
    daemon.connect().ok(m::SessionInfo::NAME, json!({"session_id": name}))
}

#[test]
fn a_new_name_takes_the_place_of_the_old_one() {
    let daemon = daemon!();
    let mut watcher = daemon.connect();
    let watch = watcher.begin(m::EventsSubscribe::NAME, json!({"topics": ["session"]}));
    assert_eq!(watcher.event(watch).name, "subscribed");
    let mut session = daemon.session_with(Shell::Sh, json!({"name": "old"}));
    assert_eq!(watcher.event(watch).data["name"], "old");
    let expected = json!({"session_id": session.id, "name": "new"});
    assert_eq!(
        session.connection.ok(m::SessionRename::NAME, json!({"session_id": "old", "name": "new"})),
        expected
    );
    let renamed = watcher.event(watch).data;
    assert_eq!((&renamed["change"], &renamed["name"]), (&json!("renamed"), &json!("new")), "{renamed}");
    assert_eq!(named(&daemon, "new")["session_id"], session.id);
    assert_eq!(session.connection.ok(m::SessionList::NAME, json!({}))["sessions"][0]["name"], "new");
    session.connection.fails(m::SessionInfo::NAME, json!({"session_id": "old"}), "SESSION_NOT_FOUND");
    // To its own name, and from none.
    assert_eq!(rename(&mut session, "new"), expected);
    let mut other = daemon.session_with(Shell::Sh, json!({"name": "old"}));
    for taken in ["new", "old"] {
        let id = if taken == "new" { &other.id } else { &session.id };
        daemon.connect().fails(
            m::SessionRename::NAME,
            json!({"session_id": id, "name": taken}),
            "NAME_TAKEN",
        );
    }
    for bad in ["", "a b", "..", "s-01234567", &"x".repeat(65)] {
        let params = other.params(json!({"name": bad}));
        other.connection.fails(m::SessionRename::NAME, params, "INVALID_PARAMS");
    }
    assert_eq!(
        (&named(&daemon, "old")["name"], &named(&daemon, "new")["name"]),
        (&json!("old"), &json!("new"))
    );
    let mut unnamed = daemon.session(Shell::Sh);
    rename(&mut unnamed, "third");
    unnamed.destroy();
    rename(&mut other, "third");
    assert_eq!(named(&daemon, "third")["session_id"], other.id);
}

#[test]
fn a_new_name_survives_the_daemon_and_the_host() {
    let mut daemon = daemon!();
    let mut session = daemon.session_with(Shell::Sh, json!({"name": "first"}));
    rename(&mut session, "second");
    daemon.kill9();
    daemon.restart();
    session.connection = daemon.connect();
    assert_eq!(named(&daemon, "second")["state"], "idle");
    rename(&mut session, "third");
    session.kill_host();
    wait_until("the loss is noticed", GUARD, || session.info()["state"] == "lost");
    session.connection.fails(
        m::SessionRename::NAME,
        json!({"session_id": "third", "name": "x"}),
        "SESSION_TERMINATED",
    );
    daemon.kill9();
    daemon.restart();
    session.connection = daemon.connect();
    assert_eq!(named(&daemon, "third")["state"], "lost");
    session.connection.ok(m::SessionRestart::NAME, json!({"session_id": "third"}));
    assert_eq!(named(&daemon, "third")["session_id"], session.id);
    session.connection.fails(m::SessionInfo::NAME, json!({"session_id": "first"}), "SESSION_NOT_FOUND");
}

#[test]
fn people_rename_too() {
    let daemon = daemon!();
    let session = daemon.session_with(Shell::Sh, json!({"name": "old"}));
    let renamed = daemon.trl(&["rename", "old", "new"]);
    assert!(renamed.status.success(), "{renamed:?}");
    assert_eq!(String::from_utf8_lossy(&renamed.stdout), format!("{}\n", session.id));
    assert_eq!(named(&daemon, "new")["session_id"], session.id);
}
