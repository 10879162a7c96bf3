//! Which scope each request needs, over every way that a token can come in.
//!
//! The table is written by hand, apart from the code that it checks: a new method fails here until
//! somebody has decided who may use it.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use trl_protocol::METHODS;
use trl_testkit::{Daemon, Http, WebSocket, every, trl};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Read,
    Run,
    Admin,
}
use Scope::{Admin, Read, Run};

const TOKENS: [(Scope, &str); 3] =
    [(Read, "look-only-0123456789"), (Run, "work-0123456789abcdef"), (Admin, "rule-0123456789abcdef")];

fn served() -> Daemon {
    let daemon =
        Daemon::builder(trl!()).arg("--http").arg("127.0.0.1:0").arg("--tokens").arg("tokens").prepare();
    let file = daemon.work().join("tokens");
    let lines =
        TOKENS.map(|(scope, token)| format!("{scope:?} {} {token}\n", format!("{scope:?}").to_lowercase()));
    std::fs::write(&file, lines.concat()).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    daemon.started()
}

fn with(daemon: &Daemon, scope: Scope) -> Http {
    let (_, token) = TOKENS.iter().find(|(known, _)| *known == scope).unwrap();
    Http { token: (*token).to_owned(), ..daemon.http() }
}

/// Each method with params that can be read, and what it needs. Nothing that they name exists.
fn table() -> Vec<(&'static str, Value, Scope)> {
    let (session, exec) = (json!({"session_id": "none"}), json!({"exec_id": "e-00000001-1"}));
    let command = json!({"session_id": "none", "command": "true"});
    let with = |base: &Value, more: Value| {
        let mut params = base.clone();
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        params
    };
    let message = json!({"message_id": "none"});
    let who = json!({"who": "nobody"});
    let size = json!({"rows": 20, "cols": 80});
    vec![
        ("session.create", json!({"shell": "no-such-shell"}), Run),
        ("session.list", json!({}), Read),
        ("session.info", session.clone(), Read),
        ("session.destroy", session.clone(), Run),
        ("session.restart", session.clone(), Run),
        ("session.fork", session.clone(), Run),
        ("session.rename", with(&session, json!({"name": "other"})), Run),
        ("session.bind", session.clone(), Run),
        ("session.attach", session.clone(), Run),
        ("session.attach", with(&session, json!({"read_only": false})), Run),
        ("session.attach", with(&session, json!({"read_only": true})), Read),
        ("session.input", with(&session, json!({"data": "x"})), Run),
        ("session.resize", with(&session, size.clone()), Run),
        ("exec.run", command.clone(), Run),
        ("exec.stream", command.clone(), Run),
        ("exec.start", command, Run),
        ("exec.attach", exec.clone(), Read),
        ("exec.output", with(&exec, json!({"stream": "stdout"})), Read),
        ("exec.write", with(&exec, json!({"data": "x"})), Run),
        ("exec.resize", with(&exec, size), Run),
        ("exec.screen", exec.clone(), Read),
        ("exec.cancel", exec.clone(), Run),
        ("exec.bind", exec.clone(), Run),
        ("exec.wait", exec.clone(), Read),
        ("exec.wait", with(&exec, json!({"until": {"log": {"pattern": "x"}}})), Read),
        ("exec.wait", with(&exec, json!({"until": {"port": {"port": 1}}})), Run),
        ("exec.list", json!({}), Read),
        ("exec.info", exec, Read),
        ("file.read", with(&session, json!({"path": "x"})), Run),
        ("file.write", with(&session, json!({"path": "x", "content": ""})), Run),
        ("file.edit", with(&session, json!({"path": "x", "old": "a", "new": "b"})), Run),
        ("file.list", session.clone(), Run),
        ("file.stat", with(&session, json!({"path": "x"})), Run),
        ("file.move", with(&session, json!({"from": "x", "to": "y"})), Run),
        ("file.remove", with(&session, json!({"path": "x"})), Run),
        ("file.make_dir", with(&session, json!({"path": "x"})), Run),
        ("system.ping", json!({}), Read),
        ("system.stats", json!({}), Read),
        ("system.info", json!({}), Read),
        ("system.runtimes", json!({}), Read),
        ("events.subscribe", json!({}), Read),
        ("agent.create", json!({"name": "not a name!"}), Run),
        ("agent.list", json!({}), Read),
        ("agent.use", json!({"agent": "nobody"}), Run),
        ("agent.whoami", json!({}), Run),
        ("agent.sessions", json!({}), Run),
        ("agent.heartbeat", json!({}), Run),
        ("agent.release", json!({}), Run),
        ("agent.assign", json!({"agent": "nobody"}), Run),
        ("agent.unassign", json!({}), Run),
        ("agent.assignments", json!({}), Run),
        ("mail.send", json!({"to": "nobody", "text": "x"}), Run),
        ("mail.status", message.clone(), Run),
        ("mail.inbox", json!({}), Run),
        ("mail.check_reply", message.clone(), Run),
        ("mail.await_reply", with(&message, json!({"timeout_s": 0})), Run),
        ("mail.send_and_wait", json!({"to": "nobody", "text": "x", "timeout_s": 0}), Run),
        ("mail.reply", with(&message, json!({"text": "x"})), Run),
        ("mail.subscribe", json!({}), Run),
        ("mail.notices", json!({}), Run),
        ("mail.held", json!({}), Run),
        ("mail.dead_letters", json!({}), Run),
        ("mail.autorespond", json!({"status": true}), Run),
        ("mail.reset", who.clone(), Run),
        ("contact.request", who.clone(), Run),
        ("contact.accept", who.clone(), Run),
        ("contact.decline", who.clone(), Run),
        ("contact.block", who, Run),
        ("contact.list", json!({}), Run),
        ("contact.presence", json!({}), Run),
        ("system.shutdown", json!({}), Admin),
        ("runtime.grant", json!({"agent": "nobody"}), Admin),
        ("runtime.revoke", json!({"grant_id": "none"}), Admin),
        ("runtime.grants", json!({}), Admin),
    ]
}

