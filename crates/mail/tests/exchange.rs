//! Two agents, one machine: sending, reading, answering, and the truth about it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use serde_json::{Value, json};
use trl_mail::relay::conformance;
use trl_protocol::{Method as _, methods as m};

use crate::support;
use crate::support::{Office, text};

#[tokio::test]
async fn the_embedded_relay_is_fit() {
    let home = tempfile::tempdir().unwrap();
    let relay = support::relay_in(home.path());
    conformance::all(&relay).await.unwrap();
}

#[tokio::test]
async fn a_message_arrives_and_its_sender_knows() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let sent = office.get(1, m::MailSend::NAME, json!({"to": "bob", "text": "hello"})).await;
    assert_eq!((&sent["via"], &sent["from_session"]), (&json!("embedded"), &json!("claude:1")));
    let id = sent["message_id"].as_str().unwrap();
    let got = office.take(2).await;
    assert_eq!(got.len(), 1);
    assert_eq!(got[0]["message_id"], id);
    assert_eq!((&got[0]["from"], &got[0]["text"]), (&json!("alice"), &json!("hello")));
    assert_eq!((&got[0]["role"], &got[0]["auto"]), (&json!("agent"), &json!(false)));
    office.reaches(1, id, "offered").await;
    assert!(office.get(2, m::MailInbox::NAME, json!({})).await["messages"].as_array().unwrap().is_empty());
    let status = office.reaches(1, id, "read").await;
    let states: Vec<_> =
        status["history"].as_array().unwrap().iter().map(|row| row["state"].clone()).collect();
    for state in ["queued", "sealed", "relayed", "delivered", "routed", "offered", "read"] {
        assert!(states.contains(&json!(state)), "{state} is missing in {states:?}");
    }
}

