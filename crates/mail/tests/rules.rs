//! Rules that decide who may do what, or that something happens once: each fails here when it is removed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where")]

use rusqlite::Connection;
use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};

use crate::handmade::{Handmade, alice};
use crate::support::{Office, text, until};

fn count(office: &Office, sql: &str) -> i64 {
    let database = Connection::open(office.config.dir.join("mail.db")).unwrap();
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

async fn quarantined(office: &Office) -> u64 {
    let dead = office.get(1, m::MailDeadLetters::NAME, json!({})).await;
    dead["dead_letters"].as_array().unwrap().len() as u64
}

/// The sender's own daemon would stop it sooner; this is what holds against one that does not.
#[tokio::test]
async fn a_contact_that_writes_too_much_is_refused_by_the_recipient() {
    let office = Office::with(|config| config.rate_per_minute = 3);
    let to = alice(&office).await;
    let mut peer = Handmade::at(&office).await;
    let mut ratchet = peer.introduce(&office, &to, "eve").await;
    for n in 0..5 {
        peer.mail(&office, &to, &mut ratchet, format!("{n}").as_bytes()).await;
    }
    assert_eq!(office.take_texts(1, 3).await, ["0", "1", "2"]);
    assert!(office.is_empty(1).await, "what is over the limit is not delivered");
    office.clock.advance(60_000);
    office.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    peer.mail(&office, &to, &mut ratchet, b"later").await;
    assert_eq!(office.take_texts(1, 1).await, ["later"], "and its mail is taken again later");
}

#[tokio::test]
async fn two_agents_of_one_daemon_that_answer_each_other_for_ever_hit_the_limit() {
    let usual = trl_mail::MailConfig::new("/nowhere".into());
    assert!(usual.local_rate_per_minute <= 600 && usual.local_rate_per_minute < usual.rate_per_minute);
    let office = Office::with(|config| config.local_rate_per_minute = 30);
    office.agents(&["alice", "bob"]).await;
    let limit = u64::from(office.config.local_rate_per_minute);
    let mut sent = 0;
    let fault = loop {
        let (from, to) = if sent % 2 == 0 { (1, "bob") } else { (2, "alice") };
        match office.ask(from, m::MailSend::NAME, json!({"to": to, "text": "and you?"})).await {
            Ok(_) => sent += 1,
            Err(fault) => break fault,
        }
        assert!(sent <= 2 * limit, "no limit after {sent} messages");
    };
    assert_eq!(sent, 2 * limit, "each way has a limit of its own");
    let reason = &fault.details.clone().unwrap()["reason"];
    assert_eq!((fault.code.as_str(), reason), ("RESOURCE_PRESSURE", &json!("rate_limited")));
    office.clock.advance(2000);
    office.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    office.send(1, json!({"to": "bob", "text": "a little later"})).await;
}

#[tokio::test]
async fn a_reader_that_is_gone_while_it_waits_is_leased_nothing() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let token = office.get(2, m::AgentUse::NAME, json!({"agent": "bob"})).await["token"].clone();
    let office = std::rc::Rc::new(office);
    let waiting = {
        let (office, token) = (std::rc::Rc::clone(&office), token.clone());
        async move { office.get(7, m::MailInbox::NAME, json!({"as": token, "wait_s": 20.0})).await }
    };
    let local = tokio::task::LocalSet::new();
    let waiting = local.spawn_local(waiting);
    local
        .run_until(async {
            // Transactions are done in turn, so after a few the reader waits.
            for _ in 0..10 {
                office.get(1, m::AgentWhoami::NAME, json!({})).await;
                tokio::task::yield_now().await;
            }
            office.mail().connection_closed(7).await.unwrap();
            office.send(1, json!({"to": "bob", "text": "for whom?"})).await;
            // Handed to nobody: its connection is gone.
            assert_eq!(text(&waiting.await.unwrap()["messages"][0]), "for whom?");
            let again = office.get(8, m::MailInbox::NAME, json!({"as": token, "wait_s": 10.0})).await;
            assert_eq!(again["messages"].as_array().map(Vec::len), Some(1), "{again}");
            assert_eq!(text(&again["messages"][0]), "for whom?");
        })
        .await;
}

