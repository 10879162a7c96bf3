//! A daemon that is killed while a verb of mail waits for it.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, daemon, process};

fn with_agents() -> Daemon {
    let daemon = daemon!();
    for name in ["alice", "bob"] {
        daemon.connect().ok(m::AgentCreate::NAME, json!({ "name": name }));
    }
    daemon
}

fn spawned(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// It is not known whether the agent was claimed, and claiming it again does no harm.
#[test]
fn a_send_is_repeated_when_the_daemon_is_killed_before_it_answers() {
    let mut daemon = with_agents();
    daemon.kill9();
    let socket = daemon.socket();
    std::fs::remove_file(&socket).unwrap();
    // A daemon that reads the first request and is gone.
    let dying = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600)).unwrap();
    let sending = spawned(daemon.client().args(["--no-start", "send", "--as", "alice", "bob", "hello"]));
    // Looking whether a daemon listens is a connection as well, on which nothing is asked.
    let mut request = String::new();
    while request.is_empty() {
        let (connection, _) = dying.accept().unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let _nothing_asked = BufReader::new(connection).read_line(&mut request);
    }
    assert!(request.contains(m::AgentUse::NAME), "{request}");
    drop(dying);
    daemon.restart();
    let sent = sending.wait_with_output().unwrap();
    assert!(sent.status.success(), "{sent:?}");
    let mut bob = daemon.connect();
    bob.ok(m::AgentUse::NAME, json!({"agent": "bob"}));
    assert_eq!(bob.ok(m::MailInbox::NAME, json!({"wait_s": 20.0}))["messages"][0]["text"], "hello");
}

/// What was printed is marked as read by the next daemon, and nothing else is printed.
#[test]
fn an_inbox_that_was_printed_is_acknowledged_to_the_next_daemon() {
    let mut daemon = with_agents();
    let mut alice = daemon.connect();
    alice.ok(m::AgentUse::NAME, json!({"agent": "alice"}));
    // Longer than a pipe holds, so that it is printed while this test looks.
    alice.ok(m::MailSend::NAME, json!({"to": "bob", "text": "x".repeat(200_000)}));
    let mut reading =
        spawned(daemon.client().args(["--no-start", "--json", "inbox", "--as", "bob", "--wait", "20"]));
    let mut stdout = BufReader::new(reading.stdout.take().unwrap());
    let mut first = [0];
    stdout.read_exact(&mut first).unwrap();
    process::signal(daemon.pid(), process::Signal::STOP);
    let mut rest = Vec::new();
    let printed =
        std::thread::spawn(move || stdout.read_to_end(&mut rest).map(|_| [&first[..], &rest].concat()));
    daemon.restart();
    let printed = printed.join().unwrap().unwrap();
    let ended = reading.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    let inbox: Value = serde_json::from_slice(&printed).expect("one document");
    assert_eq!(inbox["messages"].as_array().unwrap().len(), 1);
    let again = daemon.trl(&["--json", "inbox", "--as", "bob"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["messages"], json!([]));
}
