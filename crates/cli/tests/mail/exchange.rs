//! Mail between agents of one daemon: over the socket, and as people use it.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::os::unix::fs::PermissionsExt as _;
use std::process::{Output, Stdio};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Connection, Daemon, GUARD, Shell, daemon, wait_until};

/// A connection that speaks for an agent made for it.
fn agent(daemon: &Daemon, name: &str) -> Connection {
    daemon.connect().ok(m::AgentCreate::NAME, json!({ "name": name }));
    using(daemon, json!({ "agent": name }))
}

fn using(daemon: &Daemon, params: Value) -> Connection {
    let mut connection = daemon.connect();
    connection.ok(m::AgentUse::NAME, params);
    connection
}

fn take(connection: &mut Connection) -> Value {
    let inbox = connection.ok(m::MailInbox::NAME, json!({"wait_s": 20.0}));
    inbox["messages"][0].clone()
}

fn text(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap().trim_end()
}

fn printed(daemon: &Daemon, arguments: &[&str]) -> Value {
    let output = daemon.trl(arguments);
    serde_json::from_str(text(&output)).unwrap()
}

#[test]
fn two_agents_write_to_each_other_and_a_reply_finds_the_session_that_asked() {
    let daemon = daemon!();
    let mut alice = agent(&daemon, "alice");
    let mut second = using(&daemon, json!({"agent": "alice"}));
    let mut bob = agent(&daemon, "bob");
    let sent = second.ok(m::MailSend::NAME, json!({"to": "bob", "text": "from the second"}));
    let asked = take(&mut bob);
    assert_eq!((&asked["text"], &asked["from"]), (&json!("from the second"), &json!("alice")));
    assert_eq!(asked["from_session"], "claude:2");
    bob.ok(m::MailReply::NAME, json!({"message_id": asked["message_id"], "text": "back to the second"}));
    let answer = take(&mut second);
    assert_eq!(answer["text"], "back to the second");
    assert_eq!(answer["in_reply_to"], sent["message_id"]);
    assert_eq!(alice.ok(m::MailInbox::NAME, json!({}))["messages"], json!([]));
    bob.ok(m::MailSend::NAME, json!({"to": "alice/claude:1", "text": "to the first"}));
    assert_eq!(take(&mut alice)["text"], "to the first");
}

#[test]
fn waiting_for_a_reply_holds_nobody_up() {
    let daemon = daemon!();
    let mut alice = agent(&daemon, "alice");
    let mut bob = agent(&daemon, "bob");
    let waiting =
        alice.begin(m::MailSendAndWait::NAME, json!({"to": "bob", "text": "well?", "timeout_s": 60.0}));
    alice.ok(m::SystemPing::NAME, json!({}));
    let asked = take(&mut bob);
    bob.ok(m::MailReply::NAME, json!({"message_id": asked["message_id"], "text": "well."}));
    let heard = alice.finish(waiting).result.unwrap();
    assert_eq!((&heard["reply"]["text"], &heard["timed_out"]), (&json!("well."), &json!(false)));
}

#[test]
fn a_subscription_tells_ids_and_no_text_and_ends_with_the_daemon() {
    let mut daemon = daemon!();
    let mut alice = agent(&daemon, "alice");
    let mut bob = agent(&daemon, "bob");
    let listening = bob.begin(m::MailSubscribe::NAME, json!({}));
    alice.ok(m::MailSend::NAME, json!({"to": "bob", "text": "secret"}));
    let event = bob.event(listening);
    assert_eq!((event.name.as_str(), &event.data["count"]), ("mail", &json!(1)));
    assert!(!event.data.to_string().contains("secret"));
    let taken = take(&mut bob);
    assert_eq!(event.data["ids"], json!([taken["message_id"]]));
    assert!(daemon.terminate().success());
    assert_eq!(bob.finish(listening).result.unwrap(), json!({"events": 1}));
    assert!(!daemon.log().contains("looks after it"), "{}", daemon.log());
}

#[test]
fn a_session_is_there_as_long_as_its_connection() {
    let daemon = daemon!();
    let alice = agent(&daemon, "alice");
    let mut other = daemon.connect();
    let labels = |other: &mut Connection| {
        other.ok(m::AgentList::NAME, json!({}))["agents"][0]["live_sessions"].clone()
    };
    assert_eq!(labels(&mut other), json!(["claude:1"]));
    drop(alice);
    wait_until("the session is gone", GUARD, || labels(&mut other) == json!([]));
}

#[test]
fn a_killed_daemon_loses_no_mail() {
    let mut daemon = daemon!();
    let mut alice = agent(&daemon, "alice");
    drop(agent(&daemon, "bob"));
    for number in 0..5 {
        alice.ok(m::MailSend::NAME, json!({"to": "bob", "text": number.to_string()}));
    }
    daemon.restart();
    let mut bob = using(&daemon, json!({"agent": "bob"}));
    let mut texts = Vec::new();
    while texts.len() < 5 {
        let inbox = bob.ok(m::MailInbox::NAME, json!({"wait_s": 20.0}));
        let messages = inbox["messages"].as_array().unwrap().clone();
        assert!(!messages.is_empty(), "only {texts:?} came");
        texts.extend(messages.iter().map(|message| message["text"].as_str().unwrap().to_owned()));
    }
    assert_eq!(texts, ["0", "1", "2", "3", "4"]);
}

