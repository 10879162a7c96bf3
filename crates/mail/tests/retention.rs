//! What is over is forgotten in time; what still waits for somebody is not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where")]

use rusqlite::Connection;
use serde_json::json;
use trl_protocol::{Method as _, methods as m};

use crate::support;
use crate::support::Office;

const DAY_MS: i64 = 86_400_000;

fn counts(office: &Office) -> Vec<(&'static str, i64)> {
    let database = Connection::open(office.config.dir.join("mail.db")).unwrap();
    ["mail", "deliveries", "outbox", "history", "packets", "seen", "quarantine", "dead_letters"]
        .map(|table| {
            let sql = format!("SELECT count(*) FROM {table}");
            (table, database.query_row(&sql, [], |row| row.get(0)).unwrap())
        })
        .to_vec()
}

fn count(office: &Office, table: &str) -> i64 {
    counts(office).into_iter().find(|(name, _)| *name == table).unwrap().1
}

#[tokio::test]
async fn read_mail_goes_and_waiting_mail_stays() {
    let mut office = Office::with(|config| config.mailbox_messages = 5000);
    office.agents(&["alice", "bob"]).await;
    let mut last = String::new();
    // More than one look forgets at once.
    for n in 0..520 {
        last = office.send(1, json!({"to": "bob", "text": format!("{n}")})).await;
    }
    office.take_texts(2, 520).await;
    office.get(2, m::MailInbox::NAME, json!({})).await;
    office.reaches(1, &last, "read").await;
    let waits = json!({"to": "bob", "text": "unread", "expires_s": 90.0 * 86_400.0});
    let unread = office.send(1, waits).await;
    office.reaches(1, &unread, "routed").await;
    office.clock.advance(31 * DAY_MS);
    for _ in 0..4 {
        office.mail().tick().await.unwrap();
        office.clock.advance(1001);
    }
    assert_eq!(office.take_texts(2, 1).await, ["unread"]);
    let fault = office.ask(1, m::MailStatus::NAME, json!({"message_id": last})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "MESSAGE_NOT_FOUND");
    office.stop().await;
    for (table, expected) in [("mail", 1), ("deliveries", 1), ("outbox", 1)] {
        assert_eq!(count(&office, table), expected, "{:?}", counts(&office));
    }
    assert!(count(&office, "history") < 20 && count(&office, "seen") < 20, "{:?}", counts(&office));
}

#[tokio::test]
async fn what_strangers_cause_is_bounded_by_number_and_time() {
    let mut office = Office::with(|config| config.keep_unreadable = 3);
    office.agents(&["alice"]).await;
    office.stop().await;
    let database = Connection::open(office.config.dir.join("mail.db")).unwrap();
    for n in 0..10 {
        let at = support::START_MS - n * 1000;
        database
            .execute_batch(&format!(
                "INSERT INTO quarantine VALUES (1, 'p', '{n}', x'00', 'why', {at});
                 INSERT INTO dead_letters (agent_id, peer, reason, at) VALUES (1, 'p', 'why', {at});"
            ))
            .unwrap();
    }
    drop(database);
    office.start();
    office.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    office.mail().tick().await.unwrap();
    let listed = office.get(1, m::MailDeadLetters::NAME, json!({})).await;
    assert_eq!(listed["dead_letters"].as_array().unwrap().len(), 6, "{listed}");
    office.clock.advance(31 * DAY_MS);
    office.mail().tick().await.unwrap();
    assert_eq!(office.get(1, m::MailDeadLetters::NAME, json!({})).await["dead_letters"], json!([]));
}
