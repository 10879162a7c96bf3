//! Sessions under a grant, for the daemon of whoever was granted it: how they begin, and how they end with the grant.

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, GUARD, wait_until};

use super::remote::{state_dir, write_private};
use crate::http::grants::Granter;

/// A daemon whose agent was granted the runtime `bobs`. What the mail would have brought is written by hand.
fn grantee(granter: &Granter) -> (Daemon, String) {
    let (id, _) = granter.grant(json!({}));
    let near = Daemon::builder(trl_testkit::trl!()).start();
    let grant = granter.arrived(&id).to_string();
    write_private(&state_dir(&near).join("runtimes/bobs.json"), &grant);
    near.connect().ok(m::SessionCreate::NAME, json!({"name": "s", "runtime": "bobs"}));
    (near, id)
}

fn sessions(daemon: &Daemon) -> Value {
    daemon.connect().ok(m::SessionList::NAME, json!({}))["sessions"].clone()
}

#[test]
fn a_revoked_grant_ends_its_sessions_here_with_the_reason() {
    let granter = Granter::start();
    let (mut near, id) = grantee(&granter);
    let mut changes = near.connect();
    let subscribed = changes.begin(m::EventsSubscribe::NAME, json!({"topics": ["session"]}));
    assert_eq!(changes.event(subscribed).name, "subscribed");
    let session = sessions(&near)[0]["session_id"].clone();
    granter.revoke(&id);
    let ended = changes.event(subscribed).data;
    assert_eq!((&ended["change"], &ended["session_id"]), (&json!("ended"), &session), "{ended}");
    let run = json!({"session_id": "s", "command": "true"});
    let message = near.connect().fails(m::ExecRun::NAME, run, "SESSION_TERMINATED");
    for told in [message.as_str(), ended["reason"].as_str().unwrap()] {
        assert!(told.contains("bob") && told.contains(&id) && told.contains("revoked at"), "{told}");
    }
    assert_eq!(sessions(&near), json!([]));
    // Whoever granted it is told as much.
    let message = granter.daemon.connect().fails(
        m::SessionInfo::NAME,
        json!({"session_id": session}),
        "SESSION_TERMINATED",
    );
    assert!(
        message.contains(&id) && message.contains("alice") && message.contains("revoked at"),
        "{message}"
    );
    near.restart();
    assert_eq!(sessions(&near), json!([]));
}

/// The grant ended while no daemon was here to hear of it.
#[test]
fn the_next_daemon_forgets_sessions_whose_grant_is_over() {
    let granter = Granter::start();
    let (mut near, id) = grantee(&granter);
    near.kill9();
    granter.revoke(&id);
    std::fs::remove_file(state_dir(&near).join("runtimes/bobs.json")).unwrap();
    near.restart();
    let run = json!({"session_id": "s", "command": "true"});
    let mut fault = Value::Null;
    wait_until("it is over", GUARD, || {
        fault = near.connect().call(m::ExecRun::NAME, run.clone()).unwrap_err();
        fault["code"] == "SESSION_TERMINATED"
    });
    let by = granter.granter_address();
    assert!(fault["message"].as_str().unwrap().contains(&by), "{fault}");
    assert_eq!(sessions(&near), json!([]));
    let known = state_dir(&near).join("remote");
    let left = std::fs::read_dir(known).into_iter().flatten().flatten();
    assert_eq!(left.filter(|dir| dir.path().join("sessions").read_dir().unwrap().count() > 0).count(), 0);
}

/// Agents of one daemon grant each other access: what is asked of the other daemon is done by this one.
#[test]
fn a_grant_of_the_same_daemon_is_used_by_its_name() {
    let granter = Granter::start();
    let (id, _) = granter.grant(json!({}));
    let daemon = &granter.daemon;
    let mut found = Value::Null;
    wait_until("the grant has arrived by mail", GUARD, || {
        found = daemon.connect().ok(m::SystemRuntimes::NAME, json!({}))["runtimes"].clone();
        found.as_array().is_some_and(|runtimes| runtimes.len() > 1)
    });
    let name = found[1]["name"].as_str().unwrap().to_owned();
    assert!(found[1]["granted_by"].is_string(), "{found}");
    let ran = daemon.trl(&["run", "--on", &name, "x=6; pwd"]);
    assert_eq!((ran.status.code(), ran.stdout.as_slice()), (Some(0), &b"/tmp\n"[..]), "{ran:?}");
    let again = daemon.trl(&["run", "--on", &name, "echo $x"]);
    assert_eq!(again.stdout, b"6\n", "{again:?}");
    let listed = sessions(daemon);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed[0]["isolation"]["requested"]["profile"], "workspace", "{listed}");
    let revoked = granter.revoke(&id);
    assert_eq!(revoked["sessions"], json!([listed[0]["session_id"]]));
    assert_eq!(sessions(daemon), json!([]));
}
