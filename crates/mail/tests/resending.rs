//! What goes out again: until a receipt comes, after the relay was replaced, and when a peer cannot open it. And what
//! nobody can get.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use trl_protocol::{Method as _, methods as m};

use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::sync::Notify;
use trl_mail::identity::{Address, Identity};
use trl_mail::presence::SystemProcesses;
use trl_mail::relay::{Claim, EmbeddedRelay, Mailbox, Outgoing, Pending, Published, Relay};
use trl_mail::seal::{Bundle, Device, Packet, Ratchet, SignedKey};
use trl_mail::{Mail, MailConfig};
use vodozemac::olm::OlmMessage;

use crate::handmade::{Handmade, alice};
use crate::support::{GUARD, Office, until};

/// A relay that says that it was replaced when a test tells it to.
#[derive(Debug)]
struct Replaceable {
    inner: EmbeddedRelay,
    replaced: Arc<Notify>,
}

impl Relay for Replaceable {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn max_packet_bytes(&self) -> usize {
        self.inner.max_packet_bytes()
    }
    fn announce<'a>(&'a self, who: &'a Address, bundle: Bundle, keys: Vec<SignedKey>) -> Pending<'a, ()> {
        self.inner.announce(who, bundle, keys)
    }
    fn bundle<'a>(&'a self, who: &'a Address) -> Pending<'a, Option<Bundle>> {
        self.inner.bundle(who)
    }
    fn unclaimed_keys<'a>(&'a self, who: &'a Address) -> Pending<'a, usize> {
        self.inner.unclaimed_keys(who)
    }
    fn claim<'a>(&'a self, who: &'a Address) -> Pending<'a, Option<Claim>> {
        self.inner.claim(who)
    }
    fn publish(&self, packets: Vec<Outgoing>) -> Pending<'_, Vec<Published>> {
        self.inner.publish(packets)
    }
    fn renewed(&self) -> Pending<'_, ()> {
        Box::pin(async {
            self.replaced.notified().await;
            Ok(())
        })
    }
    fn mailbox(&self, who: &Address) -> Box<dyn Mailbox> {
        self.inner.mailbox(who)
    }
}

/// Alice's daemon, and a peer made by hand that reads its mailbox and gives no receipts.
struct Scene {
    office: Office,
    alice: Address,
    peer: Handmade,
    ratchet: Ratchet,
    mailbox: Box<dyn Mailbox>,
    /// How often each packet came.
    seen: HashMap<String, u32>,
    replaced: Arc<Notify>,
}

impl Scene {
    async fn new() -> Scene {
        Scene::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut MailConfig)) -> Scene {
        let mut office = Office::with(change);
        office.stop().await;
        let replaced = Arc::new(Notify::new());
        let relay = Replaceable { inner: office.relay.clone(), replaced: Arc::clone(&replaced) };
        let clock = Arc::clone(&office.clock);
        let mail =
            Mail::open(office.config.clone(), clock, Arc::new(SystemProcesses), Arc::new(relay)).unwrap();
        office.mail = Some(mail);
        let alice = alice(&office).await;
        let mut peer = Handmade::at(&office).await;
        let ratchet = peer.introduce(&office, &alice, "eve").await;
        let mailbox = office.relay.mailbox(&peer.address());
        let mut scene = Scene { office, alice, peer, ratchet, mailbox, seen: HashMap::new(), replaced };
        scene.until(|word| word.starts_with("C") && word.contains("accepted")).await;
        scene
    }

    async fn send(&self, text: &str) -> String {
        self.office.send(1, json!({"to": self.peer.address().as_str(), "text": text})).await
    }

    /// Takes what is in the mailbox, so that the relay has it no longer: the id and the words of each packet. One
    /// that came before has no words.
    async fn take(&mut self) -> Vec<(String, String)> {
        let found = tokio::time::timeout(GUARD, self.mailbox.next(100)).await.unwrap().unwrap();
        self.mailbox.ack(found.iter().map(|packet| packet.token).collect()).await.unwrap();
        let mut words = Vec::new();
        for packet in found {
            let packet = Packet::from_bytes(&packet.bytes).unwrap();
            let id = packet.id().as_str().to_owned();
            let Packet::Later(message) = packet else { panic!("the ratchet is known to both") };
            let times = self.seen.entry(id.clone()).or_default();
            *times += 1;
            let opened = (*times == 1).then(|| self.ratchet.open(&OlmMessage::Normal(message)).unwrap());
            words.push((id, opened.map_or_else(String::new, |word| String::from_utf8_lossy(&word).into())));
        }
        words
    }

    /// Takes until a packet says what is expected; its id.
    async fn until(&mut self, expected: impl Fn(&str) -> bool) -> String {
        loop {
            if let Some((id, _)) = self.take().await.into_iter().find(|(_, word)| expected(word)) {
                return id;
            }
        }
    }

    async fn until_again(&mut self, id: &str, times: u32) {
        while self.seen[id] < times {
            self.take().await;
        }
        assert_eq!(self.seen[id], times);
    }
}