#[test]
fn an_unknown_recipient_is_told_with_the_nearest_name() {
    let daemon = daemon!();
    let mut alice = agent(&daemon, "alice");
    alice.fails(m::AgentUse::NAME, json!({"agent": "alcie"}), "AGENT_NOT_FOUND");
    let said = alice.fails(m::MailSend::NAME, json!({"to": "alcie", "text": "x"}), "AGENT_NOT_FOUND");
    assert!(said.contains("`alice`"), "{said}");
    let said = daemon.connect().fails(m::MailInbox::NAME, json!({}), "AUTH_FAILED");
    assert!(said.contains("agent.use"), "{said}");
}

#[test]
fn mail_is_private_and_absent_until_it_is_asked_for() {
    let daemon = daemon!();
    let dir = daemon.home().join("state/mail");
    daemon.connect().ok(m::SystemInfo::NAME, json!({}));
    assert!(!dir.exists());
    daemon.connect().ok(m::AgentList::NAME, json!({}));
    assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_store_that_cannot_be_opened_harms_no_session() {
    let daemon = daemon!();
    let dir = daemon.home().join("state/mail");
    std::fs::write(&dir, "no directory").unwrap();
    let said = daemon.connect().fails(m::AgentList::NAME, json!({}), "INTERNAL_ERROR");
    assert!(said.contains("mail cannot be opened") && said.contains("state/mail"), "{said}");
    daemon.session(Shell::Bash).run("echo fine").exits(0).prints("fine\n", "");
    std::fs::remove_file(&dir).unwrap();
    daemon.connect().ok(m::AgentList::NAME, json!({}));
}

#[test]
fn a_second_daemon_on_the_same_state_is_refused_by_name() {
    let daemon = daemon!();
    daemon.connect().ok(m::AgentList::NAME, json!({}));
    let mut command = daemon.command();
    let mut other = command
        .args(["serve", "--stdin"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = other.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"{\"id\":1,\"method\":\"agent.list\"}\n").unwrap();
    drop(stdin);
    let output = other.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["error"]["code"], "INTERNAL_ERROR", "{answer}");
    assert!(answer.to_string().contains(&daemon.pid().to_string()), "{answer}");
}

#[test]
fn people_write_read_and_answer() {
    let daemon = daemon!();
    let address = daemon.trl(&["agent", "create", "alice"]);
    assert!(!text(&address).is_empty());
    text(&daemon.trl(&["agent", "create", "bob"]));
    let sent = printed(&daemon, &["send", "--as", "alice", "--json", "bob", "hello"]);
    let peeked = printed(&daemon, &["inbox", "--as", "bob", "--peek", "--wait", "20", "--json"]);
    assert_eq!(peeked["messages"][0]["text"], "hello");
    let shown = daemon.trl(&["inbox", "--as", "bob", "--wait", "20"]);
    assert!(text(&shown).contains("from alice/cli:1") && text(&shown).contains("\n    hello"), "{shown:?}");
    assert_eq!(printed(&daemon, &["inbox", "--as", "bob", "--json"])["messages"], json!([]));

    let id = peeked["messages"][0]["message_id"].as_str().unwrap();
    let reply = daemon.trl_reading(&["reply", "--as", "bob", id, "-"], b"two\nlines\n");
    text(&reply);
    let answer = printed(&daemon, &["inbox", "--as", "alice", "--wait", "20", "--json"]);
    assert_eq!(answer["messages"][0]["text"], "two\nlines");
    assert_eq!(answer["messages"][0]["in_reply_to"], sent["message_id"]);

    let several = daemon.trl(&["inbox"]);
    assert_eq!(several.status.code(), Some(64));
    let listed = printed(&daemon, &["agent", "list", "--json"]);
    assert_eq!(listed["agents"].as_array().unwrap().len(), 2);
    let blocked = daemon.trl(&["contacts", "--as", "bob", "block", "alice"]);
    assert_eq!(text(&blocked), "alice blocked");
    let unknown = daemon.trl(&["send", "--as", "alice", "bobb", "x"]);
    assert_eq!(unknown.status.code(), Some(67));
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("`bob`"), "{unknown:?}");
}

