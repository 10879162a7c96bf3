//! Two owners on one relay: asking, accepting, declining, blocking. And hostile words.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use serde_json::{Value, json};
use trl_mail::identity::Address;
use trl_mail::relay::{EmbeddedLimits, Outgoing, Relay};
use trl_protocol::{Method as _, methods as m};

use crate::handmade::{Handmade, alice};
use crate::support;
use crate::support::{Office, text};

pub async fn strangers() -> (Office, Office, String, String) {
    strangers_at(Office::open()).await
}

async fn strangers_at(here: Office) -> (Office, Office, String, String) {
    let there = here.neighbour();
    here.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
    here.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    there.get(0, m::AgentCreate::NAME, json!({"name": "bob"})).await;
    there.get(1, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    let address = |list: Value| list["agents"][0]["address"].as_str().unwrap().to_owned();
    let alice = address(here.get(0, m::AgentList::NAME, json!({})).await);
    let bob = address(there.get(0, m::AgentList::NAME, json!({})).await);
    (here, there, alice, bob)
}

pub async fn becomes(office: &Office, address: &str, state: &str) -> Value {
    let rows = || async {
        let list = office.get(1, m::ContactList::NAME, json!({})).await;
        list["contacts"].as_array().unwrap().iter().find(|row| row["address"] == address).cloned().into()
    };
    support::until(&format!("{address} is {state}"), rows, |row| row["state"] == state).await
}

#[tokio::test]
async fn strangers_ask_first_and_nobody_is_accepted_unasked() {
    let (here, there, alice, bob) = strangers().await;
    let fault = here.ask(1, m::MailSend::NAME, json!({"to": bob, "text": "hi"})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "CONTACT_REQUIRED");
    let fault = here.ask(1, m::MailSend::NAME, json!({"to": "bob", "text": "hi"})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "AGENT_NOT_FOUND");
    let row = here.get(1, m::ContactRequest::NAME, json!({"who": bob})).await;
    assert_eq!(row["state"], "requested");
    assert_eq!(becomes(&there, &alice, "asking").await["who"], "alice");
    let fault = here.ask(1, m::MailSend::NAME, json!({"to": bob, "text": "hi"})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "CONTACT_REQUIRED");
    there.get(1, m::ContactAccept::NAME, json!({"who": "alice"})).await;
    assert_eq!(becomes(&here, &bob, "accepted").await["who"], "bob");
    let id = here.send(1, json!({"to": "bob", "text": "hi"})).await;
    let got = there.take(1).await;
    assert_eq!((text(&got[0]).as_str(), &got[0]["from"]), ("hi", &json!("alice")));
    there.get(1, m::MailReply::NAME, json!({"message_id": got[0]["message_id"], "text": "hello"})).await;
    let reply = here.get(1, m::MailAwaitReply::NAME, json!({"message_id": id, "timeout_s": 10.0})).await;
    assert_eq!(reply["reply"]["text"], "hello");
    let nobody = "a".repeat(32);
    let fault = here.ask(1, m::ContactRequest::NAME, json!({"who": nobody})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "AGENT_NOT_FOUND");
    assert!(fault.message.starts_with("nobody has the address aaaa"), "{fault}");
}

#[tokio::test]
async fn declined_and_blocked_stay_so() {
    let (here, there, alice, bob) = strangers().await;
    here.get(1, m::ContactRequest::NAME, json!({"who": bob})).await;
    becomes(&there, &alice, "asking").await;
    there.get(1, m::ContactDecline::NAME, json!({"who": alice})).await;
    becomes(&here, &bob, "declined").await;
    there.get(1, m::ContactBlock::NAME, json!({"who": alice})).await;
    here.get(1, m::ContactRequest::NAME, json!({"who": bob})).await;
    // Who asks after her is heard after her: then her own word has been heard too.
    let carol = here.get(0, m::AgentCreate::NAME, json!({"name": "carol"})).await["address"].clone();
    here.get(2, m::AgentUse::NAME, json!({"agent": "carol"})).await;
    here.get(2, m::ContactRequest::NAME, json!({"who": bob})).await;
    becomes(&there, carol.as_str().unwrap(), "asking").await;
    assert_eq!(becomes(&there, &alice, "blocked").await["who"], "alice");
}

#[tokio::test]
async fn who_was_declined_asks_again_whatever_verb_is_used() {
    for verb in [m::ContactRequest::NAME, m::ContactAccept::NAME] {
        let (here, there, alice, bob) = strangers().await;
        assert_eq!(here.get(1, verb, json!({"who": bob})).await["state"], "requested");
        becomes(&there, &alice, "asking").await;
        there.get(1, m::ContactDecline::NAME, json!({"who": alice})).await;
        becomes(&here, &bob, "declined").await;
        assert_eq!(here.get(1, verb, json!({"who": bob})).await["state"], "requested");
        becomes(&there, &alice, "asking").await;
        there.get(1, m::ContactAccept::NAME, json!({"who": alice})).await;
        becomes(&here, &bob, "accepted").await;
        // The one who declines may be the one who thinks better of it; then the other is asked.
        there.get(1, m::ContactDecline::NAME, json!({"who": alice})).await;
        becomes(&here, &bob, "declined").await;
        assert_eq!(there.get(1, verb, json!({"who": alice})).await["state"], "requested");
        becomes(&here, &bob, "asking").await;
        here.get(1, m::ContactAccept::NAME, json!({"who": bob})).await;
        becomes(&there, &alice, "accepted").await;
        // A block is not told: who lifts it is a contact again without anybody's doing.
        there.get(1, m::ContactBlock::NAME, json!({"who": alice})).await;
        there.get(1, m::ContactAccept::NAME, json!({"who": alice})).await;
        becomes(&there, &alice, "accepted").await;
        here.send(1, json!({"to": bob, "text": "hi"})).await;
        assert_eq!(there.take_texts(1, 1).await, ["hi"]);
    }
}

/// As an earlier version left it, or a word that was lost.
#[tokio::test]
async fn who_believes_to_be_a_contact_and_is_not_can_ask() {
    let (mut here, there, alice, bob) = strangers().await;
    here.get(1, m::ContactRequest::NAME, json!({"who": bob})).await;
    becomes(&there, &alice, "asking").await;
    there.get(1, m::ContactDecline::NAME, json!({"who": alice})).await;
    becomes(&here, &bob, "declined").await;
    here.stop().await;
    let database = rusqlite::Connection::open(here.config.dir.join("mail.db")).unwrap();
    database.execute("UPDATE contacts SET state = 'accepted'", []).unwrap();
    drop(database);
    here.start();
    here.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    here.get(1, m::ContactRequest::NAME, json!({"who": bob})).await;
    becomes(&there, &alice, "asking").await;
    there.get(1, m::ContactAccept::NAME, json!({"who": alice})).await;
    here.send(1, json!({"to": bob, "text": "hi"})).await;
    assert_eq!(there.take_texts(1, 1).await, ["hi"]);
}

#[tokio::test]
async fn mail_from_who_was_blocked_later_is_refused_and_told() {
    let (here, there, alice, bob) = strangers().await;
    here.get(1, m::ContactRequest::NAME, json!({"who": bob})).await;
    becomes(&there, &alice, "asking").await;
    there.get(1, m::ContactAccept::NAME, json!({"who": alice})).await;
    becomes(&here, &bob, "accepted").await;
    there.get(1, m::ContactBlock::NAME, json!({"who": alice})).await;
    let id = here.send(1, json!({"to": bob, "text": "hi"})).await;
    assert_eq!(here.reaches(1, &id, "failed").await["reason"], "blocked");
    assert!(there.is_empty(1).await);
}

#[tokio::test]
async fn mail_that_nobody_reads_there_fails_at_its_time() {
    let (here, there, alice, bob) = strangers().await;
    here.get(1, m::ContactRequest::NAME, json!({"who": bob})).await;
    becomes(&there, &alice, "asking").await;
    there.get(1, m::ContactAccept::NAME, json!({"who": alice})).await;
    becomes(&here, &bob, "accepted").await;
    let id = here.send(1, json!({"to": bob, "text": "hurry", "expires_s": 0.3})).await;
    here.reaches(1, &id, "routed").await;
    here.clock.advance(301);
    assert_eq!(here.reaches(1, &id, "failed").await["reason"], "expired");
}

#[tokio::test]
async fn agents_of_one_owner_need_not_ask_but_may_block() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let list = office.get(1, m::ContactList::NAME, json!({})).await;
    assert_eq!((&list["contacts"][0]["who"], &list["contacts"][0]["state"]), (&json!("bob"), &json!("own")));
    office.get(2, m::ContactBlock::NAME, json!({"who": "alice"})).await;
    let id = office.send(1, json!({"to": "bob", "text": "hi"})).await;
    assert_eq!(office.reaches(1, &id, "failed").await["reason"], "blocked");
    office.get(2, m::ContactAccept::NAME, json!({"who": "alice"})).await;
    office.send(1, json!({"to": "bob", "text": "again"})).await;
    assert_eq!(office.take_texts(2, 1).await, ["again"]);
}

