//! When keys go wrong: first messages that cross, replays, lost keys, wedges, backups.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where")]

use std::path::Path;
use trl_protocol::{Method as _, methods as m};

use rusqlite::Connection;
use serde_json::json;
use trl_mail::identity::Address;
use trl_mail::relay::{Mailbox, Outgoing, Relay};

use crate::support::Office;

/// Changes the store while nobody owns it.
fn meddle(office: &Office, sql: &str) {
    let database = Connection::open(office.config.dir.join("mail.db")).unwrap();
    database.execute_batch(sql).unwrap();
}

fn count(office: &Office, sql: &str) -> i64 {
    let database = Connection::open(office.config.dir.join("mail.db")).unwrap();
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Every packet that was sealed since a trigger began to keep them.
fn copies(office: &Office) -> Vec<Vec<u8>> {
    let database = Connection::open(office.config.dir.join("mail.db")).unwrap();
    let mut query = database.prepare("SELECT bytes FROM copies").unwrap();
    query.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

async fn both_here(office: &Office) {
    office.get(1, m::AgentUse::NAME, json!({"agent": "alice", "harness_session_id": "ha"})).await;
    office.get(2, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "hb"})).await;
}

async fn talked() -> Office {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    both_here(&office).await;
    office.send(1, json!({"to": "bob", "text": "ping"})).await;
    assert_eq!(office.take_texts(2, 1).await, ["ping"]);
    office.get(2, m::MailInbox::NAME, json!({})).await;
    office.send(2, json!({"to": "alice", "text": "pong"})).await;
    assert_eq!(office.take_texts(1, 1).await, ["pong"]);
    office.get(1, m::MailInbox::NAME, json!({})).await;
    let done = office.send(2, json!({"to": "alice", "text": "done"})).await;
    office.take_texts(1, 1).await;
    office.get(1, m::MailInbox::NAME, json!({})).await;
    office.reaches(2, &done, "read").await;
    office
}

#[tokio::test]
async fn first_messages_that_cross_both_arrive_and_both_go_on() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    for round in 0..5 {
        let (a, b) = (
            json!({"to": "bob", "text": format!("a{round}")}),
            json!({"to": "alice", "text": format!("b{round}")}),
        );
        tokio::join!(office.send(1, a), office.send(2, b));
        assert_eq!(office.take_texts(2, 1).await, [format!("a{round}")]);
        assert_eq!(office.take_texts(1, 1).await, [format!("b{round}")]);
    }
}

#[tokio::test]
async fn a_ratchet_that_was_lost_is_replaced_and_the_message_comes() {
    let mut office = talked().await;
    office.stop().await;
    // Bob has forgotten every ratchet he had with Alice.
    meddle(&office, "DELETE FROM ratchets WHERE agent_id = (SELECT id FROM agents WHERE name = 'bob')");
    office.start();
    both_here(&office).await;
    let id = office.send(1, json!({"to": "bob", "text": "can you read this?"})).await;
    assert_eq!(office.take_texts(2, 1).await, ["can you read this?"]);
    office.get(2, m::MailInbox::NAME, json!({})).await;
    let status = office.reaches(1, &id, "read").await;
    let queued = status["history"].as_array().unwrap().iter().filter(|row| row["state"] == "queued").count();
    assert_eq!(queued, 2, "{status}");
    office.stop().await;
    assert_eq!(count(&office, "SELECT count(*) FROM quarantine"), 1);
}

#[tokio::test]
async fn a_lost_one_time_key_is_got_over() {
    let mut office = Office::open();
    office.agents(&["alice", "bob"]).await;
    office.stop().await;
    // Bob's device is from before his keys were announced.
    let fresh = {
        let device = trl_mail::seal::Device::generate();
        device.store().unwrap()
    };
    let database = Connection::open(office.config.dir.join("mail.db")).unwrap();
    let stored: Vec<u8> = database
        .query_row("SELECT device FROM devices JOIN agents ON id = agent_id WHERE name = 'bob'", [], |row| {
            row.get(0)
        })
        .unwrap();
    let mut device: serde_json::Value = serde_json::from_slice(&stored).unwrap();
    let empty: serde_json::Value = serde_json::from_slice(&fresh).unwrap();
    device["one_time_keys"] = empty["one_time_keys"].clone();
    let device = serde_json::to_vec(&device).unwrap();
    database
        .execute(
            "UPDATE devices SET device = ?1 WHERE agent_id = (SELECT id FROM agents WHERE name = 'bob')",
            [device],
        )
        .unwrap();
    drop(database);
    office.start();
    both_here(&office).await;
    office.send(1, json!({"to": "bob", "text": "first"})).await;
    assert_eq!(office.take_texts(2, 1).await, ["first"]);
}