#[test]
fn each_method_has_a_row() {
    let rows = table();
    let missing: Vec<_> = METHODS
        .iter()
        .map(|method| method.name)
        .filter(|method| !rows.iter().any(|(name, ..)| name == method))
        .collect();
    assert!(missing.is_empty(), "decide who may use these, and add rows: {missing:?}");
}

#[test]
fn a_request_beyond_the_scope_is_refused_over_http_events_and_websocket() {
    let daemon = served();
    let ways = TOKENS.map(|(scope, _)| {
        let http = with(&daemon, scope);
        (scope, http.clone(), WebSocket::open(&http))
    });
    for (has, http, mut socket) in ways {
        every(table(), |(method, params, needs)| {
            let body = json!({"id": 1, "method": method, "params": params}).to_string();
            // Mail refuses with the same code whoever speaks for no agent.
            let is_refused = |answer: &Value| {
                let error = &answer["error"];
                error["code"] == "AUTH_FAILED"
                    && error["message"].as_str().unwrap().contains("needs the scope")
            };
            if has < *needs {
                for headers in [&[][..], &[("Accept", "text/event-stream")]] {
                    let answer = http.ask("POST", "/v1/rpc", headers, body.as_bytes());
                    assert_eq!(answer.status, 403, "{has:?} {method} {headers:?}: {answer:?}");
                    assert!(is_refused(&answer.json()), "{}", answer.text());
                    assert!(
                        answer.text().contains(&format!("{needs:?}").to_lowercase()),
                        "{}",
                        answer.text()
                    );
                }
                let answer = socket.call(method, params.clone());
                assert!(is_refused(&answer), "{has:?} {method} over a WebSocket: {answer}");
            } else if *method != "system.shutdown" {
                // Without events: what never ends is refused for that reason, and not as beyond the scope.
                let answer = http.ask("POST", "/v1/rpc", &[], body.as_bytes()).json();
                assert!(!is_refused(&answer), "{has:?} {method}: {answer}");
            }
        });
        // What is refused does not end the connection.
        assert_eq!(socket.call("system.ping", json!({}))["ok"], true, "{has:?}");
    }
}

#[test]
fn who_may_look_can_neither_type_nor_try_ports() {
    let daemon = served();
    let (look, work) = (with(&daemon, Read), with(&daemon, Run));
    work.ok("session.create", json!({"name": "x", "shell": "bash"}));
    let started = work.ok("exec.start", json!({"session_id": "x", "command": "read line; echo got $line"}));
    let exec = &started["exec_id"];
    for (method, params) in [
        ("exec.write", json!({"exec_id": exec, "data": "typed\n"})),
        ("exec.cancel", json!({"exec_id": exec})),
        ("exec.wait", json!({"exec_id": exec, "until": {"port": {"port": look.address.port()}}})),
    ] {
        assert_eq!(look.call(method, params.clone()).status, 403, "{method}");
        assert_eq!(WebSocket::open(&look).call(method, params)["error"]["code"], "AUTH_FAILED", "{method}");
    }
    assert_eq!(look.ok("exec.info", json!({"exec_id": exec}))["state"], "running", "nothing was typed");
    work.ok("exec.write", json!({"exec_id": exec, "data": "typed\n"}));
    look.ok("exec.wait", json!({"exec_id": exec, "timeout_s": 20}));
    assert_eq!(look.ok("exec.output", json!({"exec_id": exec, "stream": "stdout"}))["text"], "got typed\n");
}

#[test]
fn who_may_only_run_does_not_end_the_daemon() {
    let mut daemon = served();
    for scope in [Read, Run] {
        let http = with(&daemon, scope);
        assert_eq!(http.call("system.shutdown", json!({})).status, 403);
        assert_eq!(WebSocket::open(&http).call("system.shutdown", json!({}))["error"]["code"], "AUTH_FAILED");
    }
    assert_eq!(with(&daemon, Admin).call("system.shutdown", json!({})).status, 200);
    assert!(daemon.wait_end().success());
}
