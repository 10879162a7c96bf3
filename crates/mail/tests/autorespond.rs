//! The auto-responder: it answers once, in time, within its budget, and never in circles.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::time::Duration;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};

use crate::support;
use crate::support::Office;

/// Agents with an auto-responder and no live session, and Alice, who asks on connection 1.
pub async fn office_with(
    names: &[&str],
    command: &[&str],
    change: impl FnOnce(&mut trl_mail::MailConfig),
) -> Office {
    let office = Office::with(change);
    office.agents(&["alice"]).await;
    for (n, name) in names.iter().enumerate() {
        let connection = 10 + n as u64;
        office.get(0, m::AgentCreate::NAME, json!({"name": name})).await;
        office.get(connection, m::AgentUse::NAME, json!({"agent": name})).await;
        let on = json!({"action": "on", "command": command});
        assert_eq!(office.get(connection, m::MailAutorespond::NAME, on).await["on"], true);
        office.get(connection, m::AgentRelease::NAME, json!({})).await;
    }
    office
}

pub async fn dead_letters(office: &Office, agent: &str, connection: u64) -> Vec<Value> {
    office.get(connection, m::AgentUse::NAME, json!({"agent": agent})).await;
    let list = || office.get(connection, m::MailDeadLetters::NAME, json!({}));
    let found =
        support::until("there is a dead letter", list, |list| list["dead_letters"] != json!([])).await;
    found["dead_letters"].as_array().unwrap().clone()
}

/// Everything that came before this was looked at when it returns: mail is answered in turn.
pub async fn all_judged(office: &Office, connection: u64) {
    office.get(0, m::AgentCreate::NAME, json!({"name": "wakeup"})).await;
    office.get(90, m::AgentUse::NAME, json!({"agent": "wakeup"})).await;
    let on = json!({"action": "on", "command": ["echo", "ding"]});
    office.get(90, m::MailAutorespond::NAME, on).await;
    office.get(90, m::AgentRelease::NAME, json!({})).await;
    let rung = json!({"to": "wakeup", "text": "?", "timeout_s": 20.0});
    assert_eq!(office.get(connection, m::MailSendAndWait::NAME, rung).await["reply"]["text"], "ding");
}

const SHOUT: &[&str] = &["sh", "-c", "tr a-z A-Z | grep -o 'PLEASE [A-Z]*'"];

#[tokio::test]
async fn a_message_that_nobody_takes_is_answered_once() {
    let office = office_with(&["bot"], SHOUT, |_| {}).await;
    let asked = office
        .get(1, m::MailSendAndWait::NAME, json!({"to": "bot", "text": "please help", "timeout_s": 20.0}))
        .await;
    assert_eq!((&asked["reply"]["text"], &asked["reply"]["auto"]), (&json!("PLEASE HELP"), &json!(true)));
    // The message still waits for a person; it is not answered again.
    office.get(10, m::AgentUse::NAME, json!({"agent": "bot"})).await;
    assert_eq!(office.take_texts(10, 1).await, ["please help"]);
    assert!(office.is_empty(1).await);
    let status = office.get(10, m::MailAutorespond::NAME, json!({"action": "status"})).await;
    assert_eq!(status["answered_today"], 1);
}

#[tokio::test]
async fn what_a_session_left_unread_when_it_was_lost_is_answered() {
    let office = office_with(&["bot"], SHOUT, |_| {}).await;
    office.get(10, m::AgentUse::NAME, json!({"agent": "bot"})).await;
    let id = office.send(1, json!({"to": "bot", "text": "please help"})).await;
    office.reaches(1, &id, "routed").await;
    office.mail().connection_closed(10).await.unwrap();
    office.clock.advance(30_001);
    office.mail().tick().await.unwrap();
    let answer = office.get(1, m::MailAwaitReply::NAME, json!({"message_id": id, "timeout_s": 20.0})).await;
    assert_eq!(answer["reply"]["text"], "PLEASE HELP");
}

#[tokio::test]
async fn three_machines_that_pass_a_message_on_stop_by_themselves() {
    let office = Office::open();
    office.agents(&["a", "b", "c"]).await;
    office.send(1, json!({"to": "b", "text": "pass it on"})).await;
    let mut passed = 0;
    let refusal = loop {
        let here = [2, 3, 1][passed % 3];
        let next = ["c", "a", "b"][passed % 3];
        let got = office.take(here).await;
        let on = json!({"to": next, "text": "pass it on", "auto": true, "in_reply_to": got[0]["message_id"]});
        match office.ask(here, m::MailSend::NAME, on).await {
            Ok(_) => passed += 1,
            Err(fault) => break fault,
        }
        assert!(passed < 20, "nobody stops it");
    };
    assert_eq!(passed, 3, "once round, and b sees itself in the chain");
    assert_eq!(refusal.code.as_str(), "INVALID_PARAMS");
    assert!(refusal.message.contains("automatic"), "{refusal}");
    // Straight back to a machine is refused as well; a person may answer.
    office.send(1, json!({"to": "c", "text": "beep", "auto": true})).await;
    let got = office.take(3).await;
    let answer = json!({"message_id": got[0]["message_id"], "text": "beep", "auto": true});
    let fault = office.ask(3, m::MailReply::NAME, answer).await.unwrap_err();
    assert!(fault.message.contains("a machine wrote"), "{fault}");
    office.get(3, m::MailReply::NAME, json!({"message_id": got[0]["message_id"], "text": "hello"})).await;
    assert_eq!(office.take_texts(1, 1).await, ["hello"]);
}

