//! What the auto-responder's guards read in the store, and what keeps automatic mail of sessions from going in circles.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should say where")]

use rusqlite::Connection;
use serde_json::{Value, json};
use trl_mail::identity::Address;
use trl_mail::seal::Ratchet;
use trl_protocol::{Method as _, methods as m};

use crate::autorespond::{all_judged, dead_letters, office_with};
use crate::handmade::{Handmade, alice};
use crate::support::{Office, START_MS, until};

async fn answered(office: &Office, agent: &str, connection: u64) -> Value {
    office.get(connection, m::AgentUse::NAME, json!({ "agent": agent, "label": "looks" })).await;
    office.get(connection, m::MailAutorespond::NAME, json!({})).await["answered_today"].clone()
}

fn store(office: &Office) -> Connection {
    Connection::open(office.config.dir.join("mail.db")).unwrap()
}

/// A message whose sender says what it likes about how it came to be.
pub fn letter(text: &str, hops: u32, chain: &[&str]) -> Vec<u8> {
    let body = json!({
        "envelope_version": trl_mail::envelope::ENVELOPE_VERSION, "version": 1,
        "message": { "id": format!("msg-{text}"), "line": 0, "role": "agent", "text": text, "timestamp": "2026-01-02T03:04:05.678Z" },
        "scope": { "wrapper_session_id": "x", "harness_session_id": "x" },
        "tp": { "v": 1, "from_session": "cli:1" },
        "trl": { "v": 1, "session": "u", "hops": hops, "chain": chain, "expires_at": START_MS + 60_000 },
    });
    body.to_string().into_bytes()
}

/// Alice, who answers by a command and is not there, and a contact made by hand.
async fn alice_away() -> (Office, Address, Handmade, Ratchet) {
    let office = Office::open();
    let to = alice(&office).await;
    let mut peer = Handmade::at(&office).await;
    let ratchet = peer.introduce(&office, &to, "eve").await;
    office.get(1, m::MailAutorespond::NAME, json!({"action": "on", "command": ["echo", "ok"]})).await;
    office.get(1, m::AgentRelease::NAME, json!({})).await;
    (office, to, peer, ratchet)
}

#[tokio::test]
async fn a_chain_that_has_us_in_it_or_is_too_long_is_not_answered() {
    for (hops, of_us, why) in [(1, true, "in this chain"), (3, false, "too many automatic answers")] {
        let (office, to, mut peer, mut ratchet) = alice_away().await;
        let other = peer.address();
        let chain = if of_us { [other.as_str(), to.as_str()] } else { [other.as_str(), other.as_str()] };
        peer.mail(&office, &to, &mut ratchet, &letter("round", hops, &chain)).await;
        // Until it is judged nobody may be live, or the message is theirs.
        office.get(0, m::AgentCreate::NAME, json!({"name": "asker"})).await;
        office.get(2, m::AgentUse::NAME, json!({"agent": "asker"})).await;
        let ask = json!({"to": "alice", "text": "after it", "timeout_s": 20.0});
        assert_eq!(office.get(2, m::MailSendAndWait::NAME, ask).await["reply"]["text"], "ok");
        let found = dead_letters(&office, "alice", 1).await;
        assert!(found[0]["reason"].as_str().unwrap().contains(why), "{found:?}");
        assert_eq!((found.len(), answered(&office, "alice", 1).await), (1, json!(1)));
    }
}

#[tokio::test]
async fn an_agent_answers_neither_itself_nor_what_it_asked_for() {
    let office = office_with(&["bot"], &["echo", "yes"], |_| {}).await;
    office.get(10, m::AgentUse::NAME, json!({"agent": "bot"})).await;
    let asked = office.send(10, json!({"to": "alice", "text": "well?"})).await;
    office.send(10, json!({"to": "bot", "text": "to myself"})).await;
    office.get(10, m::AgentRelease::NAME, json!({})).await;
    let got = office.take(1).await;
    let reply = json!({"to": "bot", "text": "no", "in_reply_to": got[0]["message_id"]});
    let replied = office.send(1, reply).await;
    office.reaches(1, &replied, "held").await;
    all_judged(&office, 1).await;
    assert_eq!(answered(&office, "bot", 10).await, json!(0));
    let status = office.get(10, m::MailStatus::NAME, json!({"message_id": asked})).await;
    assert_eq!(status["state"], "replied", "{status}");
}