#[tokio::test]
async fn many_messages_both_ways_keep_their_order() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    for n in 0..60 {
        office.send(1, json!({"to": "bob", "text": format!("a{n}")})).await;
        office.send(2, json!({"to": "alice", "text": format!("b{n}")})).await;
    }
    let to_bob = office.take_texts(2, 60).await;
    let to_alice = office.take_texts(1, 60).await;
    assert_eq!(to_bob, (0..60).map(|n| format!("a{n}")).collect::<Vec<_>>());
    assert_eq!(to_alice, (0..60).map(|n| format!("b{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reply_goes_to_who_wrote_or_to_nobody() {
    let office = Office::open();
    office.agents(&["alice", "bob", "carol"]).await;
    office.get(4, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    office.get(2, m::MailSend::NAME, json!({"to": "carol", "text": "so that bob knows carol"})).await;
    office.get(1, m::MailSend::NAME, json!({"to": "bob", "text": "question"})).await;
    let asked = office.take(2).await[0]["message_id"].clone();
    let reply = |to: &str| json!({"message_id": asked, "text": "answer", "to": to});
    for other in ["carol", "carol/claude:1"] {
        let fault = office.ask(2, m::MailReply::NAME, reply(other)).await.unwrap_err();
        assert!(fault.message.contains("is from alice, not from \"carol\""), "{}", fault.message);
    }
    office.get(2, m::MailReply::NAME, reply("alice")).await;
    assert_eq!(office.take_texts(1, 1).await, ["answer"], "the session that asked");
    office.get(2, m::MailReply::NAME, reply("alice/claude:2")).await;
    assert_eq!(office.take_texts(4, 1).await, ["answer"], "the session that is named");
}

#[tokio::test]
async fn a_reply_finds_who_asked() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    office.get(3, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    let question = json!({"to": "bob", "text": "how many?", "timeout_s": 10.0});
    let ask = office.get(3, m::MailSendAndWait::NAME, question);
    let answer = async {
        let got = office.take(2).await;
        assert_eq!(got[0]["from_session"], "claude:2");
        office.get(2, m::MailReply::NAME, json!({"message_id": got[0]["message_id"], "text": "three"})).await
    };
    let (replied, sent) = tokio::join!(ask, answer);
    assert_eq!(sent["to_session"], "claude:2");
    assert_eq!((&replied["reply"]["text"], &replied["timed_out"]), (&json!("three"), &json!(false)));
    // Waited for and got, so it is read; and it never was the other session's.
    assert!(office.is_empty(3).await && office.is_empty(1).await);
    let id = replied["message_id"].as_str().unwrap();
    office.reaches(3, id, "replied").await;
    let again = office.get(3, m::MailCheckReply::NAME, json!({"message_id": id})).await;
    assert_eq!(again["reply"]["text"], "three");
}

#[tokio::test]
async fn replies_before_during_and_after_the_wait() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let id = office.send(1, json!({"to": "bob", "text": "q"})).await;
    let checked = office.get(1, m::MailCheckReply::NAME, json!({"message_id": id})).await;
    assert!(checked["reply"].is_null());
    let late = office.get(1, m::MailAwaitReply::NAME, json!({"message_id": id, "timeout_s": 0.05})).await;
    assert_eq!((&late["reply"], &late["timed_out"]), (&json!(null), &json!(true)));
    let got = office.take(2).await;
    office.get(2, m::MailReply::NAME, json!({"message_id": got[0]["message_id"], "text": "r"})).await;
    let before = office.get(1, m::MailAwaitReply::NAME, json!({"message_id": id, "timeout_s": 10.0})).await;
    assert_eq!(before["reply"]["text"], "r");
    let after = office.get(1, m::MailAwaitReply::NAME, json!({"message_id": id, "timeout_s": 0.0})).await;
    assert_eq!(after["reply"]["text"], "r");
}

#[tokio::test]
async fn a_reply_from_the_wrong_peer_or_session_never_matches() {
    let office = Office::open();
    office.agents(&["alice", "bob", "mallory"]).await;
    office.get(4, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    let id = office.send(1, json!({"to": "bob/claude:2", "text": "only you"})).await;
    assert_eq!(text(&office.take(4).await[0]), "only you");
    office.send(3, json!({"to": "alice", "text": "forged", "in_reply_to": id})).await;
    office.send(2, json!({"to": "alice", "text": "wrong session", "in_reply_to": id})).await;
    office.take_texts(1, 2).await;
    let checked = office.get(1, m::MailCheckReply::NAME, json!({"message_id": id})).await;
    assert!(checked["reply"].is_null(), "{checked}");
    office.send(4, json!({"to": "alice", "text": "right", "in_reply_to": id})).await;
    let got = office.get(1, m::MailAwaitReply::NAME, json!({"message_id": id, "timeout_s": 10.0})).await;
    assert_eq!(got["reply"]["text"], "right");
}

/// Whose answer it is decides, not what it claims to answer.
#[tokio::test]
async fn only_who_was_asked_makes_a_message_replied() {
    let office = Office::open();
    office.agents(&["alice", "bob", "carol"]).await;
    let asked = office.send(1, json!({"to": "bob", "text": "well?"})).await;
    office.take_texts(2, 1).await;
    office.send(3, json!({"to": "alice", "text": "I am not bob", "in_reply_to": asked})).await;
    assert_eq!(office.take_texts(1, 1).await, ["I am not bob"]);
    let status = office.get(1, m::MailStatus::NAME, json!({"message_id": asked})).await;
    assert_ne!(status["state"], "replied", "{status}");
    let checked = office.get(1, m::MailCheckReply::NAME, json!({"message_id": asked})).await;
    assert!(checked["reply"].is_null(), "{checked}");
    office.send(2, json!({"to": "alice", "text": "yes", "in_reply_to": asked})).await;
    office.reaches(1, &asked, "replied").await;
    // Nor is a reply sent to somebody else than who wrote.
    let got = office.take(1).await;
    let reply = json!({"message_id": got[0]["message_id"], "to": "carol", "text": "for bob"});
    let fault = office.ask(1, m::MailReply::NAME, reply).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "INVALID_PARAMS");
}

/// Alice speaks on the first connection, Bob on the second; his token also speaks for him elsewhere.
async fn bobs_token(office: &Office) -> Value {
    office.agents(&["alice"]).await;
    office.get(2, m::AgentCreate::NAME, json!({"name": "bob"})).await;
    office.get(2, m::AgentUse::NAME, json!({"agent": "bob"})).await["token"].clone()
}

/// A token may be used on any connection, also on one that speaks for nobody.
#[tokio::test]
async fn what_a_token_took_on_a_connection_that_is_lost_comes_again() {
    let office = Office::open();
    let token = bobs_token(&office).await;
    let by_token = json!({"as": token, "wait_s": 10.0});
    office.send(1, json!({"to": "bob", "text": "first"})).await;
    let first = office.get(7, m::MailInbox::NAME, by_token.clone()).await;
    assert_eq!(text(&first["messages"][0]), "first");
    office.mail().connection_closed(7).await.unwrap();
    let again = office.get(8, m::MailInbox::NAME, by_token.clone()).await;
    assert_eq!(text(&again["messages"][0]), "first");
    office.send(1, json!({"to": "bob", "text": "second"})).await;
    let second = office.get(8, m::MailInbox::NAME, by_token).await;
    assert_eq!(text(&second["messages"][0]), "second", "the next call on a connection acknowledges");
}

#[tokio::test]
async fn naming_what_was_read_leaves_alone_what_others_are_reading() {
    let office = Office::open();
    let token = bobs_token(&office).await;
    let by_token = json!({"as": token, "wait_s": 10.0});
    office.send(1, json!({"to": "bob", "text": "first"})).await;
    assert_eq!(office.take_texts(2, 1).await, ["first"]);
    office.send(1, json!({"to": "bob", "text": "second"})).await;
    let second = office.get(7, m::MailInbox::NAME, by_token.clone()).await;
    assert_eq!(text(&second["messages"][0]), "second");
    let named = json!({"as": token, "ack": [second["messages"][0]["message_id"]]});
    let rest = office.get(7, m::MailInbox::NAME, named).await;
    assert_eq!(rest["messages"], json!([]), "the first is still in the hands of the other reader");
    office.mail().connection_closed(2).await.unwrap();
    let again = office.get(7, m::MailInbox::NAME, by_token).await;
    assert_eq!(text(&again["messages"][0]), "first");
}

#[tokio::test]
async fn leases_survive_lost_results() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    for n in 0..3 {
        office.send(1, json!({"to": "bob", "text": format!("{n}")})).await;
    }
    let mut first = Vec::new();
    while first.len() < 3 {
        first = office.get(2, m::MailInbox::NAME, json!({"wait_s": 1.0, "peek": true})).await["messages"]
            .as_array()
            .unwrap()
            .clone();
    }
    let taken = office.take(2).await;
    assert_eq!(taken.len(), 3);
    // Only the second is acknowledged: the others were not seen and come again.
    let again = office.get(2, m::MailInbox::NAME, json!({"ack": [taken[1]["message_id"]]})).await;
    let texts: Vec<_> = again["messages"].as_array().unwrap().iter().map(text).collect();
    assert_eq!(texts, ["0", "2"]);
    // The connection is lost with its result: the same session finds them again.
    office.mail().connection_closed(2).await.unwrap();
    office.get(5, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    office.get(5, m::AgentRelease::NAME, json!({})).await;
    let back = office.get(6, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "h"})).await;
    assert_eq!(back["label"], "claude:1");
}