#[tokio::test]
async fn what_a_machine_wrote_or_names_a_session_is_not_answered() {
    let office = office_with(&["bot"], &["echo", "yes"], |_| {}).await;
    let auto = office.send(1, json!({"to": "bot", "text": "machine", "auto": true})).await;
    let targeted = office.send(1, json!({"to": "bot/claude:7", "text": "targeted"})).await;
    for id in [&auto, &targeted] {
        office.reaches(1, id, "held").await;
    }
    all_judged(&office, 1).await;
    assert!(office.is_empty(1).await);
}

#[tokio::test]
async fn failures_and_refusals_are_dead_letters() {
    for (command, words) in [
        (&["false"][..], "the command failed"),
        (&["no-such-program-here"], "could not be started"),
        (&["true"], "printed nothing"),
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
        // Until the command runs nobody may be live, or the message is theirs.
        all_judged(&office, 1).await;
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
    let asked = office
        .get(1, m::MailSendAndWait::NAME, json!({"to": "bot", "text": "$(id)", "timeout_s": 20.0}))
        .await;
    let text = asked["reply"]["text"].as_str().unwrap();
    let (names, message) = text.split_once('{').unwrap();
    assert!(
        names
            .split_whitespace()
            .all(|name| ["HOME", "OLDPWD", "PATH", "PWD", "SHLVL", "TMPDIR", "_"].contains(&name)),
        "{names}"
    );
    let message: Value = serde_json::from_str(&format!("{{{message}")).unwrap();
    assert_eq!((&message["text"], &message["from"]), (&json!("$(id)"), &json!("alice")));
}

/// Also where nothing confines it: its process group ends with the answer.
#[tokio::test]
async fn nothing_of_a_command_stays_behind() {
    let office = office_with(&["bot"], &["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], |_| {}).await;
    let ask = json!({"to": "bot", "text": "hello", "timeout_s": 20.0});
    let asked = office.get(1, m::MailSendAndWait::NAME, ask).await;
    let stat = format!("/proc/{}/stat", asked["reply"]["text"].as_str().unwrap());
    // One that is dead may wait to be collected by whoever inherited it.
    let gone = async || json!(std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
    support::until("its process is gone", gone, |gone| *gone == true).await;
}

/// A store that refuses for a moment is no reason to wait for the next message.
#[tokio::test]
async fn a_message_is_answered_although_the_store_failed_once() {
    use std::sync::atomic::{AtomicI64, Ordering};
    use trl_mail::steps::{Step, Steps};
    // Commits after the one that has the message; below zero there is none yet.
    let since = std::sync::Arc::new(AtomicI64::new(-2));
    let (counted, armed) = (std::sync::Arc::clone(&since), std::sync::Arc::clone(&since));
    let steps = Steps::watched(move |step| match step {
        Step::ReceiveStored if counted.load(Ordering::SeqCst) == -1 => {
            counted.store(0, Ordering::SeqCst);
            Ok(())
        }
        Step::StoreCommit if counted.load(Ordering::SeqCst) >= 0 => {
            match counted.fetch_add(1, Ordering::SeqCst) {
                1..4 => Err(trl_mail::MailError::Injected(step)),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    });
    let office = office_with(&["bot"], &["echo", "yes"], |config| config.steps = steps).await;
    armed.store(-1, Ordering::SeqCst);
    let ask = json!({"to": "bot", "text": "hello", "timeout_s": 10.0});
    let asked = office.get(1, m::MailSendAndWait::NAME, ask).await;
    assert!(since.load(Ordering::SeqCst) > 3, "no commit failed");
    assert_eq!(asked["reply"]["text"], "yes");
}

/// What failed is no answer, and does not use up the budget of a command that was repaired.
#[tokio::test]
async fn failed_runs_are_not_counted_as_answers() {
    let office = office_with(&["bot"], &["false"], |config| config.auto.per_pair_per_hour = 2).await;
    for n in 0..2 {
        office.send(1, json!({"to": "bot", "text": format!("{n}")})).await;
    }
    // A third is refused, so that a command which always fails does not run without end.
    let third = office.send(1, json!({"to": "bot", "text": "2"})).await;
    office.reaches(1, &third, "held").await;
    all_judged(&office, 1).await;
    let found = dead_letters(&office, "bot", 10).await;
    assert_eq!(found.len(), 3, "{found:?}");
    let status = office.get(10, m::MailAutorespond::NAME, json!({"action": "status"})).await;
    assert_eq!(status["answered_today"], 0);
    office.get(10, m::MailAutorespond::NAME, json!({"action": "on", "command": ["echo", "ok"]})).await;
    office.get(10, m::AgentRelease::NAME, json!({})).await;
    for _ in 0..2 {
        let ask = json!({"to": "bot", "text": "again", "timeout_s": 10.0});
        assert_eq!(office.get(1, m::MailSendAndWait::NAME, ask).await["reply"]["text"], "ok");
    }
    office.get(10, m::AgentUse::NAME, json!({"agent": "bot"})).await;
    let status = office.get(10, m::MailAutorespond::NAME, json!({"action": "status"})).await;
    assert_eq!(status["answered_today"], 2);
}
