//! The auto-responder: it answers once, in time, within its budget, and never in circles.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::Office;

/// Agents with an auto-responder and no live session, and Alice, who asks on connection 1.
async fn office_with(
    names: &[&str],
    command: &[&str],
    change: impl FnOnce(&mut trl_mail::MailConfig),
) -> Office {
    let office = Office::with(change);
    office.agents(&["alice"]).await;
    for (n, name) in names.iter().enumerate() {
        let connection = 10 + n as u64;
        office.get(0, "agent.create", json!({"name": name})).await;
        office.get(connection, "agent.use", json!({"agent": name})).await;
        let on = json!({"action": "on", "command": command});
        assert_eq!(office.get(connection, "mail.autorespond", on).await["on"], true);
        office.get(connection, "agent.release", json!({})).await;
    }
    office
}

async fn dead_letters(office: &Office, agent: &str, connection: u64) -> Vec<Value> {
    office.get(connection, "agent.use", json!({"agent": agent})).await;
    let mut found = Vec::new();
    for _ in 0..300 {
        let list = office.get(connection, "mail.dead_letters", json!({})).await;
        found = list["dead_letters"].as_array().unwrap().clone();
        if !found.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    found
}

const SHOUT: &[&str] = &["sh", "-c", "tr a-z A-Z | grep -o 'PLEASE [A-Z]*'"];

#[tokio::test]
async fn a_message_that_nobody_takes_is_answered_once() {
    let office = office_with(&["bot"], SHOUT, |_| {}).await;
    let asked = office
        .get(1, "mail.send_and_wait", json!({"to": "bot", "text": "please help", "timeout_s": 20.0}))
        .await;
    assert_eq!((&asked["reply"]["text"], &asked["reply"]["auto"]), (&json!("PLEASE HELP"), &json!(true)));
    // The message still waits for a person; it is not answered again.
    office.get(10, "agent.use", json!({"agent": "bot"})).await;
    assert_eq!(office.take_texts(10, 1).await, ["please help"]);
    assert!(office.is_empty(1).await);
    let status = office.get(10, "mail.autorespond", json!({"action": "status"})).await;
    assert_eq!(status["answered_today"], 1);
}

#[tokio::test]
async fn three_agents_with_responders_stop_by_themselves() {
    let office = office_with(&["b", "c"], &["echo", "go on"], |_| {}).await;
    let on = json!({"action": "on", "command": ["echo", "go on"]});
    office.get(1, "mail.autorespond", on).await;
    let first = office.send(1, json!({"to": "b", "text": "start"})).await;
    office.get(1, "agent.release", json!({})).await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    office.get(2, "agent.use", json!({"agent": "alice"})).await;
    // One answer from b, held for the session that asked; nobody answered the answer.
    let held = office.get(2, "mail.held", json!({})).await;
    assert_eq!(held["messages"].as_array().unwrap().len(), 1, "{held}");
    office.reaches(2, &first, "replied").await;
}

#[tokio::test]
async fn what_a_machine_wrote_or_names_a_session_is_not_answered() {
    let office = office_with(&["bot"], &["echo", "yes"], |_| {}).await;
    let auto = office.send(1, json!({"to": "bot", "text": "machine", "auto": true})).await;
    let targeted = office.send(1, json!({"to": "bot/claude:7", "text": "targeted"})).await;
    for id in [&auto, &targeted] {
        office.reaches(1, id, "held").await;
    }
    assert!(office.is_empty(1).await);
    assert!(office.is_empty(1).await);
}

#[tokio::test]
async fn failures_and_refusals_are_dead_letters() {
    for (command, words) in [
        (&["false"][..], "the command failed"),
        (&["no-such-program-here"], "could not be started"),
        (&["true"], "said nothing"),
        (&["sh", "-c", "sleep 5; echo late"], "took longer"),
        (&["sh", "-c", "head -c 100000 /dev/zero"], "longer than"),
    ] {
        let office = office_with(&["bot"], command, |config| {
            config.auto.time_limit = Duration::from_millis(400);
            config.auto.max_answer_bytes = 1000;
        })
        .await;
        let id = office.send(1, json!({"to": "bot", "text": "hello"})).await;
        office.reaches(1, &id, "held").await;
        // While the command runs nobody may be live, or the message is theirs.
        tokio::time::sleep(Duration::from_millis(700)).await;
        let found = dead_letters(&office, "bot", 10).await;
        assert!(found[0]["reason"].as_str().unwrap().contains(words), "{command:?}: {found:?}");
        assert_eq!(found[0]["from"], "alice");
    }
}

#[tokio::test]
async fn budgets_end_and_are_seen() {
    let office = office_with(&["bot"], &["echo", "ok"], |config| config.auto.per_pair_per_hour = 2).await;
    for n in 0..3 {
        office.send(1, json!({"to": "bot", "text": format!("{n}")})).await;
    }
    office.take_texts(1, 2).await;
    let found = dead_letters(&office, "bot", 10).await;
    assert_eq!(found.len(), 1);
    assert!(found[0]["reason"].as_str().unwrap().contains("hourly budget"), "{found:?}");
    assert!(office.is_empty(1).await);
}

#[tokio::test]
async fn the_command_sees_the_message_and_no_environment() {
    let command = ["sh", "-c", "env | cut -d= -f1 | sort | tr '\\n' ' '; cat"];
    let office = office_with(&["bot"], &command, |_| {}).await;
    let asked =
        office.get(1, "mail.send_and_wait", json!({"to": "bot", "text": "$(id)", "timeout_s": 20.0})).await;
    let text = asked["reply"]["text"].as_str().unwrap();
    let (names, message) = text.split_once('{').unwrap();
    assert!(
        names.split_whitespace().all(|name| ["PATH", "PWD", "SHLVL", "_", "OLDPWD"].contains(&name)),
        "{names}"
    );
    let message: Value = serde_json::from_str(&format!("{{{message}")).unwrap();
    assert_eq!((&message["text"], &message["from"]), (&json!("$(id)"), &json!("alice")));
}