#[tokio::test]
async fn a_reset_exchanges_new_keys_and_sends_again_what_was_not_confirmed() {
    let mut office = talked().await;
    let before = office.get(1, m::MailReset::NAME, json!({"who": "bob"})).await;
    assert_eq!((&before["who"], &before["resent"]), (&json!("bob"), &json!(0)));
    office.clock.advance(10_000);
    let fault = office.ask(1, m::MailReset::NAME, json!({"who": "bob"})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "RESOURCE_PRESSURE", "{fault}");
    assert!(fault.message.ends_with("try again in 51 s"), "{fault}");
    let id = office.send(1, json!({"to": "bob", "text": "under new keys"})).await;
    assert_eq!(office.take_texts(2, 1).await, ["under new keys"]);
    office.get(2, m::MailInbox::NAME, json!({})).await;
    office.reaches(1, &id, "read").await;
    office.stop().await;
    // One ratchet of Alice's seals again: the new one.
    let alice = "agent_id = (SELECT id FROM agents WHERE name = 'alice')";
    assert_eq!(count(&office, &format!("SELECT count(*) FROM ratchets WHERE may_seal = 1 AND {alice}")), 1);
    assert!(count(&office, &format!("SELECT count(*) FROM ratchets WHERE {alice}")) > 1);
    // Both sides have lost all ratchets, and with them what is on its way: wedged for good, until a reset.
    office.start();
    both_here(&office).await;
    office.clock.advance(3_600_000);
    office.send(1, json!({"to": "bob/later", "text": "1"})).await;
    let fault = office.ask(1, m::MailReset::NAME, json!({"who": "bobb"})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "AGENT_NOT_FOUND");
    office.get(1, m::MailReset::NAME, json!({"who": "bob"})).await;
    office.send(1, json!({"to": "bob/later", "text": "2"})).await;
    office.get(3, m::AgentUse::NAME, json!({"agent": "bob", "label": "later"})).await;
    assert_eq!(office.take_texts(3, 2).await, ["1", "2"]);
}

/// What lies in a mailbox, without acknowledging it.
async fn lying_in(relay: &dyn Relay, who: &Address) -> Vec<trl_mail::relay::Incoming> {
    let mut mailbox: Box<dyn Mailbox> = relay.mailbox(who);
    mailbox.next(100).await.unwrap()
}

#[tokio::test]
async fn replayed_packets_are_known_also_in_other_wrapping() {
    let mut office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let list = office.get(0, m::AgentList::NAME, json!({})).await;
    let address = |n: usize| Address::parse(list["agents"][n]["address"].as_str().unwrap()).unwrap();
    let (alice, bob) = (address(0), address(1));
    office.stop().await;
    office.start();
    both_here(&office).await;
    office.send(1, json!({"to": "bob", "text": "once"})).await;
    // The relay keeps a copy of everything that ever lay in Bob's mailbox.
    let copies = lying_in(&office.relay, &bob).await;
    assert_eq!(office.take_texts(2, 1).await, ["once"]);
    office.get(2, m::MailInbox::NAME, json!({})).await;
    for copy in &copies {
        let mut rewrapped = copy.bytes.clone();
        // Inside the card's JSON, whitespace changes the bytes and nothing else.
        if let Some(at) = rewrapped.windows(5).position(|bytes| bytes == b"{\"v\":") {
            rewrapped.insert(at + 1, b' ');
            let length = u16::from_be_bytes([rewrapped[5], rewrapped[6]]) + 1;
            rewrapped[5..7].copy_from_slice(&length.to_be_bytes());
        }
        for (n, bytes) in [copy.bytes.clone(), rewrapped].into_iter().enumerate() {
            let id = format!("{n:064}");
            office
                .relay
                .publish(vec![Outgoing { from: alice.clone(), to: bob.clone(), id, bytes }])
                .await
                .unwrap();
        }
    }
    let id = office.send(1, json!({"to": "bob", "text": "after"})).await;
    assert_eq!(office.take_texts(2, 1).await, ["after"]);
    office.get(2, m::MailInbox::NAME, json!({})).await;
    office.reaches(1, &id, "read").await;
    office.stop().await;
    assert_eq!(count(&office, "SELECT count(*) FROM mail"), 2);
}