fn is_mail(text: &str) -> impl Fn(&str) -> bool {
    let quoted = format!("\"text\":\"{text}\"");
    move |word| word.starts_with('M') && word.contains(&quoted)
}

#[tokio::test]
async fn what_has_no_receipt_goes_out_again_each_time_after_twice_as_long() {
    let mut scene = Scene::with(|config| config.republish_after = Duration::from_millis(300)).await;
    let message = scene.send("first").await;
    let id = scene.until(is_mail("first")).await;
    scene.office.reaches(1, &message, "relayed").await;
    // Nobody calls for it: the clock alone does it.
    scene.office.clock.advance(301);
    scene.until_again(&id, 2).await;
    // What was published before this one is noted before it.
    let marker = scene.send("marker").await;
    scene.office.reaches(1, &marker, "relayed").await;
    scene.office.clock.advance(301);
    scene.office.mail().tick().await.unwrap();
    for marker in ["one", "two"] {
        scene.send(marker).await;
        scene.until(is_mail(marker)).await;
    }
    assert_eq!(scene.seen[&id], 2, "not yet");
    scene.office.clock.advance(301);
    scene.until_again(&id, 3).await;
}

#[tokio::test]
async fn after_the_relay_was_replaced_everything_that_it_may_have_lost_goes_out_again() {
    let mut scene = Scene::new().await;
    let (office, to) = (&scene.office, scene.alice.clone());
    scene.peer.mail(office, &to, &mut scene.ratchet, b"to alice").await;
    assert_eq!(office.take_texts(1, 1).await, ["to alice"]);
    scene.send("before").await;
    let id = scene.until(is_mail("before")).await;
    scene.replaced.notify_one();
    let (mut receipts, mut contact) = (false, false);
    while scene.seen[&id] < 2 || !receipts || !contact {
        for (_, word) in scene.take().await {
            receipts |= word.starts_with('R') && word.contains("routed");
            contact |= word.starts_with('C') && word.contains("accepted");
        }
    }
}

/// A peer says that it could not open a message: it is sealed again, three times at most. Nobody else can ask for it.
/// The broker may have lost our newest words about mail that it no longer has.
#[tokio::test]
async fn after_the_relay_was_replaced_the_newest_receipts_are_given_again() {
    let mut scene = Scene::new().await;
    let to = scene.alice.clone();
    scene.peer.mail(&scene.office, &to, &mut scene.ratchet, b"hello").await;
    assert_eq!(scene.office.take_texts(1, 1).await, ["hello"]);
    scene.until(|word| word.starts_with('R') && word.contains("offered")).await;
    scene.replaced.notify_one();
    scene.until(|word| word.starts_with('R') && word.contains("routed")).await;
}

#[tokio::test]
async fn a_message_that_cannot_be_opened_is_sealed_again_three_times() {
    let mut scene = Scene::new().await;
    let mut other = Handmade::at(&scene.office).await;
    let mut others = other.introduce(&scene.office, &scene.alice, "mallory").await;
    let message = scene.send("again and again").await;
    let to = scene.alice.clone();
    let ask = |packet: &str| [b"K", json!({ "packets": [packet] }).to_string().as_bytes()].concat();
    for _ in 0..4 {
        let id = scene.until(is_mail("again and again")).await;
        other.publish(&scene.office, &to, &mut others, 1, &ask(&id)).await;
        other.mail(&scene.office, &to, &mut others, b"heard").await;
        assert_eq!(scene.office.take_texts(1, 1).await, ["heard"]);
        let status = scene.office.get(1, m::MailStatus::NAME, json!({"message_id": message})).await;
        assert_ne!(status["state"], "failed", "{status}");
        scene.peer.publish(&scene.office, &to, &mut scene.ratchet, 1, &ask(&id)).await;
    }
    let status = scene.office.reaches(1, &message, "failed").await;
    assert_eq!(status["reason"], "undecryptable");
    let sealed = status["history"].as_array().unwrap().iter().filter(|row| row["state"] == "queued").count();
    assert_eq!(sealed, 4);
}