/// Whoever answers a machine means its agent: no session of that name will ever read it.
#[tokio::test]
async fn a_reply_to_an_automatic_answer_waits_for_the_agents_next_session_and_is_not_answered() {
    let office = office_with(&["bot"], &["echo", "ok"], |_| {}).await;
    let ask = json!({"to": "bot", "text": "hello", "timeout_s": 20.0});
    let answer = office.get(1, m::MailSendAndWait::NAME, ask).await["reply"]["message_id"].clone();
    let reply = json!({"message_id": answer, "text": "thanks"});
    let first = office.get(1, m::MailReply::NAME, reply).await["message_id"].as_str().unwrap().to_owned();
    let second = office.send(1, json!({"to": "bot", "text": "once more", "in_reply_to": answer})).await;
    for id in [&first, &second] {
        office.reaches(1, id, "held").await;
    }
    all_judged(&office, 1).await;
    office.get(10, m::AgentUse::NAME, json!({"agent": "bot"})).await;
    assert_eq!(office.take_texts(10, 3).await, ["hello", "thanks", "once more"]);
    assert_eq!(answered(&office, "bot", 11).await, json!(1));
}

/// What the machine wrote meanwhile takes no conversation away from the session that has it.
#[tokio::test]
async fn an_automatic_answer_leaves_a_conversation_with_its_session() {
    let office = office_with(&["bot"], &["echo", "ok"], |_| {}).await;
    let claim = |id: &str| json!({"agent": "bot", "harness_session_id": id});
    for (connection, id) in [(10, "h1"), (11, "h2")] {
        office.get(connection, m::AgentUse::NAME, claim(id)).await;
    }
    office.send(11, json!({"to": "alice", "text": "hi"})).await;
    assert_eq!(office.take_texts(1, 1).await, ["hi"]);
    for connection in [10, 11] {
        office.get(connection, m::AgentRelease::NAME, json!({})).await;
    }
    let ask = json!({"to": "bot", "text": "are you there?", "timeout_s": 20.0});
    assert_eq!(office.get(1, m::MailSendAndWait::NAME, ask).await["reply"]["text"], "ok");
    for (connection, id) in [(10, "h1"), (11, "h2")] {
        office.get(connection, m::AgentUse::NAME, claim(id)).await;
    }
    office.send(1, json!({"to": "bot", "text": "you again"})).await;
    assert_eq!(office.take_texts(11, 1).await, ["you again"]);
}

#[tokio::test]
async fn every_sender_has_an_hourly_budget_and_all_share_the_daily_one() {
    let office = office_with(&["bot"], &["echo", "ok"], |config| {
        config.auto.per_pair_per_hour = 1;
        config.auto.per_day = 2;
    })
    .await;
    for (connection, name) in [(2, "bob"), (3, "carol")] {
        office.get(0, m::AgentCreate::NAME, json!({ "name": name })).await;
        office.get(connection, m::AgentUse::NAME, json!({ "agent": name })).await;
    }
    let ask = json!({"to": "bot", "text": "hello", "timeout_s": 20.0});
    for connection in [1, 2] {
        let asked = office.get(connection, m::MailSendAndWait::NAME, ask.clone()).await;
        assert_eq!(asked["reply"]["text"], "ok", "{asked}");
    }
    let third = office.send(3, json!({"to": "bot", "text": "hello"})).await;
    office.reaches(3, &third, "held").await;
    all_judged(&office, 1).await;
    let found = dead_letters(&office, "bot", 10).await;
    assert!(found[0]["reason"].as_str().unwrap().contains("daily budget"), "{found:?}");
    // A session that came and went makes no new case of it.
    office.get(10, m::AgentRelease::NAME, json!({})).await;
    office.reaches(3, &third, "held").await;
    let rung = json!({"to": "wakeup", "text": "?", "timeout_s": 20.0});
    assert_eq!(office.get(3, m::MailSendAndWait::NAME, rung).await["reply"]["text"], "ding");
    assert_eq!(dead_letters(&office, "bot", 10).await.len(), 1);
}

/// A command that ends when it is told to.
struct Gate(tempfile::TempDir);

impl Gate {
    fn new() -> Gate {
        Gate(tempfile::tempdir().unwrap())
    }

