//! Mail by the tools of `trl mcp`: what counts as read, and when.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
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

fn becomes_read(daemon: &Daemon, sender: &str, message_id: &Value) {
    trl_testkit::wait_until("the receipt", trl_testkit::GUARD, || {
        state(daemon, sender, message_id) == "read"
    });
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
    becomes_read(&daemon, "ann", &sent["message_id"]);
    assert_eq!(bob.fields("inbox", json!({"seen": ids(&rest)}))["messages"], json!([]));
}

#[test]
fn waiting_for_mail_outlives_the_daemon() {
    let mut daemon = daemon!();
    let (mut ann, mut bob) = ann_and_bob(&daemon);
    let connections = |daemon: &Daemon| {
        daemon.connect().ok(m::SystemStats::NAME, json!({}))["connections"].as_u64().unwrap()
    };
    let before = connections(&daemon);
    let asked = bob.ask("tools/call", json!({"name": "inbox", "arguments": {"wait_s": 30}}));
    trl_testkit::wait_until("bob waits", trl_testkit::GUARD, || connections(&daemon) > before);
    // The clients start the next one.
    daemon.kill9();
    ann.call("send", json!({"to": "bob", "text": "late"}));
    let answer = bob.answer_to(asked);
    assert_eq!(answer["result"]["structuredContent"]["messages"][0]["text"], "late", "{answer}");
    drop((ann, bob));
    assert!(daemon.trl(&["shutdown"]).status.success());
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
fn what_cannot_be_sent_is_refused_and_nothing_is_sent_twice() {
    let daemon = daemon!();
    let (mut ann, mut bob) = ann_and_bob(&daemon);
    assert_eq!(ann.refused("send", json!({"to": "bob", "text": ""})), "INVALID_PARAMS");
    assert_eq!(ann.refused("send", json!({"to": "bob", "text": " \n"})), "INVALID_PARAMS");
    let unknown = json!({"to": "bob", "text": "x", "in_reply_to": "msg-of-nobody"});
    assert_eq!(ann.refused("send", unknown), "MESSAGE_NOT_FOUND");
    let first = ann.fields("send", json!({"to": "bob", "text": "once"}));
    // A client that lost the result tries again.
    let again = ann.call("send", json!({"to": "bob", "text": "once"}));
    assert_eq!(again["structuredContent"]["message_id"], first["message_id"]);
    assert!(text(&again).contains("not sent twice"), "{again}");
    ann.call("send", json!({"to": "bob", "text": "another"}));
    let mut got = Value::Null;
    trl_testkit::wait_until("the other message", trl_testkit::GUARD, || {
        got = bob.fields("inbox", json!({}));
        got["messages"].as_array().unwrap().iter().any(|message| message["text"] == "another")
    });
    assert_eq!(got["messages"].as_array().unwrap().len(), 2, "{got}");
    // An answer goes to who asked, and to nobody else.
    bob.call("use", json!({"agent": "bob"}));
    let id = got["messages"][0]["message_id"].clone();
    let wrong = json!({"to": "bob", "text": "x", "in_reply_to": id});
    assert_eq!(bob.refused("send", wrong), "INVALID_PARAMS");
}

#[test]
fn a_server_that_was_restarted_knows_what_its_session_has_sent() {
    let daemon = daemon!();
    for name in ["ann", "bob"] {
        assert!(daemon.trl(&["agent", "create", name]).status.success());
    }
    let sent_by = |harness_session: &str| {
        let mut command = daemon.client();
        command
            .args(["mcp", "--structured", "--agent", "ann"])
            .env("TRL_HARNESS_SESSION_ID", harness_session);
        let mut ann = Mcp::start(command);
        ann.hello("tester");
        ann.fields("send", json!({"to": "bob", "text": "once"}))["message_id"].clone()
    };
    let first = sent_by("one");
    assert_eq!(sent_by("one"), first);
    assert_ne!(sent_by("two"), first, "another session has not said it");
}

#[test]
fn a_call_that_is_repeated_while_the_first_is_under_way_sends_nothing_twice() {
    let daemon = daemon!();
    let (mut ann, mut bob) = ann_and_bob(&daemon);
    let send = json!({"name": "send", "arguments": {"to": "bob", "text": "once"}});
    let asked: Vec<u64> = (0..4).map(|_| ann.ask("tools/call", send.clone())).collect();
    let mut sent: Vec<Value> = asked
        .into_iter()
        .map(|id| ann.answer_to(id)["result"]["structuredContent"]["message_id"].clone())
        .collect();
    sent.dedup();
    assert_eq!(sent.len(), 1, "{sent:?}");
    let got = bob.fields("inbox", json!({"wait_s": 10}));
    assert_eq!(ids(&got).len(), 1, "{got}");
    let answer =
        json!({"name": "send", "arguments": {"to": "ann", "text": "yes", "in_reply_to": ids(&got)[0]}});
    let asked: Vec<u64> = (0..4).map(|_| bob.ask("tools/call", answer.clone())).collect();
    for id in asked {
        let answered = bob.answer_to(id);
        assert_ne!(answered["result"]["isError"], true, "{answered}");
    }
    ann.call("inbox", json!({"wait_s": 10}));
    ann.call("send", json!({"to": "bob", "text": "last"}));
    bob.call("inbox", json!({"wait_s": 10}));
    assert_eq!(ids(&ann.fields("inbox", json!({}))).len(), 1, "one answer");
}

/// Clients refuse results that are too long, and would get the same one again.
#[test]
fn an_inbox_of_long_messages_is_read_in_parts() {
    let daemon = daemon!();
    let (mut ann, mut bob) = ann_and_bob(&daemon);
    for n in 0..4 {
        ann.call("send", json!({"to": "bob", "text": format!("{n}{}", "x".repeat(100_000))}));
    }
    let mut seen: Vec<String> = Vec::new();
    while seen.len() < 4 {
        let result = bob.call("inbox", json!({"ack": seen, "wait_s": 10}));
        assert!(result.to_string().len() < 500_000, "{} bytes", result.to_string().len());
        let shown = ids(&result["structuredContent"]);
        assert_eq!(shown.len(), 1, "each of them fills a result");
        assert!(!seen.contains(&shown[0]));
        seen.extend(shown);
    }
    assert_eq!(bob.fields("inbox", json!({"ack": seen}))["messages"], json!([]));
}

#[test]
fn a_reply_that_was_waited_for_is_read_when_it_is_acknowledged() {
    let daemon = daemon!();
    let (mut ann, mut bob) = ann_and_bob(&daemon);
    let sent = ann.fields("send", json!({"to": "bob", "text": "when?"}));
    let asked = ids(&bob.fields("inbox", json!({"wait_s": 10})));
    let answer = bob.fields("send", json!({"to": "ann", "text": "now", "in_reply_to": asked[0]}));
    let wait = json!({"message_id": sent["message_id"], "timeout_s": 20});
    let reply = ann.fields("await_reply", wait.clone())["reply"].clone();
    assert_eq!(reply["text"], "now");
    assert_ne!(state(&daemon, "bob", &answer["message_id"]), "read");
    assert_eq!(ann.fields("await_reply", wait)["reply"], reply, "a lost result can be had again");
    ann.call("inbox", json!({"ack": [reply["message_id"]]}));
    becomes_read(&daemon, "bob", &answer["message_id"]);
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