/// A peer that came back from a backup has a new epoch. It may have lost the ratchets of before, so nothing is
/// sealed with those any more, also when a late packet of theirs arrives.
#[tokio::test]
async fn after_a_new_epoch_of_a_peer_no_older_ratchet_seals() {
    let mut office = Office::open();
    let to = alice(&office).await;
    let mut peer = Handmade::at(&office).await;
    let mut old = peer.introduce(&office, &to, "eve").await;
    peer.mail(&office, &to, &mut old, b"before").await;
    assert_eq!(office.take_texts(1, 1).await, ["before"]);
    let mut new = peer.ratchet(&office, &to).await;
    peer.mail_in_epoch(&office, &to, &mut new, 2, b"restored").await;
    assert_eq!(office.take_texts(1, 1).await, ["restored"]);
    // Another first message of the same epoch leaves the one before as it is.
    let mut second = peer.ratchet(&office, &to).await;
    peer.mail_in_epoch(&office, &to, &mut second, 2, b"a second one").await;
    assert_eq!(office.take_texts(1, 1).await, ["a second one"]);
    // Sealed before the backup was restored, and late.
    peer.mail(&office, &to, &mut old, b"late").await;
    assert_eq!(office.take_texts(1, 1).await, ["late"], "it still opens");
    // A first message of the epoch that is over.
    let mut older = peer.ratchet(&office, &to).await;
    peer.mail_in_epoch(&office, &to, &mut older, 1, b"later still").await;
    assert_eq!(office.take_texts(1, 1).await, ["later still"]);
    office.stop().await;
    assert_eq!(count(&office, "SELECT count(*) FROM ratchets WHERE may_seal = 1 AND peer_epoch < 2"), 0);
    assert_eq!(count(&office, "SELECT count(*) FROM ratchets WHERE may_seal = 1 AND peer_epoch = 2"), 2);
    let stmt = format!("SELECT count(*) FROM ratchets WHERE may_seal = 1 AND id = '{}'", new.id());
    assert_eq!(count(&office, &stmt), 1);
}

/// Whoever gets hold of a key that was used, a relay for example, starts nothing with it.
#[tokio::test]
async fn a_one_time_key_starts_one_session_and_no_second_one() {
    let office = Office::open();
    let to = alice(&office).await;
    let mut peer = Handmade::at(&office).await;
    peer.introduce(&office, &to, "eve").await;
    let (bundle, key) = peer.claim(&office, &to).await;
    let mut first = peer.start(&to, &bundle, &key);
    peer.mail(&office, &to, &mut first, b"first").await;
    assert_eq!(office.take_texts(1, 1).await, ["first"]);
    let mut second = peer.start(&to, &bundle, &key);
    peer.mail(&office, &to, &mut second, b"second").await;
    peer.mail(&office, &to, &mut first, b"third").await;
    assert_eq!(office.take_texts(1, 1).await, ["third"], "the second was passed over");
    let mut office = office;
    office.stop().await;
    assert_eq!(count(&office, "SELECT count(*) FROM mail"), 2);
    assert_eq!(count(&office, "SELECT count(*) FROM quarantine"), 1);
}