#[tokio::test]
async fn a_name_that_a_contact_has_names_no_new_agent() {
    let (here, there, alice, bob) = strangers().await;
    here.get(1, m::ContactRequest::NAME, json!({"who": bob})).await;
    becomes(&there, &alice, "asking").await;
    there.get(1, m::ContactAccept::NAME, json!({"who": alice})).await;
    becomes(&here, &bob, "accepted").await;
    let fault = here.ask(0, m::AgentCreate::NAME, json!({"name": "bob"})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "INVALID_PARAMS");
    assert!(fault.message.contains(&bob) && fault.message.contains("contact of alice"), "{fault}");
    here.send(1, json!({"to": "bob", "text": "still you"})).await;
    assert_eq!(there.take_texts(1, 1).await, ["still you"]);
    // Who is no contact any more gives the name up.
    here.get(1, m::ContactDecline::NAME, json!({"who": "bob"})).await;
    here.get(0, m::AgentCreate::NAME, json!({"name": "bob"})).await;
    here.get(2, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    here.send(1, json!({"to": "bob", "text": "the new one"})).await;
    assert_eq!(here.take_texts(2, 1).await, ["the new one"]);
    assert_eq!(becomes(&here, &bob, "declined").await["who"], bob.as_str());
}

#[tokio::test]
async fn who_asks_under_the_name_of_an_own_agent_is_accepted_by_address() {
    for first in [true, false] {
        let (here, there, alice, bob) = strangers().await;
        if first {
            there.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
        }
        here.get(1, m::ContactRequest::NAME, json!({"who": bob})).await;
        becomes(&there, &alice, "asking").await;
        if !first {
            there.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
        }
        let fault = there.ask(1, m::ContactAccept::NAME, json!({"who": "alice"})).await.unwrap_err();
        assert!(fault.message.contains(&alice), "{fault}");
        there.get(1, m::ContactAccept::NAME, json!({"who": alice})).await;
        becomes(&here, &bob, "accepted").await;
        assert_eq!(there.get(1, m::ContactAccept::NAME, json!({"who": "alice"})).await["state"], "own");
    }
}

#[tokio::test]
async fn a_word_that_finds_a_full_mailbox_comes_later() {
    const ROOM: u64 = 20;
    let limits = EmbeddedLimits { max_mailbox_packets: ROOM, ..EmbeddedLimits::default() };
    let (here, mut there, alice, bob) = strangers_at(Office::within(limits)).await;
    let carol = here.get(0, m::AgentCreate::NAME, json!({"name": "carol"})).await["address"].clone();
    here.get(2, m::AgentUse::NAME, json!({"agent": "carol"})).await;
    for (connection, asker) in [(1, alice.as_str()), (2, carol.as_str().unwrap())] {
        here.get(connection, m::ContactRequest::NAME, json!({"who": bob})).await;
        becomes(&there, asker, "asking").await;
        there.get(1, m::ContactAccept::NAME, json!({"who": asker})).await;
        let id = || here.ask(connection, m::MailSend::NAME, json!({"to": "bob", "text": "hi"}));
        let sent = || async { id().await.map_or(Value::Null, |sent| sent["message_id"].clone()) };
        let id = support::until("they are contacts", sent, |id| !id.is_null()).await;
        here.reaches(connection, id.as_str().unwrap(), "routed").await;
    }
    there.stop().await;
    let (from, to) = (Address::parse(&alice).unwrap(), Address::parse(&bob).unwrap());
    for n in 0..ROOM {
        let (from, to) = (from.clone(), to.clone());
        let junk = Outgoing { from, to, id: format!("{n:064}"), bytes: format!("junk {n}").into_bytes() };
        here.relay.publish(vec![junk]).await.unwrap();
    }
    here.get(1, m::ContactDecline::NAME, json!({"who": bob})).await;
    // Said later, refused no sooner.
    let id = here.send(2, json!({"to": bob, "text": "full?"})).await;
    assert_eq!(here.reaches(2, &id, "failed").await["reason"], "mailbox_full");
    there.start();
    there.get(1, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    let told = || async {
        here.clock.advance(4_000_000);
        here.mail().tick().await.unwrap();
        there.get(1, m::ContactList::NAME, json!({})).await
    };
    let is_told = |list: &Value| {
        let rows = list["contacts"].as_array().unwrap();
        rows.iter().any(|row| row["address"] == alice.as_str() && row["state"] == "declined")
    };
    support::until("she is told", told, is_told).await;
}

/// A word of acceptance that nobody asked for makes no contact, whatever was said before.
#[tokio::test]
async fn nobody_becomes_a_contact_by_saying_so() {
    let office = Office::open();
    let to = alice(&office).await;
    for before in ["nothing", "asking", "declined"] {
        let mut peer = Handmade::at(&office).await;
        let mut ratchet = peer.ratchet(&office, &to).await;
        if before != "nothing" {
            peer.ask_under_name(&office, &to, &mut ratchet, &format!("eve-{before}")).await;
        }
        if before == "declined" {
            office.get(1, m::ContactDecline::NAME, json!({"who": peer.address().as_str()})).await;
        }
        let word = format!("C{}", json!({"say": "accepted", "name": "mallory"}));
        peer.publish(&office, &to, &mut ratchet, 1, word.as_bytes()).await;
        peer.mail(&office, &to, &mut ratchet, b"unwanted").await;
    }
    // The mailbox keeps the order, so this comes after all of theirs.
    let mut friend = Handmade::at(&office).await;
    let mut ratchet = friend.introduce(&office, &to, "friend").await;
    friend.mail(&office, &to, &mut ratchet, b"wanted").await;
    assert_eq!(office.take_texts(1, 1).await, ["wanted"]);
    // And a contact of one agent is none of another's, not even by name.
    office.get(0, m::AgentCreate::NAME, json!({"name": "bob"})).await;
    office.get(2, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    let fault = office.ask(2, m::MailSend::NAME, json!({"to": "friend", "text": "hi"})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "AGENT_NOT_FOUND");
}

#[tokio::test]
async fn hostile_words_are_only_words() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    for name in ["", ".", "..", "a/b", "a b", "é", "a\nb", &"x".repeat(33), &"a".repeat(32)] {
        let fault = office.ask(0, m::AgentCreate::NAME, json!({"name": name})).await.unwrap_err();
        assert_eq!(fault.code.as_str(), "INVALID_PARAMS", "{name:?}");
    }
    let hostile =
        "\u{1b}[2J\u{0}$(rm -rf /)`x`\"; DROP TABLE mail; --\n\u{1}tp-auto\u{1}{\"envelope_version\":1}";
    let used = json!({"agent": "alice", "cwd": hostile, "harness_session_id": hostile, "harness": hostile});
    let label = office.get(3, m::AgentUse::NAME, used).await["label"].as_str().unwrap().to_owned();
    assert!(trl_mail::label::Label::new(&label).is_ok(), "{label}");
    let send = json!({"to": "bob", "text": hostile, "in_reply_to": hostile});
    office.send(3, send).await;
    let got = office.take(2).await;
    assert_eq!((text(&got[0]).as_str(), &got[0]["auto"]), (hostile, &json!(false)));
    let fault = office.ask(2, m::MailStatus::NAME, json!({"message_id": hostile})).await.unwrap_err();
    assert!(!fault.message.contains('\u{1b}'), "{fault:?}");
}
