//! A sender whose whole mail directory was put back to an older copy, witness and all.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use trl_mail::identity::Address;
use trl_mail::relay::Relay as _;
use trl_protocol::{Method as _, methods as m};

use crate::contacts::{becomes, strangers};
use crate::support::Office;

/// Alice's daemon and Bob's, who are contacts and have written to each other.
pub async fn friends() -> (Office, Office) {
    let (here, there, alice, bob) = strangers().await;
    here.get(1, m::ContactRequest::NAME, json!({"who": bob})).await;
    becomes(&there, &alice, "asking").await;
    there.get(1, m::ContactAccept::NAME, json!({"who": "alice"})).await;
    becomes(&here, &bob, "accepted").await;
    let id = here.send(1, json!({"to": "bob", "text": "hello"})).await;
    assert_eq!(there.take_texts(1, 1).await, ["hello"]);
    there.get(1, m::MailInbox::NAME, json!({})).await;
    here.reaches(1, &id, "read").await;
    (here, there)
}

fn copy(from: &Path, to: &Path) {
    if to.exists() {
        std::fs::remove_dir_all(to).unwrap();
    }
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

async fn send_all(office: &Office, texts: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for text in texts {
        ids.push(office.send(1, json!({"to": "bob", "text": text})).await);
    }
    ids
}

/// Alice's ratchet is behind what Bob has opened under it, so what she seals looks to him like a packet that came
/// before.
#[tokio::test]
async fn what_a_restored_sender_writes_arrives() {
    let (mut here, mut there) = friends().await;
    let address = here.get(1, m::AgentWhoami::NAME, json!({})).await["address"].as_str().unwrap().to_owned();
    let alice = Address::parse(&address).unwrap();
    let backup = here.home.path().join("backup");
    there.stop().await;
    // The copy is in the middle of a chain of keys.
    let unconfirmed = here.send(1, json!({"to": "bob", "text": "unconfirmed"})).await;
    here.reaches(1, &unconfirmed, "relayed").await;
    here.stop().await;
    copy(&here.config.dir, &backup);
    here.start();
    here.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    let ids = send_all(&here, &["0", "1", "2", "3", "4"]).await;
    here.reaches(1, &ids[4], "relayed").await;
    here.stop().await;
    there.start();
    there.get(1, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    assert_eq!(there.take_texts(1, 6).await, ["unconfirmed", "0", "1", "2", "3", "4"]);
    there.get(1, m::MailInbox::NAME, json!({})).await;
    // Bob's receipts would move the restored ratchet on; they are lost with the rest.
    let mut mailbox = here.relay.mailbox(&alice);
    while let Ok(found) = tokio::time::timeout(Duration::from_millis(300), mailbox.next(100)).await {
        mailbox.ack(found.unwrap().iter().map(|packet| packet.token).collect()).await.unwrap();
    }
    copy(&backup, &here.config.dir);
    here.start();
    here.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    let ids = send_all(&here, &["a", "b", "c"]).await;
    assert_eq!(there.take_texts(1, 3).await, ["a", "b", "c"]);
    there.get(1, m::MailInbox::NAME, json!({})).await;
    for id in ids.iter().chain([&unconfirmed]) {
        here.reaches(1, id, "read").await;
    }
}