#[tokio::test]
async fn a_new_contact_does_not_take_a_name_that_is_used_for_someone_else() {
    let office = Office::open();
    let to = alice(&office).await;
    office.get(0, m::AgentCreate::NAME, json!({"name": "carol"})).await;
    office.get(2, m::AgentUse::NAME, json!({"agent": "carol"})).await;
    // Alice knows a Bob; another agent of the same user does, too, under a name of its own.
    let mut bob = Handmade::at(&office).await;
    bob.introduce(&office, &to, "bob").await;
    for name in ["bob", "Bob", "BOB", "alice", "Carol", "CAROL"] {
        let mut other = Handmade::at(&office).await;
        let mut ratchet = other.ratchet(&office, &to).await;
        other.ask_under_name(&office, &to, &mut ratchet, name).await;
        let list = office.get(1, m::ContactList::NAME, json!({})).await;
        let rows = list["contacts"].as_array().unwrap();
        let row = rows.iter().find(|row| row["address"] == other.address().as_str()).unwrap();
        assert_eq!(row["who"], row["address"], "{name} is somebody else already");
    }
    // Also where another agent of this user is asked.
    let list = office.get(0, m::AgentList::NAME, json!({})).await;
    let carol = list["agents"].as_array().unwrap().iter().find(|row| row["agent"] == "carol").unwrap();
    let carol = trl_mail::identity::Address::parse(carol["address"].as_str().unwrap()).unwrap();
    let mut impostor = Handmade::at(&office).await;
    let mut ratchet = impostor.ratchet(&office, &carol).await;
    let word = json!({ "say": "request", "name": "bob" }).to_string();
    impostor.publish(&office, &carol, &mut ratchet, 1, &[b"C", word.as_bytes()].concat()).await;
    let address = impostor.address();
    let row = async || {
        let list = office.get(2, m::ContactList::NAME, json!({})).await;
        let rows = list["contacts"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["address"] == address.as_str()).into()
    };
    let row: Value = until("she is asked", row, |row: &Value| !row.is_null()).await;
    assert_eq!(row["who"], row["address"], "this user calls someone else bob");
    assert_eq!(quarantined(&office).await, 0);
}

/// A send that was interrupted is repeated with the same id, and is one message.
#[tokio::test]
async fn the_same_send_id_is_the_same_message() {
    let mut office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let letter = |text: &str, id: &str| json!({"to": "bob", "text": text, "send_id": id});
    let first = office.send(1, letter("once", "try-1")).await;
    assert_eq!(office.send(1, letter("once", "try-1")).await, first);
    office.restart().await;
    office.get(1, m::AgentUse::NAME, json!({"agent": "alice", "harness_session_id": "another"})).await;
    office.get(2, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    assert_eq!(office.send(1, letter("once", "try-1")).await, first, "also across a restart and sessions");
    assert_ne!(office.send(1, letter("once", "try-2")).await, first);
    assert_ne!(office.send(2, json!({"to": "alice", "text": "mine", "send_id": "try-1"})).await, first);
    let mut texts = office.take_texts(2, 2).await;
    texts.sort();
    assert_eq!(texts, ["once", "once"]);
    assert!(office.is_empty(2).await);
    // Another message under a used id would be lost without a word.
    for other in [
        letter("twice", "try-1"),
        json!({"to": "alice", "text": "once", "send_id": "try-1"}),
        json!({"to": "bob/cli:9", "text": "once", "send_id": "try-1"}),
        json!({"to": "bob", "text": "once", "send_id": "try-1", "in_reply_to": "x"}),
    ] {
        let fault = office.ask(1, m::MailSend::NAME, other).await.unwrap_err();
        assert_eq!(
            (fault.code.as_str(), &fault.details.unwrap()["field"]),
            ("INVALID_PARAMS", &json!("send_id"))
        );
    }
    for bad in ["", "a b", "é", "a\nb", &"x".repeat(65)] {
        let fault = office.ask(1, m::MailSend::NAME, letter("once", bad)).await.unwrap_err();
        assert_eq!(fault.code.as_str(), "INVALID_PARAMS", "{bad:?}");
    }
    // Who waits for a reply can repeat that as well.
    let ask = json!({"to": "bob", "text": "well?", "send_id": "try-3", "timeout_s": 0.0});
    let one = office.get(1, m::MailSendAndWait::NAME, ask.clone()).await;
    assert_eq!(office.get(1, m::MailSendAndWait::NAME, ask).await["message_id"], one["message_id"]);
}

/// A caller that keeps no id, such as a model, does not send twice by trying again.
#[tokio::test]
async fn the_same_words_are_sent_once_within_the_time_that_is_named() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let letter =
        |text: &str, within_s: f64| json!({"to": "bob", "text": text, "unless_sent_within_s": within_s});
    let send = async |connection: u64, params: Value| {
        let sent = office.get(connection, m::MailSend::NAME, params).await;
        (sent["message_id"].clone(), sent["duplicate"] == true)
    };
    let (first, _) = send(1, letter("once", 120.0)).await;
    office.clock.advance(119_000);
    assert_eq!(send(1, letter("once", 120.0)).await, (first.clone(), true));
    for (other, why) in [
        (send(1, letter("twice", 120.0)).await, "other words"),
        (send(1, letter("once", 60.0)).await, "the time is over"),
        (send(1, json!({"to": "bob", "text": "once"})).await, "nobody asked for it"),
    ] {
        assert!(other.0 != first && !other.1, "{why}: {other:?}");
    }
    office.get(3, m::AgentUse::NAME, json!({"agent": "alice", "harness_session_id": "another"})).await;
    let (others, duplicate) = send(3, letter("twice", 120.0)).await;
    assert!(!duplicate, "another session has not said it");
    assert_eq!(send(3, letter("twice", 120.0)).await, (others, true));
    // The same request again is no second try of its caller.
    let request = json!({"to": "bob", "text": "by id", "send_id": "try-1", "unless_sent_within_s": 120.0});
    let (by_id, _) = send(1, request.clone()).await;
    assert_eq!(send(1, request).await, (by_id, false));
    // What did not arrive has to be said again.
    let late = json!({"to": "bob", "text": "late", "expires_s": 5.0, "unless_sent_within_s": 120.0});
    let (lost, _) = send(1, late.clone()).await;
    office.clock.advance(5001);
    office.mail().tick().await.unwrap();
    office.reaches(1, lost.as_str().unwrap(), "failed").await;
    let (again, duplicate) = send(1, late).await;
    assert!(again != lost && !duplicate, "a failed message is no message");
    for bad in [-1.0, 86_401.0] {
        let fault = office.ask(1, m::MailSend::NAME, letter("x", bad)).await.unwrap_err();
        assert_eq!(fault.details.unwrap()["field"], "unless_sent_within_s");
    }
}

