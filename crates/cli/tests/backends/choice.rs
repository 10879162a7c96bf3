//! Which runtime a session gets, through a real daemon with runtimes in its config file.

use std::time::Duration;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, GUARD, wait_until};

/// Nobody listens on port 1.
const CONFIG: &str = r#"
[runtimes.away]
kind = "ssh"
host = "nobody@127.0.0.1:1"
labels = ["far"]
max_sessions = 3
"#;

fn configured() -> Daemon {
    let daemon = Daemon::builder(trl_testkit::trl!()).env("TRL_HOST_PROGRAM", "/bin/true").prepare();
    let dir = daemon.home().join("config");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.toml"), CONFIG).unwrap();
    daemon.started()
}

fn away(daemon: &Daemon) -> Value {
    let found = daemon.connect().ok(m::SystemRuntimes::NAME, json!({}));
    let all = found["runtimes"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|it| it["name"] == "away").unwrap_or_default()
}

#[test]
fn what_cannot_be_reached_is_told_and_holds_nobody_up() {
    let daemon = configured();
    let asked = std::time::Instant::now();
    let first = away(&daemon);
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!(
        (&first["kind"], &first["labels"], &first["max_sessions"]),
        (&json!("ssh"), &json!(["far"]), &json!(3))
    );
    let mut seen = Value::Null;
    wait_until("it is found out of reach", GUARD, || {
        seen = away(&daemon);
        seen["state"] == "unreachable"
    });
    assert!(seen["reason"].as_str().is_some_and(|reason| reason.contains("127.0.0.1")), "{seen}");
    assert!(seen["since"].as_str().is_some_and(|since| since.contains('T')), "{seen}");
    let shown = daemon.trl(&["runtimes"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("local") && text.contains("unreachable"), "{text}");
    for said in ["KIND", "ssh", "bash", "none", "0.0ms", "far"] {
        assert!(text.contains(said), "{said}: {text}");
    }

    let mut connection = daemon.connect();
    connection.fails(m::SessionCreate::NAME, json!({"runtime": "away"}), "RUNTIME_UNAVAILABLE");
    let message =
        connection.fails(m::SessionCreate::NAME, json!({"runtime": "label:far"}), "RUNTIME_UNAVAILABLE");
    assert!(message.contains("away"), "{message}");
    assert_eq!(connection.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
}

#[test]
fn names_labels_and_any() {
    let daemon = configured();
    let mut connection = daemon.connect();
    for (asked, said) in [("awya", "\"away\""), ("label:gpu", "far"), ("nonsense", "container:IMAGE")] {
        let message =
            connection.fails(m::SessionCreate::NAME, json!({"runtime": asked}), "RUNTIME_NOT_FOUND");
        assert!(message.contains(said), "{asked}: {message}");
    }
    let created = connection.ok(m::SessionCreate::NAME, json!({"runtime": "any"}));
    assert_eq!(created["runtime"], "local", "{created}");
    assert!(created["runtime_reason"].as_str().is_some_and(|reason| reason.contains("room")), "{created}");
    let created = connection.ok(m::SessionCreate::NAME, json!({"runtime": "local", "name": "here"}));
    assert_eq!((&created["runtime"], &created["runtime_reason"]), (&json!("local"), &json!(null)));
    assert_eq!(connection.ok(m::SessionInfo::NAME, json!({"session_id": "here"}))["runtime"], "local");
    let ran = daemon.trl(&["run", "--on", "any", "echo $TRL_SESSION_NAME"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "on-any\n", "{ran:?}");
    let refused = daemon.trl(&["run", "--on", "awya", "true"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("trl runtimes"), "{refused:?}");
}

/// A client without its daemon has no images and no containers; that is not what is wrong.
#[test]
fn an_engine_that_does_not_work_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let engine = dir.path().join("docker");
    let said = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.";
    std::fs::write(&engine, format!("#!/bin/sh\necho '{said}' >&2\nexit 1\n")).unwrap();
    std::fs::set_permissions(&engine, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let daemon = Daemon::builder(trl_testkit::trl!()).env("TRL_CONTAINER_ENGINE", engine).start();
    for runtime in ["container:debian:12", "container:@web"] {
        let message = daemon.connect().fails(
            m::SessionCreate::NAME,
            json!({"runtime": runtime}),
            "RUNTIME_UNAVAILABLE",
        );
        assert!(message.contains(said) && message.contains("TRL_CONTAINER_ENGINE"), "{runtime}: {message}");
    }
    let mut connection = daemon.connect();
    assert_eq!(connection.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    // What was tried in vain is not offered to anyone.
    let found = connection.ok(m::SystemRuntimes::NAME, json!({}))["runtimes"].clone();
    let names: Vec<_> = found.as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["local"]);
}
