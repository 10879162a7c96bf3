//! What a sender learns: a receipt is the truth, also when it comes late.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};

use crate::restored::friends;
use crate::support::{Office, text};

fn states(status: &Value) -> Vec<&str> {
    status["history"].as_array().unwrap().iter().filter_map(|row| row["state"].as_str()).collect()
}

/// Bob reads in time, while Alice's daemon is away until the message is past its time.
#[tokio::test]
async fn what_was_read_in_time_is_not_told_as_expired_after_a_restart() {
    let (mut here, mut there) = friends().await;
    there.stop().await;
    let id = here.send(1, json!({"to": "bob", "text": "hurry", "expires_s": 5.0})).await;
    here.reaches(1, &id, "relayed").await;
    here.stop().await;
    there.start();
    there.get(1, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    let got = there.take(1).await;
    assert_eq!(text(&got[0]), "hurry");
    there.get(1, m::MailInbox::NAME, json!({})).await;
    here.clock.advance(6000);
    here.start();
    here.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    let status = here.reaches(1, &id, "read").await;
    assert!(status["reason"].is_null(), "{status}");
    assert!(!states(&status).contains(&"failed"), "the receipt lay at the relay: {status}");
}

/// Bob's clock is behind, so he still reads what Alice has given up.
#[tokio::test]
async fn a_receipt_that_comes_after_the_expiry_corrects_it() {
    let (here, mut there) = friends().await;
    there.stop().await;
    let id = here.send(1, json!({"to": "bob", "text": "hurry", "expires_s": 5.0})).await;
    here.reaches(1, &id, "relayed").await;
    here.clock.advance(5001);
    here.mail().tick().await.unwrap();
    assert_eq!(here.reaches(1, &id, "failed").await["reason"], "expired");
    here.clock.advance(-3000);
    there.start();
    there.get(1, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    let got = there.take(1).await;
    there.get(1, m::MailReply::NAME, json!({"message_id": got[0]["message_id"], "text": "in time"})).await;
    let status = here.reaches(1, &id, "replied").await;
    assert!(status["reason"].is_null(), "{status}");
    let states = states(&status);
    assert!(states.contains(&"failed") && states.contains(&"replied"), "{states:?}");
    let reply = here.get(1, m::MailCheckReply::NAME, json!({"message_id": id})).await;
    assert_eq!(reply["reply"]["text"], "in time");
}

/// One session reads it, the other lets it pass: then it is over, and no longer counts as unread.
#[tokio::test]
async fn broadcast_mail_that_some_read_is_over_at_its_time() {
    let office = Office::with(|config| config.mailbox_messages = 1);
    office.agents(&["alice"]).await;
    office.get(0, m::AgentCreate::NAME, json!({"name": "all", "policy": "broadcast"})).await;
    for connection in [2, 3] {
        office.get(connection, m::AgentUse::NAME, json!({"agent": "all"})).await;
    }
    let id = office.send(1, json!({"to": "all", "text": "first", "expires_s": 2.0})).await;
    assert_eq!(office.take_texts(2, 1).await, ["first"]);
    office.get(2, m::MailInbox::NAME, json!({})).await;
    office.reaches(1, &id, "read").await;
    office.clock.advance(2001);
    office.mail().tick().await.unwrap();
    let second = office.send(1, json!({"to": "all", "text": "second"})).await;
    assert_eq!(office.take_texts(3, 1).await, ["second"]);
    let status = office.get(1, m::MailStatus::NAME, json!({"message_id": id})).await;
    assert_eq!(status["state"], "read");
    assert_ne!(office.get(1, m::MailStatus::NAME, json!({"message_id": second})).await["state"], "failed");
}

/// When it was written, as its sender says, and never later than it came.
#[tokio::test]
async fn the_time_of_a_message_is_when_it_was_written() {
    let (here, mut there) = friends().await;
    there.stop().await;
    for (text, moved) in [("early", 60_000), ("ahead", -10_000)] {
        let id = here.send(1, json!({"to": "bob", "text": text})).await;
        here.reaches(1, &id, "relayed").await;
        here.clock.advance(moved);
    }
    there.start();
    there.get(1, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(there.take(1).await);
    }
    let times: Vec<&str> = got.iter().filter_map(|message| message["timestamp"].as_str()).collect();
    // Bob's clock says fifty seconds after the start when both arrive.
    assert_eq!(times, ["2027-01-15T08:00:00.000Z", "2027-01-15T08:00:50.000Z"]);
}