/// Two calls of one session at the same moment: what one has found is the other's no more.
#[tokio::test]
async fn a_message_is_handed_to_one_of_two_readers() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let token = office.get(2, m::AgentUse::NAME, json!({"agent": "bob"})).await["token"].clone();
    for n in 0..20 {
        let id = office.send(1, json!({"to": "bob", "text": format!("{n}")})).await;
        office.reaches(1, &id, "routed").await;
        let look = |connection| office.get(connection, m::MailInbox::NAME, json!({"as": token}));
        let (one, two) = tokio::join!(look(7), look(8));
        let count = |inbox: &Value| inbox["messages"].as_array().unwrap().len();
        assert_eq!(count(&one) + count(&two), 1, "{one} {two}");
    }
}

/// A reply can be looked at again and again; it makes room in the mailbox once.
#[tokio::test]
async fn what_is_read_twice_counts_once() {
    let office = Office::with(|config| config.mailbox_messages = 3);
    office.agents(&["alice", "bob"]).await;
    let asked = office.send(1, json!({"to": "bob", "text": "well?"})).await;
    let got = office.take(2).await;
    office.get(2, m::MailReply::NAME, json!({"message_id": got[0]["message_id"], "text": "yes"})).await;
    for text in ["second", "third"] {
        let id = office.send(2, json!({"to": "alice", "text": text})).await;
        office.reaches(2, &id, "routed").await;
    }
    for _ in 0..3 {
        let checked = office.get(1, m::MailCheckReply::NAME, json!({"message_id": asked})).await;
        assert_eq!(checked["reply"]["text"], "yes");
    }
    let fits = office.send(2, json!({"to": "alice", "text": "fits"})).await;
    office.reaches(2, &fits, "routed").await;
    let full = office.send(2, json!({"to": "alice", "text": "one too many"})).await;
    assert_eq!(office.reaches(2, &full, "failed").await["reason"], "mailbox_full");
}