    async fn office(&self) -> Office {
        let dir = self.0.path().display();
        // It ends by itself, too: nothing is left behind by a test that fails.
        let script = format!(
            "touch {dir}/begun; n=0; until [ -e {dir}/open ] || [ $n = 2000 ]; do sleep 0.01; n=$((n+1)); done; echo ok"
        );
        office_with(&["bot"], &["sh", "-c", &script], |config| config.auto.max_running = 1).await
    }

    async fn begun(&self) {
        let begun = async || json!(self.0.path().join("begun").exists());
        until("its command runs", begun, |begun| *begun == true).await;
    }

    fn open(&self) {
        std::fs::write(self.0.path().join("open"), "").unwrap();
    }
}

/// What a session has taken before its turn came is that session's.
#[tokio::test]
async fn a_message_that_somebody_took_meanwhile_is_not_answered() {
    let gate = Gate::new();
    let office = gate.office().await;
    office.send(1, json!({"to": "bot", "text": "first"})).await;
    gate.begun().await;
    let second = office.send(1, json!({"to": "bot", "text": "second"})).await;
    office.reaches(1, &second, "held").await;
    office.get(10, m::AgentUse::NAME, json!({"agent": "bot"})).await;
    assert_eq!(office.take_texts(10, 2).await, ["first", "second"]);
    gate.open();
    assert_eq!(office.take_texts(1, 1).await, ["ok"]);
    all_judged(&office, 1).await;
    assert_eq!(answered(&office, "bot", 11).await, json!(1));
}

#[tokio::test]
async fn an_answer_that_the_end_of_the_daemon_cut_off_is_a_dead_letter() {
    let gate = Gate::new();
    let mut office = gate.office().await;
    office.send(1, json!({"to": "bot", "text": "hello"})).await;
    gate.begun().await;
    office.restart().await;
    let found = dead_letters(&office, "bot", 10).await;
    assert!(found[0]["reason"].as_str().unwrap().contains("the daemon ended"), "{found:?}");
}

/// Passes a message on from agent to agent until one refuses: how often it was passed on, and why not further.
async fn passed_on(office: &Office, ring: &[(u64, &str)]) -> (usize, String) {
    let on = |n: usize, params: Value| office.ask(ring[n % ring.len()].0, m::MailSend::NAME, params);
    on(0, json!({"to": ring[1].1, "text": "pass it on"})).await.unwrap();
    for passed in 0..12 {
        let got = office.take(ring[(passed + 1) % ring.len()].0).await;
        let next = ring[(passed + 2) % ring.len()].1;
        let params =
            json!({"to": next, "text": "pass it on", "auto": true, "in_reply_to": got[0]["message_id"]});
        if let Err(fault) = on(passed + 1, params).await {
            return (passed, fault.message.to_string());
        }
    }
    panic!("nobody stops it");
}

#[tokio::test]
async fn automatic_mail_of_sessions_ends_where_it_has_been_or_is_too_far() {
    let ring = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f")];
    let office = Office::with(|config| config.auto.max_hops = 100);
    office.agents(&ring.map(|(_, name)| name)).await;
    let (passed, why) = passed_on(&office, &ring[..3]).await;
    assert_eq!(passed, 3, "once round, and the second sees itself in the chain");
    assert!(why.contains("already answered by itself"), "{why}");
    let office = Office::with(|config| config.auto.max_hops = 2);
    office.agents(&ring.map(|(_, name)| name)).await;
    let (passed, why) = passed_on(&office, &ring).await;
    assert_eq!(passed, 2);
    assert!(why.contains("too many automatic answers"), "{why}");
}

/// A peer that invents a chain makes our mail no longer.
#[tokio::test]
async fn a_chain_does_not_grow_without_end() {
    let mut office = Office::open();
    let to = alice(&office).await;
    let mut peer = Handmade::at(&office).await;
    let mut ratchet = peer.introduce(&office, &to, "eve").await;
    let address = peer.address();
    peer.mail(&office, &to, &mut ratchet, &letter("long", 0, &[address.as_str(); 60])).await;
    let got = office.take(1).await;
    let reply = json!({"message_id": got[0]["message_id"], "text": "beep", "auto": true});
    office.get(1, m::MailReply::NAME, reply).await;
    office.stop().await;
    let body: Vec<u8> = store(&office).query_row("SELECT body FROM outbox", [], |row| row.get(0)).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let chain = body["trl"]["chain"].as_array().unwrap();
    assert_eq!((chain.len(), chain[31].as_str()), (32, Some(to.as_str())), "{body}");
}
