//! What becomes of mail for a label when another session takes it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use serde_json::json;
use trl_protocol::{Method as _, methods as m};

use crate::support::Office;

/// A session without a harness session id never comes back, so its label's mail is for the next one that has it.
#[tokio::test]
async fn mail_for_a_label_is_read_in_order_by_whoever_takes_it() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let label = json!({"agent": "bob", "label": "L"});
    office.get(3, m::AgentUse::NAME, label.clone()).await;
    let first = office.send(1, json!({"to": "bob/L", "text": "1"})).await;
    office.reaches(1, &first, "routed").await;
    office.mail().connection_closed(3).await.unwrap();
    office.get(4, m::AgentUse::NAME, label.clone()).await;
    office.send(1, json!({"to": "bob/L", "text": "2"})).await;
    assert_eq!(office.take_texts(4, 2).await, ["1", "2"]);
    // The same if it gave the label up for another.
    let third = office.send(1, json!({"to": "bob/L", "text": "3"})).await;
    office.reaches(1, &third, "routed").await;
    office.get(4, m::AgentUse::NAME, json!({"agent": "bob", "label": "M"})).await;
    office.get(5, m::AgentUse::NAME, label).await;
    assert!(office.take_texts(5, 1).await.contains(&"3".to_owned()));
}

/// One with such an id may come back under another label and finds its mail.
#[tokio::test]
async fn mail_for_a_session_that_may_come_back_waits_for_it() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let used = json!({"agent": "bob", "label": "L", "harness_session_id": "h"});
    office.get(3, m::AgentUse::NAME, used).await;
    let first = office.send(1, json!({"to": "bob/L", "text": "1"})).await;
    office.reaches(1, &first, "routed").await;
    office.mail().connection_closed(3).await.unwrap();
    office.get(4, m::AgentUse::NAME, json!({"agent": "bob", "label": "L"})).await;
    assert!(office.is_empty(4).await);
    office.get(5, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "h"})).await;
    assert_eq!(office.take_texts(5, 1).await, ["1"]);
}