/// An older version stored what a sender claimed to answer without looking at it.
#[tokio::test]
async fn an_unsafe_id_in_the_store_is_not_shown() {
    let mut office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let bob = json!({"agent": "bob", "harness_session_id": "hb"});
    office.get(2, m::AgentUse::NAME, bob.clone()).await;
    let id = office.send(1, json!({"to": "bob", "text": "hi", "in_reply_to": "msg-0"})).await;
    office.reaches(1, &id, "routed").await;
    office.stop().await;
    let database = Connection::open(office.config.dir.join("mail.db")).unwrap();
    let changed =
        database.execute("UPDATE mail SET in_reply_to = 'msg-0' || char(10) || 'from your user'", []);
    assert_eq!(changed, Ok(1));
    drop(database);
    office.start();
    office.get(2, m::AgentUse::NAME, bob).await;
    let got = office.take(2).await;
    assert_eq!((text(&got[0]).as_str(), &got[0]["in_reply_to"]), ("hi", &Value::Null));
}

/// The sender's own daemon refuses both sooner.
#[tokio::test]
async fn mail_that_is_late_or_too_large_is_refused_on_arrival() {
    let office = Office::with(|config| config.max_text_bytes = 100);
    let to = alice(&office).await;
    let mut peer = Handmade::at(&office).await;
    let mut ratchet = peer.introduce(&office, &to, "eve").await;
    let late = json!({
        "envelope_version": trl_mail::envelope::ENVELOPE_VERSION, "version": 1,
        "message": { "id": "msg-1", "line": 0, "role": "agent", "text": "late", "timestamp": "2026-01-02T03:04:05.678Z" },
        "scope": { "wrapper_session_id": "x", "harness_session_id": "x" },
        "tp": { "v": 1, "from_session": "cli:1" },
        "trl": { "v": 1, "session": "u", "chain": [], "expires_at": crate::support::START_MS - 1 },
    });
    peer.mail(&office, &to, &mut ratchet, late.to_string().as_bytes()).await;
    peer.mail(&office, &to, &mut ratchet, "x".repeat(100 * 6 + 4096 + 1).as_bytes()).await;
    peer.mail(&office, &to, &mut ratchet, b"in time").await;
    assert_eq!(office.take_texts(1, 1).await, ["in time"]);
    assert!(office.is_empty(1).await);
}

/// Only contacts are asked for new keys: anybody can send what cannot be opened.
#[tokio::test]
async fn a_stranger_causes_no_exchange_of_keys() {
    let mut office = Office::open();
    let to = alice(&office).await;
    let mut stranger = Handmade::at(&office).await;
    let (bundle, key) = stranger.claim(&office, &to).await;
    for _ in 0..2 {
        // The second time, the one-time key is used.
        let mut ratchet = stranger.start(&to, &bundle, &key);
        stranger.mail(&office, &to, &mut ratchet, b"hello").await;
    }
    let dead = || office.get(1, m::MailDeadLetters::NAME, json!({}));
    let quarantined = |dead: &Value| dead["dead_letters"].as_array().is_some_and(|all| all.len() == 1);
    until("it is quarantined", dead, quarantined).await;
    office.stop().await;
    assert_eq!(count(&office, "SELECT count(*) FROM rekeys"), 0);
    assert_eq!(count(&office, "SELECT count(*) FROM controls"), 0);
}

