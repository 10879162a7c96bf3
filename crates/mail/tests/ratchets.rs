//! What a peer may do with ratchets and ids: nothing starts or is opened twice, and nobody hears about another's mail.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where")]

use rusqlite::Connection;
use serde_json::{Value, json};
use trl_mail::relay::{Mailbox, Published, Relay as _};
use trl_mail::seal::{Packet, Ratchet};
use trl_protocol::{Method as _, methods as m};
use vodozemac::olm::OlmMessage;

use crate::handmade::{Handmade, alice};
use crate::support::{GUARD, Office, text, until};

fn store(office: &Office) -> Connection {
    Connection::open(office.config.dir.join("mail.db")).unwrap()
}

fn count(office: &Office, sql: &str) -> i64 {
    store(office).query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Waits for a packet in quarantine, and tells why it is there.
async fn reason_of_quarantine(office: &Office) -> String {
    let dead = || office.get(1, m::MailDeadLetters::NAME, json!({}));
    let dead = until("it is quarantined", dead, |dead| dead["dead_letters"] != json!([])).await;
    dead["dead_letters"][0]["reason"].as_str().unwrap().to_owned()
}

/// Of many ratchets with one peer the oldest are forgotten, but not that they were there.
#[tokio::test]
async fn a_first_message_of_a_forgotten_ratchet_starts_nothing() {
    let mut office = Office::open();
    let to = alice(&office).await;
    let mut peer = Handmade::at(&office).await;
    let mut oldest = peer.introduce(&office, &to, "eve").await;
    for n in 0..8 {
        let mut newer = peer.ratchet(&office, &to).await;
        peer.mail(&office, &to, &mut newer, format!("{n}").as_bytes()).await;
    }
    office.take_texts(1, 8).await;
    peer.mail(&office, &to, &mut oldest, b"too late").await;
    let reason = reason_of_quarantine(&office).await;
    assert!(reason.ends_with("it was opened before"), "{reason}");
    office.stop().await;
    assert_eq!(
        count(&office, "SELECT count(*) FROM rekeys"),
        0,
        "and whoever sends such causes no exchange of keys"
    );
}

/// Until it is answered, a peer sends first messages of the same ratchet: each is opened once, and the ratchet is the
/// one that was used last.
#[tokio::test]
async fn a_second_first_message_moves_its_ratchet_on() {
    let mut office = Office::open();
    let to = alice(&office).await;
    let mut peer = Handmade::at(&office).await;
    let mut one = peer.introduce(&office, &to, "eve").await;
    let mut two = peer.ratchet(&office, &to).await;
    peer.mail(&office, &to, &mut two, b"under two").await;
    assert_eq!(office.take_texts(1, 1).await, ["under two"]);
    let packet = peer.seal(&to, &mut one, 1, &[b"M".as_slice(), &[7; 16], b"under one"].concat());
    let publish = async |office: &Office| {
        assert_eq!(office.relay.publish(vec![packet.clone()]).await.unwrap(), [Published::Stored]);
    };
    publish(&office).await;
    assert_eq!(office.take_texts(1, 1).await, ["under one"]);
    office.stop().await;
    let newest: String = store(&office)
        .query_row("SELECT id FROM ratchets ORDER BY used DESC LIMIT 1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(newest, one.id());
    // The list of packets that were seen is shortened some day.
    store(&office).execute_batch("DELETE FROM seen; DELETE FROM deliveries; DELETE FROM mail").unwrap();
    office.start();
    office.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    publish(&office).await;
    let reason = reason_of_quarantine(&office).await;
    assert!(reason.ends_with("it was opened before"), "{reason}");
}

/// A peer that reads its mailbox with the ratchets it writes with.
struct Listener {
    peer: Handmade,
    ratchets: Vec<Ratchet>,
    mailbox: Box<dyn Mailbox>,
}

/// A packet that a peer got.
enum Heard {
    /// Of a ratchet that it knows.
    Word(Vec<u8>),
    /// Of a new one.
    First,
}

impl Listener {
    async fn introduced(office: &Office, to: &trl_mail::identity::Address, name: &str) -> Listener {
        let mut peer = Handmade::at(office).await;
        let ratchet = peer.introduce(office, to, name).await;
        let mailbox = office.relay.mailbox(&peer.address());
        Listener { peer, ratchets: vec![ratchet], mailbox }
    }

    async fn next(&mut self) -> Heard {
        let found = tokio::time::timeout(GUARD, self.mailbox.next(1)).await.unwrap().unwrap().remove(0);
        self.mailbox.ack(vec![found.token]).await.unwrap();
        match Packet::from_bytes(&found.bytes).unwrap() {
            Packet::First { .. } => Heard::First,
            Packet::Later(message) => {
                let message = OlmMessage::Normal(message);
                let word = self.ratchets.iter_mut().find_map(|ratchet| ratchet.open(&message).ok());
                Heard::Word(word.unwrap().to_vec())
            }
        }
    }

    /// The states in the next receipts.
    async fn states(&mut self) -> Vec<String> {
        loop {
            let Heard::Word(word) = self.next().await else { panic!("the ratchet is known to both") };
            if let Some(receipts) = word.strip_prefix(b"R") {
                let receipts: Vec<Value> = serde_json::from_slice(receipts).unwrap();
                return receipts.iter().map(|one| one["state"].as_str().unwrap().to_owned()).collect();
            }
        }
    }

    async fn until_state(&mut self, state: &str) {
        while !self.states().await.iter().any(|each| each == state) {}
    }
}

/// Each sender numbers its own mail, and may use a number that it saw somewhere.
#[tokio::test]
async fn a_sender_that_uses_anothers_number_hears_nothing_about_their_mail() {
    let office = Office::open();
    let to = alice(&office).await;
    let mut peers =
        [Listener::introduced(&office, &to, "bob").await, Listener::introduced(&office, &to, "eve").await];
    for (peer, body) in peers.iter_mut().zip([b"of bob", b"of eve"]) {
        peer.peer.mail(&office, &to, &mut peer.ratchets[0], body).await;
    }
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(
            office.get(1, m::MailInbox::NAME, json!({"wait_s": 10.0, "peek": true})).await["messages"]
                .as_array()
                .unwrap()
                .clone(),
        );
        got.dedup();
    }
    let bobs = got.iter().find(|message| text(message) == "of bob").unwrap();
    office.take(1).await;
    office.get(1, m::MailInbox::NAME, json!({"peek": true, "ack": [bobs["message_id"]]})).await;
    peers[0].until_state("read").await;
    peers[1].until_state("offered").await;
    for (peer, state) in peers.iter_mut().zip(["read", "routed"]) {
        // Both have sent one message, so both numbers are the same.
        let again = [b"M".as_slice(), &1_u128.to_be_bytes(), b"again"].concat();
        peer.peer.publish(&office, &to, &mut peer.ratchets[0], 1, &again).await;
        assert_eq!(peer.states().await, [state]);
    }
}

/// What asks for new keys is sealed with new ones: the old ones may be what the peer has lost.
#[tokio::test]
async fn new_keys_are_asked_for_under_new_keys() {
    let office = Office::open();
    let to = alice(&office).await;
    let mut eve = Listener::introduced(&office, &to, "eve").await;
    let (bundle, key) = eve.peer.claim(&office, &to).await;
    for body in [b"opened", b"closed"] {
        // The second time, the one-time key is used.
        let mut ratchet = eve.peer.start(&to, &bundle, &key);
        eve.peer.mail(&office, &to, &mut ratchet, body).await;
        // The receipt of what was opened may come under it before new keys are asked for.
        eve.ratchets.push(ratchet);
    }
    loop {
        match eve.next().await {
            Heard::First => return,
            Heard::Word(word) => assert!(!word.starts_with(b"K"), "asked under the old keys"),
        }
    }
}

/// It would not be shown either way; its sender is told at once.
#[tokio::test]
async fn mail_that_is_late_is_told_as_failed_and_never_as_delivered() {
    let office = Office::open();
    let to = alice(&office).await;
    let mut eve = Listener::introduced(&office, &to, "eve").await;
    let late = crate::guards::letter("late", 0, &[]);
    office.clock.advance(60_000);
    eve.peer.mail(&office, &to, &mut eve.ratchets[0], &late).await;
    assert_eq!(eve.states().await, ["failed"]);
}