/// Under new keys, since the old ones may be what is wrong.
#[tokio::test]
async fn a_reset_sends_again_what_has_no_receipt() {
    let mut scene = Scene::new().await;
    scene.send("unconfirmed").await;
    scene.until(is_mail("unconfirmed")).await;
    let who = json!({"who": scene.peer.address().as_str()});
    assert_eq!(scene.office.get(1, m::MailReset::NAME, who).await["resent"], 1);
    let (mut ratchet, mut words): (Option<Ratchet>, Vec<String>) = (None, Vec::new());
    while words.len() < 2 {
        let found = tokio::time::timeout(GUARD, scene.mailbox.next(1)).await.unwrap().unwrap();
        scene.mailbox.ack(vec![found[0].token]).await.unwrap();
        // Receipts may still come under the old ones.
        let Packet::First { card, message } = Packet::from_bytes(&found[0].bytes).unwrap() else { continue };
        let plaintext = match &mut ratchet {
            Some(ratchet) => ratchet.open(&OlmMessage::PreKey(message)).unwrap(),
            None => {
                let card = card.verify(&scene.alice).unwrap();
                let (new, plaintext) = scene.peer.device.accept(&card.device, &message).unwrap();
                ratchet = Some(new);
                plaintext
            }
        };
        words.push(String::from_utf8_lossy(&plaintext).into());
    }
    assert!(words[0].starts_with('K') && is_mail("unconfirmed")(&words[1]), "{words:?}");
}

fn meddle(office: &Office, sql: &str) {
    Connection::open(office.config.dir.join("mail.db")).unwrap().execute_batch(sql).unwrap();
}

/// A contact whose address nobody has, or whose keys in the directory are another's.
#[tokio::test]
async fn mail_to_a_contact_without_keys_of_its_own_fails() {
    let mut office = Office::open();
    office.agents(&["alice"]).await;
    let (gone, robbed) = (Identity::generate(), Identity::generate());
    let (thief, mut device) = (Identity::generate(), Device::generate());
    let fallback = device.fallback_key(&thief, 1).unwrap();
    let bundle = Bundle { card: device.card(&thief, 1), fallback };
    office.relay.announce(robbed.address(), bundle, Vec::new()).await.unwrap();
    office.stop().await;
    for who in [gone.address(), robbed.address()] {
        let row = format!(
            "INSERT INTO contacts (agent_id, peer, state, at) SELECT id, '{who}', 'accepted', 0 FROM agents"
        );
        meddle(&office, &row);
    }
    office.start();
    office.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    for who in [gone.address(), robbed.address()] {
        let id = office.send(1, json!({"to": who.as_str(), "text": "anybody there?"})).await;
        assert_eq!(office.reaches(1, &id, "failed").await["reason"], "unknown_recipient");
    }
    // Nothing is left that would be tried for ever.
    for who in [gone.address(), robbed.address()] {
        office.get(1, m::ContactDecline::NAME, json!({"who": who.as_str()})).await;
    }
    assert_eq!(left_to_send(&mut office).await, 0);
}

/// What a daemon would still send after a few restarts.
async fn left_to_send(office: &mut Office) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM packets) + (SELECT count(*) FROM controls) + (SELECT count(*) FROM receipts)";
    let mut left = i64::MAX;
    for _ in 0..20 {
        office.stop().await;
        let database = Connection::open(office.config.dir.join("mail.db")).unwrap();
        left = database.query_row(sql, [], |row| row.get(0)).unwrap();
        drop(database);
        office.start();
        if left == 0 {
            break;
        }
        // Whatever is left is sent before this one is.
        office.get(0, m::AgentUse::NAME, json!({"agent": "alice"})).await;
        let id = office.send(0, json!({"to": "alice", "text": "on its way"})).await;
        office.reaches(0, &id, "routed").await;
        office.take(0).await;
        office.get(0, m::MailInbox::NAME, json!({})).await;
        office.reaches(0, &id, "read").await;
    }
    left
}

#[tokio::test]
async fn nothing_of_what_was_delivered_is_kept_to_be_sent() {
    let mut office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let id = office.send(1, json!({"to": "bob", "text": "hi"})).await;
    office.take_texts(2, 1).await;
    office.get(2, m::MailInbox::NAME, json!({})).await;
    office.reaches(1, &id, "read").await;
    assert_eq!(left_to_send(&mut office).await, 0);
}