#[tokio::test]
async fn who_is_unknown_is_said_at_once_with_the_nearest_name() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let fault = office.ask(1, m::MailSend::NAME, json!({"to": "bobb", "text": "x"})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "AGENT_NOT_FOUND");
    assert!(fault.message.contains("did you mean `bob`"), "{fault}");
    let nobody = "a".repeat(32);
    let fault = office.ask(1, m::MailSend::NAME, json!({"to": nobody, "text": "x"})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "AGENT_NOT_FOUND");
}

#[tokio::test]
async fn bad_requests_are_refused_and_stored_nowhere() {
    let office = Office::with(|config| {
        config.max_text_bytes = 100;
        config.rate_per_minute = 2;
    });
    office.agents(&["alice", "bob"]).await;
    let cases = [
        (1, json!({"to": "bob", "text": "x".repeat(101)}), "PAYLOAD_TOO_LARGE"),
        (1, json!({"to": "bob", "text": "x", "to_session": "a b"}), "INVALID_PARAMS"),
        (1, json!({"to": "bob/é", "text": "x"}), "INVALID_PARAMS"),
        (1, json!({"to": "bob", "text": " \n"}), "INVALID_PARAMS"),
        (1, json!({"to": "bob/a", "text": "x", "to_session": "b"}), "INVALID_PARAMS"),
        (1, json!({"to": "bob", "text": "x", "role": "system"}), "INVALID_PARAMS"),
        (1, json!({"to": "bob", "text": "x", "expires_s": -1.0}), "INVALID_PARAMS"),
        (9, json!({"to": "bob", "text": "x"}), "AUTH_FAILED"),
        (9, json!({"to": "bob", "text": "x", "as": "nonsense"}), "AUTH_FAILED"),
    ];
    for (connection, params, code) in cases {
        let fault = office.ask(connection, m::MailSend::NAME, params.clone()).await.unwrap_err();
        assert_eq!(fault.code.as_str(), code, "{params}");
    }
    assert!(office.is_empty(2).await);
    office.send(1, json!({"to": "bob", "text": "1"})).await;
    office.send(1, json!({"to": "bob", "text": "2"})).await;
    let fault = office.ask(1, m::MailSend::NAME, json!({"to": "bob", "text": "3"})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "RESOURCE_PRESSURE");
}