/// Both ends of such a ratchet lie in one store.
#[tokio::test]
async fn mail_to_oneself_arrives_in_order_both_ways_and_across_a_restart() {
    let mut office = Office::open();
    office.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
    let both = async |office: &Office| {
        office.get(1, m::AgentUse::NAME, json!({"agent": "alice", "harness_session_id": "h1"})).await;
        office.get(2, m::AgentUse::NAME, json!({"agent": "alice", "harness_session_id": "h2"})).await;
    };
    let list = office.get(0, m::AgentList::NAME, json!({})).await;
    let alice = Address::parse(list["agents"][0]["address"].as_str().unwrap()).unwrap();
    office.stop().await;
    meddle(
        &office,
        "CREATE TABLE copies (bytes BLOB);
         CREATE TRIGGER copied AFTER INSERT ON packets BEGIN INSERT INTO copies VALUES (new.bytes); END;",
    );
    office.start();
    both(&office).await;
    for round in 0..3 {
        for n in 0..5 {
            office.send(1, json!({"to": "alice/claude:2", "text": format!("a{round}.{n}")})).await;
            office.send(2, json!({"to": "alice/claude:1", "text": format!("b{round}.{n}")})).await;
        }
        let of = |who: &str| (0..5).map(|n| format!("{who}{round}.{n}")).collect::<Vec<_>>();
        assert_eq!(office.take_texts(2, 5).await, of("a"));
        assert_eq!(office.take_texts(1, 5).await, of("b"));
        office.get(1, m::MailInbox::NAME, json!({})).await;
        let last = office.send(1, json!({"to": "alice/claude:2", "text": "over"})).await;
        assert_eq!(office.take_texts(2, 1).await, ["over"]);
        office.get(2, m::MailInbox::NAME, json!({})).await;
        office.reaches(1, &last, "read").await;
        office.restart().await;
        both(&office).await;
    }
    // A relay that gives out everything once more, when nobody remembers that it was seen.
    office.stop().await;
    let sealed = copies(&office);
    assert_eq!(count(&office, "SELECT count(*) FROM quarantine"), 0);
    meddle(&office, "DELETE FROM seen");
    office.start();
    both(&office).await;
    for (n, bytes) in sealed.into_iter().enumerate() {
        let again = Outgoing { from: alice.clone(), to: alice.clone(), id: format!("{n:064}"), bytes };
        office.relay.publish(vec![again]).await.unwrap();
    }
    let asked = json!({"to": "alice/claude:2", "text": "after", "timeout_s": 10.0});
    let answer = async {
        let got = office.take(2).await;
        assert_eq!((got.len(), &got[0]["text"]), (1, &json!("after")));
        office.get(2, m::MailReply::NAME, json!({"message_id": got[0]["message_id"], "text": "yes"})).await;
    };
    let (replied, ()) = tokio::join!(office.get(1, m::MailSendAndWait::NAME, asked), answer);
    assert_eq!(replied["reply"]["text"], "yes");
    office.stop().await;
    assert_eq!(count(&office, "SELECT count(*) FROM mail"), 3 * 11 + 2);
    let replays = "SELECT count(*) FROM quarantine WHERE reason LIKE '%opened before%'";
    assert_eq!(count(&office, replays), count(&office, "SELECT count(*) FROM quarantine"));
}

#[tokio::test]
async fn a_stranger_cannot_write_in_anothers_name() {
    let mut office = Office::open();
    office.agents(&["alice", "bob", "mallory"]).await;
    let list = office.get(0, m::AgentList::NAME, json!({})).await;
    let address = |n: usize| Address::parse(list["agents"][n]["address"].as_str().unwrap()).unwrap();
    let (alice, bob) = (address(0), address(1));
    office.send(3, json!({"to": "bob", "text": "from mallory"})).await;
    let copies = lying_in(&office.relay, &bob).await;
    office.take_texts(2, 1).await;
    for (n, copy) in copies.into_iter().enumerate() {
        let forged =
            Outgoing { from: alice.clone(), to: bob.clone(), id: format!("{n:064}"), bytes: copy.bytes };
        office.relay.publish(vec![forged]).await.unwrap();
    }
    let garbage =
        Outgoing { from: alice.clone(), to: bob.clone(), id: "f".repeat(64), bytes: b"junk".to_vec() };
    office.relay.publish(vec![garbage]).await.unwrap();
    office.send(1, json!({"to": "bob", "text": "from alice"})).await;
    assert_eq!(office.take_texts(2, 1).await, ["from alice"]);
    office.stop().await;
    assert_eq!(count(&office, "SELECT count(*) FROM mail"), 2);
    assert!(count(&office, "SELECT count(*) FROM quarantine") >= 1);
}

