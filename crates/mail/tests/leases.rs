//! Leases that the store refused to write: the reader has its messages all the same, and nobody else confirms them.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_mail::steps::{Step, Steps};
use trl_mail::{Caller, MailError};

use crate::support::{GUARD, Office, ask, text};

/// An office whose store can be told to refuse leases.
struct Scene {
    office: Office,
    refuses: Arc<AtomicBool>,
    /// Leases that were written.
    written: Arc<AtomicU64>,
}

impl Scene {
    /// Alice on connection 1, and Bob with these sessions.
    async fn with(policy: &str, sessions: u64) -> (Scene, Vec<Value>) {
        let (refuses, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, counted) = (Arc::clone(&refuses), Arc::clone(&written));
        let steps = Steps::watched(move |step| match step {
            Step::InboxOffered if told.load(Ordering::SeqCst) => Err(MailError::Injected(step)),
            Step::InboxOffered => {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
            _ => Ok(()),
        });
        let office = Office::with(|config| config.steps = steps);
        office.agents(&["alice"]).await;
        office.get(0, m::AgentCreate::NAME, json!({"name": "bob", "policy": policy})).await;
        let mut tokens = Vec::new();
        for n in 0..sessions {
            tokens.push(office.get(2 + n, m::AgentUse::NAME, json!({"agent": "bob"})).await["token"].clone());
        }
        (Scene { office, refuses, written }, tokens)
    }

    /// Sends a message to Bob, which is in his inbox when this returns.
    async fn send(&self, text: &str) -> String {
        let id = self.office.send(1, json!({"to": "bob", "text": text})).await;
        self.office.reaches(1, &id, "routed").await;
        id
    }

    /// What a session finds, on a connection or with its token alone.
    async fn look(&self, caller: Caller, token: &Value) -> Vec<String> {
        let inbox = ask(self.office.mail(), caller, m::MailInbox::NAME, json!({"as": token})).await.unwrap();
        // Transactions are done in turn: after this one it is known whether the lease was written.
        self.office.get(1, m::AgentWhoami::NAME, json!({})).await;
        inbox["messages"].as_array().unwrap().iter().map(text).collect()
    }

    async fn until_written(&self) {
        let end = std::time::Instant::now() + GUARD;
        while self.written.load(Ordering::SeqCst) == 0 {
            assert!(std::time::Instant::now() < end, "no lease was written");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn another_session_confirms_nothing_that_it_was_not_handed() {
    let (scene, tokens) = Scene::with("broadcast", 2).await;
    scene.send("for both").await;
    scene.refuses.store(true, Ordering::SeqCst);
    // Neither asks on a connection, so only the session tells the two apart.
    assert_eq!(scene.look(Caller::default(), &tokens[0]).await, ["for both"]);
    assert_eq!(scene.look(Caller::default(), &tokens[1]).await, ["for both"]);
}

#[tokio::test]
async fn another_connection_of_the_session_neither_gets_nor_confirms_it() {
    let (scene, tokens) = Scene::with("primary", 1).await;
    scene.send("once").await;
    scene.refuses.store(true, Ordering::SeqCst);
    assert_eq!(scene.look(Caller::on(7), &tokens[0]).await, ["once"]);
    for _ in 0..2 {
        assert_eq!(scene.look(Caller::on(8), &tokens[0]).await, [""; 0]);
    }
    // The reader is gone without having confirmed it.
    scene.refuses.store(false, Ordering::SeqCst);
    scene.office.mail().connection_closed(7).await.unwrap();
    let again = scene.office.get(8, m::MailInbox::NAME, json!({"as": tokens[0], "wait_s": 20.0})).await;
    assert_eq!(text(&again["messages"][0]), "once");
}

#[tokio::test]
async fn what_its_reader_has_confirmed_stays_read_when_the_lease_is_written_late() {
    let (scene, tokens) = Scene::with("primary", 1).await;
    let first = scene.send("first").await;
    scene.refuses.store(true, Ordering::SeqCst);
    assert_eq!(scene.look(Caller::on(7), &tokens[0]).await, ["first"]);
    assert_eq!(scene.look(Caller::on(7), &tokens[0]).await, [""; 0]);
    scene.office.reaches(1, &first, "read").await;
    scene.refuses.store(false, Ordering::SeqCst);
    scene.until_written().await;
    // Receipts come in order, so what is told of the second was told after all about the first.
    let second = scene.send("second").await;
    assert_eq!(scene.look(Caller::on(7), &tokens[0]).await, ["second"]);
    assert_eq!(scene.look(Caller::on(7), &tokens[0]).await, [""; 0]);
    scene.office.reaches(1, &second, "read").await;
    let status = scene.office.get(1, m::MailStatus::NAME, json!({"message_id": first})).await;
    let states: Vec<&str> =
        status["history"].as_array().unwrap().iter().filter_map(|row| row["state"].as_str()).collect();
    assert_eq!(states.last(), Some(&"read"), "{states:?}");
    assert!(!states.contains(&"offered"), "{states:?}");
}

/// A lease that is written at last is like any other: what was handed out under it and taken back is handed out again.
#[tokio::test]
async fn a_lease_that_was_written_late_is_over_when_it_is_withdrawn() {
    let (scene, tokens) = Scene::with("primary", 1).await;
    scene.send("again").await;
    scene.refuses.store(true, Ordering::SeqCst);
    assert_eq!(scene.look(Caller::default(), &tokens[0]).await, ["again"]);
    scene.refuses.store(false, Ordering::SeqCst);
    scene.until_written().await;
    // Nothing of what was handed out has been seen.
    let nothing = json!({"as": tokens[0], "peek": true, "ack": []});
    ask(scene.office.mail(), Caller::default(), m::MailInbox::NAME, nothing).await.unwrap();
    assert_eq!(scene.look(Caller::default(), &tokens[0]).await, ["again"]);
}

/// A request without a connection of its own holds what it took only as long as its session is there.
#[tokio::test]
async fn what_a_token_took_comes_again_when_its_session_is_lost() {
    let (scene, _) = Scene::with("primary", 0).await;
    let claim = json!({"agent": "bob", "harness_session_id": "h1"});
    let token = scene.office.get(2, m::AgentUse::NAME, claim.clone()).await["token"].clone();
    let id = scene.send("again").await;
    assert_eq!(scene.look(Caller::default(), &token).await, ["again"]);
    scene.office.reaches(1, &id, "offered").await;
    scene.office.mail().connection_closed(2).await.unwrap();
    let token = scene.office.get(3, m::AgentUse::NAME, claim).await["token"].clone();
    assert_eq!(scene.look(Caller::on(3), &token).await, ["again"]);
}

/// On a full disk a change may be accepted and its commit refused: what was handed out stays handed out.
#[tokio::test]
async fn what_was_handed_out_is_not_handed_out_again_while_no_commit_succeeds() {
    let (refuses, offered) = (Arc::new(AtomicBool::new(false)), AtomicBool::new(false));
    let (told, refused) = (Arc::clone(&refuses), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&refused);
    let steps = Steps::watched(move |step| {
        if step == Step::InboxOffered {
            offered.store(true, Ordering::SeqCst);
        }
        if step == Step::StoreCommit && offered.swap(false, Ordering::SeqCst) && told.load(Ordering::SeqCst) {
            counted.fetch_add(1, Ordering::SeqCst);
            return Err(MailError::Injected(step));
        }
        Ok(())
    });
    let office = Office::with(|config| config.steps = steps);
    office.agents(&["alice", "bob"]).await;
    let id = office.send(1, json!({"to": "bob", "text": "once"})).await;
    office.reaches(1, &id, "routed").await;
    refuses.store(true, Ordering::SeqCst);
    assert_eq!(office.take_texts(2, 1).await, ["once"]);
    // The daemon tries again to write it down.
    let tries = async || json!(refused.load(Ordering::SeqCst));
    crate::support::until("it was tried twice", tries, |tries| tries.as_u64() >= Some(2)).await;
    // A request that shares a refused commit is refused with it, and may ask again.
    let inbox = loop {
        match office.ask(2, m::MailInbox::NAME, json!({"wait_s": 0.15})).await {
            Ok(inbox) => break inbox,
            Err(fault) => assert!(fault.message.contains("a commit failed"), "{fault}"),
        }
    };
    assert_eq!(inbox["messages"], json!([]));
    refuses.store(false, Ordering::SeqCst);
    office.reaches(1, &id, "read").await;
}