#[tokio::test]
async fn a_token_speaks_for_its_session_anywhere() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let used = office.get(7, m::AgentUse::NAME, json!({"agent": "alice", "label": "reviewer"})).await;
    let token = used["token"].as_str().unwrap();
    office.send(99, json!({"to": "bob", "text": "hi", "as": token})).await;
    assert_eq!(office.take(2).await[0]["from_session"], "reviewer");
    let who = office.get(98, m::AgentWhoami::NAME, json!({"as": token})).await;
    assert_eq!(
        (&who["agent"], &who["label"], &who["mode"]),
        (&json!("alice"), &json!("reviewer"), &json!("daemon"))
    );
    assert_eq!(who["live_sessions"], json!(["claude:1", "reviewer"]));
}

#[tokio::test]
async fn subscribers_hear_of_counts_and_ids_only() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let mut news = office.mail().subscribe(Default::default(), trl_mail::Caller::on(2)).await.unwrap();
    let id = office.send(1, json!({"to": "bob", "text": "secret"})).await;
    let event = serde_json::to_value(news.next().await.unwrap()).unwrap();
    assert_eq!(event, json!({"count": 1, "ids": [id]}));
    let second = office.send(1, json!({"to": "bob", "text": "more"})).await;
    let event = news.next().await.unwrap();
    assert_eq!((event.count, event.ids), (2, vec![second]));
}

#[tokio::test]
async fn one_owner_and_the_second_is_told_who() {
    let office = Office::open();
    let clock = std::sync::Arc::new(trl_mail::clock::SystemClock);
    let processes = std::sync::Arc::new(trl_mail::presence::SystemProcesses);
    let relay = std::sync::Arc::new(office.relay.clone());
    let second = trl_mail::Mail::open(office.config.clone(), clock, processes, relay);
    let error = second.unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
}

#[tokio::test]
async fn a_reader_that_vanishes_takes_nothing_with_it() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    for n in 0..40 {
        let sent = format!("{n}");
        let abandoned = office.get(2, m::MailInbox::NAME, json!({"wait_s": 10.0}));
        let send = office.send(1, json!({"to": "bob", "text": sent}));
        // Wherever the reader is when it is dropped, what it did not get is there for the next.
        let patience = std::time::Duration::from_micros(n * 400);
        let (got, _) = tokio::join!(tokio::time::timeout(patience, abandoned), send);
        let mut texts = match got {
            Ok(inbox) => inbox["messages"].as_array().unwrap().iter().map(text).collect(),
            Err(_) => Vec::new(),
        };
        if texts.is_empty() {
            texts = office.take_texts(2, 1).await;
        }
        assert_eq!(texts, [sent]);
    }
}

/// What the text becomes on its way counts, too: a sign that has to be escaped is six.
#[tokio::test]
async fn a_message_that_no_packet_has_room_for_is_refused_at_once() {
    let limits = trl_mail::relay::EmbeddedLimits { max_packet_bytes: 8192, ..Default::default() };
    let office = Office::within(limits);
    office.agents(&["alice", "bob"]).await;
    let letter = |count: usize| json!({"to": "bob", "text": "\u{1}".repeat(count)});
    let fault = office.ask(1, m::MailSend::NAME, letter(1200)).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "PAYLOAD_TOO_LARGE", "{fault}");
    assert!(fault.message.starts_with("the text has 1200 bytes,"), "{fault}");
    let id = office.send(1, letter(500)).await;
    office.reaches(1, &id, "routed").await;
}