#[test]
fn people_wait_for_a_reply() {
    let daemon = daemon!();
    let mut bob = agent(&daemon, "bob");
    text(&daemon.trl(&["agent", "create", "alice"]));
    let mut command = daemon.client();
    let asking = command
        .env("TRL_AGENT", "alice")
        .args(["send", "--wait", "60", "bob", "well?"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let asked = take(&mut bob);
    bob.ok(m::MailReply::NAME, json!({"message_id": asked["message_id"], "text": "well."}));
    let heard = asking.wait_with_output().unwrap();
    assert!(text(&heard).ends_with("\n    well."), "{heard:?}");
    let late = daemon.trl(&["send", "--as", "alice", "--wait", "0.05", "bob", "again?"]);
    assert_eq!(late.status.code(), Some(124), "{late:?}");
}

/// Whoever waits does not notice that the daemon is replaced, and never sends twice.
#[test]
fn waiting_for_a_reply_outlives_the_daemon() {
    let mut daemon = daemon!();
    text(&daemon.trl(&["agent", "create", "alice"]));
    text(&daemon.trl(&["agent", "create", "bob"]));
    for planned in [true, false] {
        let mut command = daemon.client();
        let asking = command
            .env("TRL_AGENT", "alice")
            .args(["--no-start", "send", "--wait", "60", "bob", "well?"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut bob = daemon.connect();
        bob.ok(m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "h"}));
        wait_until("the message is there", GUARD, || {
            bob.ok(m::MailInbox::NAME, json!({"peek": true}))["messages"] != json!([])
        });
        if planned {
            daemon.terminate();
        }
        daemon.restart();
        let mut bob = daemon.connect();
        bob.ok(m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "h"}));
        let asked = take(&mut bob);
        bob.ok(m::MailReply::NAME, json!({"message_id": asked["message_id"], "text": "well."}));
        let heard = asking.wait_with_output().unwrap();
        assert!(text(&heard).ends_with("\n    well."), "{heard:?}");
        assert_eq!(bob.ok(m::MailInbox::NAME, json!({}))["messages"], json!([]), "it was sent once");
    }
}

/// Two of the recorded pairs; all of them are held against the library itself.
#[test]
fn envelopes_are_put_together_and_taken_apart() {
    let vectors = include_str!("../../../mail/tests/fixtures/envelope-vectors.json");
    let vectors: Value = serde_json::from_str(vectors).unwrap();
    let daemon = Daemon::builder(trl_testkit::trl!()).prepare();
    for row in &vectors["encode"].as_array().unwrap()[..2] {
        let given = &row["input"];
        let mut input = json!({
            "agent_address": given["agentAddress"], "from_session": given["fromSession"],
            "to_session": given["toSession"], "in_reply_to": given["inReplyTo"], "role": given["role"],
            "text": given["text"], "message_id": given["messageId"], "cwd": given["cwd"],
            "harness_session_id": given["harnessSessionId"], "now": "2026-01-02T03:04:05.678Z",
        });
        if given["auto"] == true {
            input["auto"] = json!(true);
        }
        let body = daemon.trl_reading(&["envelope", "encode"], input.to_string().as_bytes());
        assert_eq!(std::str::from_utf8(&body.stdout).unwrap(), row["body"].as_str().unwrap());
        let decoded = daemon.trl_reading(&["envelope", "decode"], &body.stdout);
        let decoded: Value = serde_json::from_slice(&decoded.stdout).unwrap();
        assert_eq!(decoded["message_id"], row["decoded"]["messageId"]);
        assert_eq!((&decoded["text"], &decoded["envelope"]), (&given["text"], &json!(true)));
    }
}

/// The daemon dies at some moment of a send, before or after it has stored the message. Its client asks again
/// with the same id, and the message is there once.
#[test]
fn a_send_that_a_dying_daemon_interrupted_is_repeated_and_arrives_once() {
    let mut daemon = daemon!();
    agent(&daemon, "alice");
    agent(&daemon, "bob");
    let as_alice = json!({"agent": "alice", "harness_session_id": "a"});
    const ROUNDS: u64 = 8;
    for round in 0..ROUNDS {
        let letter = json!({"to": "bob", "text": round.to_string(), "send_id": format!("round-{round}")});
        let mut alice = using(&daemon, as_alice.clone());
        alice.begin(m::MailSend::NAME, letter.clone());
        // Later in each round, so that some die before it is stored and some after.
        std::thread::park_timeout(std::time::Duration::from_millis(round * 2));
        daemon.kill9();
        daemon.restart();
        let mut alice = using(&daemon, as_alice.clone());
        let first = alice.ok(m::MailSend::NAME, letter.clone());
        assert_eq!(alice.ok(m::MailSend::NAME, letter)["message_id"], first["message_id"]);
    }
    let mut bob = using(&daemon, json!({"agent": "bob", "harness_session_id": "b"}));
    let mut texts = Vec::new();
    while texts.len() < ROUNDS as usize {
        let inbox = bob.ok(m::MailInbox::NAME, json!({"wait_s": 20.0}));
        let found = inbox["messages"].as_array().unwrap();
        assert!(!found.is_empty(), "only {texts:?} came");
        texts.extend(found.iter().map(|message| message["text"].as_str().unwrap().to_owned()));
    }
    assert_eq!(texts, (0..ROUNDS).map(|round| round.to_string()).collect::<Vec<_>>());
    assert_eq!(bob.ok(m::MailInbox::NAME, json!({"wait_s": 0.3}))["messages"], json!([]));
    // The command line takes such an id as well.
    let again = |text: &str| daemon.trl(&["send", "--as", "alice", "--send-id", "mine", "bob", text]);
    let first = again("by hand");
    assert_eq!(text(&again("by hand")), text(&first));
    assert!(!again("something else").status.success());
}