fn copy_store(from: &Path, to: &Path) {
    for name in ["mail.db", "mail.db-wal"] {
        let source = from.join(name);
        if source.exists() {
            std::fs::copy(source, to.join(name)).unwrap();
        } else {
            let _absent = std::fs::remove_file(to.join(name));
        }
    }
}

#[tokio::test]
async fn a_restored_backup_never_seals_with_an_old_ratchet() {
    let mut office = talked().await;
    office.stop().await;
    let backup = tempfile::tempdir().unwrap();
    copy_store(&office.config.dir, backup.path());
    let ratchets = |office: &Office| count(office, "SELECT count(*) FROM ratchets WHERE may_seal = 1");
    let before = ratchets(&office);
    assert!(before > 0);
    office.start();
    both_here(&office).await;
    office.send(1, json!({"to": "bob", "text": "after the backup"})).await;
    office.take_texts(2, 1).await;
    office.stop().await;
    copy_store(backup.path(), &office.config.dir);
    office.start();
    both_here(&office).await;
    office.stop().await;
    assert_eq!(ratchets(&office), 0);
    office.start();
    both_here(&office).await;
    // What the relay still has of the lost time may come again; what is new comes too.
    office.send(1, json!({"to": "bob", "text": "new keys"})).await;
    office.send(2, json!({"to": "alice", "text": "here too"})).await;
    let mut to_bob = office.take_texts(2, 1).await;
    while !to_bob.contains(&"new keys".to_owned()) {
        to_bob = office.take_texts(2, 1).await;
    }
    assert!(office.take_texts(1, 1).await.contains(&"here too".to_owned()));
}

/// A backup that is older than the last note is noticed also after a crash, so notes must not become rare.
#[tokio::test]
async fn the_witness_keeps_up_with_what_is_sealed() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    for n in 0..150 {
        office.send(1, json!({"to": "bob", "text": format!("{n}")})).await;
    }
    let witness = office.config.dir.join("mail.witness");
    let seals = async || {
        let text = std::fs::read_to_string(&witness).unwrap_or_default();
        json!(text.split(' ').nth(1).and_then(|seals| seals.parse::<u64>().ok()))
    };
    crate::support::until("150 seals are noted", seals, |seals| seals.as_u64() >= Some(128)).await;
}

#[tokio::test]
async fn an_orderly_restart_keeps_its_ratchets() {
    let mut office = talked().await;
    office.stop().await;
    let before = count(&office, "SELECT count(*) FROM ratchets WHERE may_seal = 1");
    office.start();
    both_here(&office).await;
    office.send(1, json!({"to": "bob", "text": "same keys"})).await;
    assert_eq!(office.take_texts(2, 1).await, ["same keys"]);
    office.stop().await;
    assert_eq!(count(&office, "SELECT count(*) FROM ratchets"), before);
}

#[tokio::test]
async fn files_are_private_and_the_relay_sees_no_text() {
    use std::os::unix::fs::PermissionsExt;
    let mut office = talked().await;
    office.send(1, json!({"to": "bob/nobody", "text": "a very secret sentence"})).await;
    let id = office.send(1, json!({"to": "bob/nobody", "text": "x"})).await;
    office.reaches(1, &id, "held").await;
    office.stop().await;
    for (dir, names) in [
        (office.config.dir.clone(), &["mail.db", "mail.lock"][..]),
        (office.home.path().join("relay"), &["relay.db", "relay.db-wal"]),
    ] {
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        for name in names {
            let path = dir.join(name);
            let Ok(metadata) = std::fs::metadata(&path) else { continue };
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{name}");
            if name.starts_with("relay") {
                let bytes = std::fs::read(&path).unwrap();
                assert!(!bytes.windows(11).any(|window| window == b"very secret"), "{name}");
            }
        }
    }
}

#[tokio::test]
async fn a_store_that_others_could_read_is_narrowed() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut office = Office::open();
    office.stop().await;
    let path = office.config.dir.join("mail.db");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    office.start();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
