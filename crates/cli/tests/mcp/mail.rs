//! Mail by the tools of `trl mcp`: what counts as read, and when.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use serde_json::{Value, json};
use trl_testkit::{Daemon, daemon};

use super::client::{Mcp, text};

/// Two agents, each with a client that has every tool.
fn ann_and_bob(daemon: &Daemon) -> (Mcp, Mcp) {
    let args = ["--tools", "full"];
    let (mut ann, mut bob) = (Mcp::of(daemon, &args), Mcp::of(daemon, &args));
    ann.call("use", json!({"agent": "ann", "create": true}));
    bob.call("use", json!({"agent": "bob", "create": true}));
    (ann, bob)
}

fn ids(inbox: &Value) -> Vec<String> {
    let messages = inbox["messages"].as_array().unwrap().iter();
    messages.map(|message| message["message_id"].as_str().unwrap().to_owned()).collect()
}

/// Where a message is on its way, as its sender knows it.
fn state(daemon: &Daemon, ann: &str, message_id: &Value) -> String {
    let shown = daemon.trl(&["--json", "sent", "--as", ann, message_id.as_str().unwrap()]);
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    shown["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_message_is_shown_until_it_is_acknowledged() {
    let daemon = daemon!();
    let (mut ann, mut bob) = ann_and_bob(&daemon);
    let sent = ann.fields("send", json!({"to": "bob", "text": "one"}));
    let first = bob.call("inbox", json!({"wait_s": 10}));
    let shown = ids(&first["structuredContent"]);
    assert_eq!(shown.len(), 1);
    // Nobody knows whether the client has kept that result.
    let again = bob.call("inbox", json!({}));
    assert_eq!(ids(&again["structuredContent"]), shown);
    assert_ne!(state(&daemon, "ann", &sent["message_id"]), "read");
    assert!(text(&again).contains(&format!("inbox(ack=[\"{}\"])", shown[0])), "{}", text(&again));
    // A message that came since is not taken for one that was acknowledged.
    ann.call("send", json!({"to": "bob", "text": "two"}));
    let rest = bob.fields("inbox", json!({"ack": shown, "wait_s": 10}));
    assert_eq!(rest["messages"][0]["text"], "two", "{rest}");
    assert_eq!(rest["messages"].as_array().unwrap().len(), 1, "{rest}");
    assert_eq!(state(&daemon, "ann", &sent["message_id"]), "read");
    assert_eq!(bob.fields("inbox", json!({"seen": ids(&rest)}))["messages"], json!([]));
}

#[test]
fn an_answer_acknowledges_what_it_answers() {
    let daemon = daemon!();
    let (mut ann, mut bob) = ann_and_bob(&daemon);
    ann.call("send", json!({"to": "bob", "text": "one"}));
    ann.call("send", json!({"to": "bob", "text": "two"}));
    let mut shown = Vec::new();
    trl_testkit::wait_until("both messages", trl_testkit::GUARD, || {
        shown = ids(&bob.fields("inbox", json!({})));
        shown.len() == 2
    });
    bob.call("send", json!({"to": "ann", "text": "yes", "in_reply_to": shown[0]}));
    assert_eq!(ids(&bob.fields("inbox", json!({}))), shown[1..]);
}

#[test]
fn a_client_that_dies_with_a_result_has_read_nothing() {
    let daemon = daemon!();
    let (mut ann, bob) = ann_and_bob(&daemon);
    bob.close();
    let resumed = || {
        let mut command = daemon.client();
        command
            .args(["mcp", "--agent", "bob", "--structured"])
            .env("TRL_HARNESS_SESSION_ID", "one-and-the-same");
        let mut mcp = Mcp::start(command);
        mcp.hello("tester");
        mcp
    };
    let mut bob = resumed();
    assert_eq!(bob.fields("inbox", json!({}))["messages"], json!([]));
    ann.call("send", json!({"to": "bob", "text": "one"}));
    let shown = ids(&bob.fields("inbox", json!({"wait_s": 10})));
    bob.kill();
    let mut next = resumed();
    assert_eq!(ids(&next.fields("inbox", json!({"wait_s": 10}))), shown);
    // Nor has one that leaves in good order.
    next.close();
    assert_eq!(ids(&resumed().fields("inbox", json!({"wait_s": 10}))), shown);
}