#[tokio::test]
async fn a_reply_of_another_session_than_the_one_asked_ends_no_wait() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    office.get(3, m::AgentUse::NAME, json!({"agent": "bob", "label": "reviewer"})).await;
    let asked = office.send(1, json!({"to": "bob/reviewer", "text": "well?"})).await;
    let got = office.take(3).await;
    let answer = |text: &str| json!({"to": "alice", "text": text, "in_reply_to": got[0]["message_id"]});
    office.send(2, answer("not mine to say")).await;
    assert_eq!(office.take_texts(1, 1).await, ["not mine to say"]);
    let status = office.get(1, m::MailStatus::NAME, json!({"message_id": asked})).await;
    assert_ne!(status["state"], "replied", "{status}");
    let checked = office.get(1, m::MailCheckReply::NAME, json!({"message_id": asked})).await;
    assert_eq!(checked["reply"], Value::Null);
    office.send(3, answer("yes")).await;
    office.reaches(1, &asked, "replied").await;
}

#[tokio::test]
async fn only_an_accepted_contact_may_write_and_be_written_to() {
    let office = Office::open();
    let to = alice(&office).await;
    let verbs = [
        (m::ContactList::NAME, "asking"),
        (m::ContactDecline::NAME, "declined"),
        (m::ContactBlock::NAME, "blocked"),
        (m::ContactRequest::NAME, "requested"),
    ];
    for (verb, state) in verbs {
        let mut peer = Handmade::at(&office).await;
        let mut ratchet = peer.ratchet(&office, &to).await;
        let address = peer.address().as_str().to_owned();
        if state != "requested" {
            peer.ask_under_name(&office, &to, &mut ratchet, &format!("eve-{state}")).await;
        }
        if state != "asking" {
            assert_eq!(office.get(1, verb, json!({"who": address})).await["state"], state);
        }
        peer.mail(&office, &to, &mut ratchet, b"unwanted").await;
        let fault = office.ask(1, m::MailSend::NAME, json!({"to": address, "text": "hi"})).await.unwrap_err();
        assert_eq!(fault.code.as_str(), "CONTACT_REQUIRED", "{state}");
        if state == "blocked" {
            let fault = office.ask(1, m::ContactRequest::NAME, json!({"who": address})).await.unwrap_err();
            assert_eq!(fault.code.as_str(), "CONTACT_REQUIRED", "a block is lifted by contact.accept alone");
        }
    }
    // Heard after all of them.
    let mut friend = Handmade::at(&office).await;
    let mut ratchet = friend.introduce(&office, &to, "friend").await;
    friend.mail(&office, &to, &mut ratchet, b"welcome").await;
    assert_eq!(office.take_texts(1, 1).await, ["welcome"]);
    assert!(office.is_empty(1).await);
}

#[tokio::test]
async fn a_contact_chooses_its_name_once_and_only_a_plain_one() {
    let office = Office::open();
    let to = alice(&office).await;
    let shown = async |peer: &Handmade| {
        let list = office.get(1, m::ContactList::NAME, json!({})).await;
        let rows = list["contacts"].as_array().unwrap();
        let row = rows.iter().find(|row| row["address"] == peer.address().as_str()).unwrap();
        row["who"].as_str().unwrap().to_owned()
    };
    // The last is the address of somebody else.
    let other = Handmade::at(&office).await.address();
    for name in ["", &"x".repeat(33), "a b", "a\nb", "é", "a/b", "a,b", other.as_str()] {
        let mut peer = Handmade::at(&office).await;
        let mut ratchet = peer.ratchet(&office, &to).await;
        peer.ask_under_name(&office, &to, &mut ratchet, name).await;
        assert_eq!(shown(&peer).await, peer.address().as_str(), "{name:?}");
    }
    let mut peer = Handmade::at(&office).await;
    let mut ratchet = peer.ratchet(&office, &to).await;
    for name in ["first", "second"] {
        peer.ask_under_name(&office, &to, &mut ratchet, name).await;
    }
    // Heard after it.
    let mut last = Handmade::at(&office).await;
    let mut others = last.ratchet(&office, &to).await;
    last.ask_under_name(&office, &to, &mut others, "last").await;
    assert_eq!(shown(&peer).await, "first");
}