/// Only the one that a message was sent to says what became of it, and only what a recipient can know.
#[tokio::test]
async fn a_receipt_counts_from_its_recipient_and_from_delivery_on() {
    let mut scene = Scene::new().await;
    let to = scene.alice.clone();
    scene.office.get(0, m::AgentCreate::NAME, json!({"name": "bob"})).await;
    let for_bob = scene.office.send(1, json!({"to": "bob", "text": "for bob"})).await;
    let for_peer = scene.send("for the peer").await;
    scene.until(is_mail("for the peer")).await;
    scene.office.reaches(1, &for_peer, "relayed").await;
    scene.office.stop().await;
    let ask = |scene: &Scene, sql: &str, id: &str| -> String {
        let store = Connection::open(scene.office.config.dir.join("mail.db")).unwrap();
        store.query_row(sql, [id], |row| row.get(0)).unwrap()
    };
    let uid = "SELECT lower(hex(uid)) FROM outbox WHERE message_id = ?1";
    let uids = [ask(&scene, uid, &for_bob), ask(&scene, uid, &for_peer)];
    scene.office.start();
    scene.office.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    for (uid, state) in uids.iter().zip(["read", "sealed"]) {
        let word = format!("R{}", json!([{"uid": uid, "state": state, "at": 1}]));
        scene.peer.publish(&scene.office, &to, &mut scene.ratchet, 1, word.as_bytes()).await;
    }
    scene.peer.mail(&scene.office, &to, &mut scene.ratchet, b"after them").await;
    assert_eq!(scene.office.take_texts(1, 1).await, ["after them"]);
    let status = scene.office.get(1, m::MailStatus::NAME, json!({"message_id": for_bob})).await;
    assert_ne!(status["state"], "read", "{status}");
    scene.office.stop().await;
    let left = "SELECT CAST(count(*) AS TEXT) FROM packets WHERE outbox_id = (SELECT id FROM outbox WHERE message_id = ?1)";
    assert_eq!(ask(&scene, left, &for_peer), "1", "it goes out again until it is delivered");
}

/// The list of packets that were seen is shortened some day; the ratchets remember for ever.
#[tokio::test]
async fn a_packet_is_opened_once_even_if_nobody_remembers_it() {
    for is_first in [true, false] {
        let mut scene = Scene::new().await;
        let to = scene.alice.clone();
        // The other one is no reason to take it for a packet that cannot be opened.
        let mut other = scene.peer.ratchet(&scene.office, &to).await;
        scene.peer.mail(&scene.office, &to, &mut other, b"under other keys").await;
        assert_eq!(scene.office.take_texts(1, 1).await, ["under other keys"]);
        if is_first {
            let ratchet = scene.peer.ratchet(&scene.office, &to).await;
            scene.ratchet = ratchet;
        }
        let mut plaintext = vec![b'M'];
        plaintext.extend_from_slice(&[7; 16]);
        plaintext.extend_from_slice(b"once");
        let packet = scene.peer.seal(&to, &mut scene.ratchet, 1, &plaintext);
        for replay in [false, true] {
            let published = scene.office.relay.publish(vec![packet.clone()]).await.unwrap();
            assert_eq!(published, [Published::Stored]);
            if !replay {
                assert_eq!(scene.office.take_texts(1, 1).await, ["once"]);
                scene.office.stop().await;
                meddle(&scene.office, "DELETE FROM seen; DELETE FROM deliveries; DELETE FROM mail");
                scene.office.start();
                scene.office.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
            }
        }
        let dead = || scene.office.get(1, m::MailDeadLetters::NAME, json!({}));
        let quarantined = |dead: &Value| dead["dead_letters"].as_array().is_some_and(|all| all.len() == 1);
        let dead = until("it is quarantined", dead, quarantined).await;
        let reason = dead["dead_letters"][0]["reason"].as_str().unwrap();
        assert!(reason.ends_with("it was opened before"), "{reason}");
        assert!(scene.office.is_empty(1).await);
        // Whoever can repeat a packet causes no exchange of keys.
        scene.office.stop().await;
        let store = Connection::open(scene.office.config.dir.join("mail.db")).unwrap();
        let rekeys: i64 = store.query_row("SELECT count(*) FROM rekeys", [], |row| row.get(0)).unwrap();
        assert_eq!(rekeys, 0);
    }
}
