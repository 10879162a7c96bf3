//! Labels, presence and routing, through the door that daemons use.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::process::{Child, Command, Stdio};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};

use crate::support::{Office, text, until};

/// A process to be live as; ended when the test is over.
struct Process(Child);

impl Process {
    fn start() -> Process {
        Process(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

async fn granted(office: &Office, connection: u64, params: Value) -> (String, String) {
    let used = office.get(connection, m::AgentUse::NAME, params).await;
    (used["label"].as_str().unwrap().to_owned(), used["reason"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn labels_are_granted_in_order_and_say_why() {
    let office = Office::open();
    office.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
    let reviewer = json!({"agent": "alice", "label": "reviewer", "harness_session_id": "h1"});
    assert_eq!(granted(&office, 1, reviewer.clone()).await, ("reviewer".into(), "requested".into()));
    let (label, reason) = granted(&office, 2, json!({"agent": "alice", "label": "reviewer"})).await;
    assert_eq!(label, "claude:1");
    assert!(reason.contains("holds reviewer"), "{reason}");
    assert_eq!(granted(&office, 3, json!({"agent": "alice", "harness": "codex"})).await.0, "codex:1");
    for bad in ["a b", "", "é", &"x".repeat(33), "a/b", "../x"] {
        let fault =
            office.ask(4, m::AgentUse::NAME, json!({"agent": "alice", "label": bad})).await.unwrap_err();
        assert_eq!(fault.code.as_str(), "INVALID_PARAMS", "{bad:?}");
    }
    office.mail().connection_closed(1).await.unwrap();
    let resumed = json!({"agent": "alice", "harness_session_id": "h1"});
    let (label, reason) = granted(&office, 5, resumed).await;
    assert_eq!((label.as_str(), reason.as_str()), ("reviewer", "last label of this harness session"));
}

#[tokio::test]
async fn memory_of_labels_survives_restarts() {
    let mut office = Office::open();
    office.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
    let used = json!({"agent": "alice", "label": "reviewer", "harness_session_id": "h1"});
    granted(&office, 1, used).await;
    for _ in 0..3 {
        office.restart().await;
        granted(&office, 2, json!({"agent": "alice"})).await;
        let back = granted(&office, 1, json!({"agent": "alice", "harness_session_id": "h1"})).await;
        assert_eq!(back.0, "reviewer");
    }
}

#[tokio::test]
async fn a_second_process_with_the_same_harness_id_is_fenced() {
    let office = Office::open();
    office.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
    let (mut first, second) = (Process::start(), Process::start());
    let claim = |pid| json!({"agent": "alice", "harness_session_id": "h1", "pid": pid});
    let used = office.get(1, m::AgentUse::NAME, claim(first.pid())).await;
    let (label, reason) = granted(&office, 2, claim(second.pid())).await;
    assert_eq!(label, "claude:2");
    assert!(reason.contains("another live process"), "{reason}");
    // The first is gone with its connection: its label is free, its token is worth nothing.
    first.end();
    office.mail().connection_closed(1).await.unwrap();
    let third = Process::start();
    assert_eq!(granted(&office, 3, claim(third.pid())).await.0, "claude:1");
    let fault = office.ask(9, m::AgentHeartbeat::NAME, json!({"as": used["token"]})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "AUTH_FAILED");
}

#[tokio::test]
async fn a_harness_session_is_claimed_again_by_its_own_process_or_connection() {
    let office = Office::open();
    office.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
    let process = Process::start();
    let claim = json!({"agent": "alice", "harness_session_id": "h1", "pid": process.pid()});
    assert_eq!(granted(&office, 1, claim.clone()).await.0, "claude:1");
    assert_eq!(granted(&office, 2, claim).await.0, "claude:1", "another connection of the same process");
    let claim = json!({"agent": "alice", "harness_session_id": "h2"});
    assert_eq!(granted(&office, 3, claim.clone()).await.0, "claude:2");
    assert_eq!(granted(&office, 3, claim.clone()).await.0, "claude:2", "the same connection");
    assert_eq!(granted(&office, 4, claim).await.0, "claude:3", "somebody else");
    let long = |length| json!({"agent": "alice", "harness_session_id": "h".repeat(length)});
    granted(&office, 5, long(256)).await;
    let fault = office.ask(6, m::AgentUse::NAME, long(257)).await.unwrap_err();
    assert!(fault.message.contains("harness_session_id"), "{fault}");
}

#[tokio::test]
async fn a_session_that_lost_its_label_is_told() {
    let office = Office::open();
    office.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
    let old = office.get(1, m::AgentUse::NAME, json!({"agent": "alice", "label": "x"})).await;
    office.mail().connection_closed(1).await.unwrap();
    granted(&office, 2, json!({"agent": "alice", "label": "x"})).await;
    let fault = office.ask(3, m::AgentHeartbeat::NAME, json!({"as": old["token"]})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "LABEL_TAKEN");
}

#[tokio::test]
async fn signs_of_life_decide_who_is_listed() {
    let office = Office::open();
    office.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
    let mut process = Process::start();
    let used = office.get(1, m::AgentUse::NAME, json!({"agent": "alice", "pid": process.pid()})).await;
    let live = || async {
        let list = office.get(9, m::AgentList::NAME, json!({})).await;
        list["agents"][0]["live_sessions"].clone()
    };
    assert_eq!(live().await, json!(["claude:1"]));
    // The connection vanishes: the process still lives and beat a moment ago.
    office.mail().connection_closed(1).await.unwrap();
    assert_eq!(live().await, json!(["claude:1"]));
    office.clock.advance(30_001);
    assert_eq!(live().await, json!([]));
    office.get(9, m::AgentHeartbeat::NAME, json!({"as": used["token"]})).await;
    assert_eq!(live().await, json!(["claude:1"]));
    // The clock goes back: the heartbeat is from the future.
    office.clock.advance(-60_000);
    assert_eq!(live().await, json!([]));
    office.clock.advance(60_000);
    process.end();
    assert_eq!(live().await, json!([]));
    let fault =
        office.ask(2, m::AgentUse::NAME, json!({"agent": "alice", "pid": process.pid()})).await.unwrap_err();
    assert!(fault.message.contains("no process"), "{fault}");
}

#[tokio::test]
async fn sixty_four_claims_at_once_get_sixty_four_labels() {
    let office = Office::open();
    office.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
    let claims =
        (1..=64).map(|n| office.get(n, m::AgentUse::NAME, json!({"agent": "alice", "label": "claude:7"})));
    let mut claims: Vec<_> = claims.map(Box::pin).collect();
    let mut labels = Vec::new();
    std::future::poll_fn(|context| {
        claims.retain_mut(|claim| match claim.as_mut().poll(context) {
            std::task::Poll::Ready(used) => {
                labels.push(used["label"].as_str().unwrap().to_owned());
                false
            }
            std::task::Poll::Pending => true,
        });
        if claims.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    labels.sort_by(|a, b| trl_mail::label::natural_order(a, b));
    assert_eq!(labels, (1..=64).map(|n| format!("claude:{n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn mail_for_a_session_waits_for_it_and_for_nobody_else() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    for n in 0..3 {
        office.send(1, json!({"to": "bob/reviewer", "text": format!("{n}")})).await;
    }
    let id = office.send(1, json!({"to": "bob/reviewer", "text": "3"})).await;
    office.reaches(1, &id, "held").await;
    assert!(office.is_empty(2).await);
    let held = office.get(2, m::MailHeld::NAME, json!({})).await;
    assert_eq!(held["messages"].as_array().unwrap().len(), 4);
    office.get(3, m::AgentUse::NAME, json!({"agent": "bob", "label": "reviewer"})).await;
    assert_eq!(office.take_texts(3, 4).await, ["0", "1", "2", "3"]);
}

#[tokio::test]
async fn after_the_grace_time_it_goes_back() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let id = office.send(1, json!({"to": "bob/reviewer", "text": "x"})).await;
    office.reaches(1, &id, "held").await;
    let wait = office.get(1, m::MailAwaitReply::NAME, json!({"message_id": id, "timeout_s": 10.0}));
    let bounce = async {
        office.clock.advance(3_600_001);
        office.mail().tick().await.unwrap();
    };
    let (waited, ()) = tokio::join!(wait, bounce);
    assert_eq!((&waited["failed"], &waited["timed_out"]), (&json!("session_closed"), &json!(false)));
    let status = office.reaches(1, &id, "failed").await;
    assert_eq!(status["reason"], "session_closed");
    office.get(3, m::AgentUse::NAME, json!({"agent": "bob", "label": "reviewer"})).await;
    assert!(office.is_empty(3).await);
}

#[tokio::test]
async fn untargeted_mail_follows_policy_when_someone_comes() {
    let office = Office::open();
    office.agents(&["alice"]).await;
    for (name, policy) in [("one", "primary"), ("all", "broadcast"), ("none", "drop")] {
        office.get(0, m::AgentCreate::NAME, json!({"name": name, "policy": policy})).await;
        let id = office.send(1, json!({"to": name, "text": name})).await;
        office.reaches(1, &id, "held").await;
    }
    for (n, name) in [(10, "one"), (20, "all"), (30, "none")] {
        office.get(n, m::AgentUse::NAME, json!({"agent": name})).await;
    }
    assert_eq!(text(&office.take(10).await[0]), "one");
    assert_eq!(text(&office.take(20).await[0]), "all");
    assert!(office.is_empty(30).await);
    for (n, name) in [(11, "one"), (21, "all")] {
        office.get(n, m::AgentUse::NAME, json!({"agent": name})).await;
    }
    office.send(1, json!({"to": "one", "text": "again"})).await;
    office.send(1, json!({"to": "all", "text": "again"})).await;
    assert_eq!(text(&office.take(10).await[0]), "again");
    assert_eq!(text(&office.take(20).await[0]), "again");
    assert_eq!(text(&office.take(21).await[0]), "again");
    assert!(office.is_empty(11).await);
    let dropped = office.send(1, json!({"to": "none", "text": "again"})).await;
    assert_eq!(office.reaches(1, &dropped, "failed").await["reason"], "dropped");
}

#[tokio::test]
async fn a_reused_label_never_gets_anothers_reply() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    office
        .get(3, m::AgentUse::NAME, json!({"agent": "alice", "label": "worker", "harness_session_id": "w1"}))
        .await;
    let id = office.send(3, json!({"to": "bob", "text": "question"})).await;
    let got = office.take(2).await;
    office.mail().connection_closed(3).await.unwrap();
    office.get(4, m::AgentUse::NAME, json!({"agent": "alice", "label": "worker"})).await;
    let answer = json!({"message_id": got[0]["message_id"], "text": "answer"});
    let reply = office.get(2, m::MailReply::NAME, answer).await;
    office.reaches(2, reply["message_id"].as_str().unwrap(), "held").await;
    assert!(office.is_empty(4).await && office.is_empty(1).await);
    // The asker comes back, under another label as its own is taken, and finds its reply.
    office.get(5, m::AgentUse::NAME, json!({"agent": "alice", "harness_session_id": "w1"})).await;
    assert_eq!(text(&office.take(5).await[0]), "answer");
    let checked = office.get(5, m::MailCheckReply::NAME, json!({"message_id": id})).await;
    assert_eq!(checked["reply"]["text"], "answer");
}

#[tokio::test]
async fn a_conversation_stays_with_its_session() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    office.get(3, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    office.send(3, json!({"to": "bob", "text": "hi"})).await;
    office.take(2).await;
    office.send(2, json!({"to": "alice", "text": "not a reply, just more"})).await;
    assert_eq!(text(&office.take(3).await[0]), "not a reply, just more");
    assert!(office.is_empty(1).await);
    // Its session is gone: policy decides again.
    office.get(3, m::AgentRelease::NAME, json!({})).await;
    office.send(2, json!({"to": "alice", "text": "still there?"})).await;
    assert_eq!(text(&office.take(1).await[0]), "still there?");
}

#[tokio::test]
async fn mail_that_is_past_its_time_is_not_read() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let held = office.send(1, json!({"to": "bob/later", "text": "x", "expires_s": 5.0})).await;
    office.reaches(1, &held, "held").await;
    let routed = office.send(1, json!({"to": "bob", "text": "y", "expires_s": 5.0})).await;
    office.reaches(1, &routed, "routed").await;
    office.clock.advance(5001);
    office.mail().tick().await.unwrap();
    for id in [&held, &routed] {
        assert_eq!(office.reaches(1, id, "failed").await["reason"], "expired");
    }
    assert!(office.is_empty(2).await);
}

/// Nobody calls for it here: the clock alone does it, also after it did something else.
#[tokio::test]
async fn routed_mail_fails_at_its_time_and_counts_no_more() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    let sooner = office.send(1, json!({"to": "bob", "text": "sooner", "expires_s": 0.3})).await;
    let later = json!({"to": "bob", "text": "later", "expires_s": 1.5, "timeout_s": 20.0});
    let ask = office.get(1, m::MailSendAndWait::NAME, later);
    let expire = async {
        let waiting = async |count: u64| {
            let beat = || office.get(2, m::AgentHeartbeat::NAME, json!({}));
            until(&format!("{count} wait"), beat, |beat| beat["waiting"] == count).await;
        };
        waiting(2).await;
        office.clock.advance(301);
        waiting(1).await;
        office.reaches(1, &sooner, "failed").await;
        office.clock.advance(1200);
        let look = office.get(2, m::MailInbox::NAME, json!({})).await;
        assert_eq!((&look["messages"], &look["remaining"]), (&json!([]), &json!(0)));
    };
    let (waited, ()) = tokio::join!(ask, expire);
    assert_eq!((&waited["failed"], &waited["timed_out"]), (&json!("expired"), &json!(false)));
}

#[tokio::test]
async fn mail_that_was_handed_out_and_lost_fails_too_when_its_time_is_over() {
    let office = Office::open();
    office.agents(&["alice"]).await;
    office.get(2, m::AgentCreate::NAME, json!({"name": "bob"})).await;
    let bob = office.get(2, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    let id = office.send(1, json!({"to": "bob", "text": "x", "expires_s": 0.3})).await;
    office.get(7, m::MailInbox::NAME, json!({"as": bob["token"], "wait_s": 10.0})).await;
    office.reaches(1, &id, "offered").await;
    office.clock.advance(301);
    office.mail().tick().await.unwrap();
    assert_eq!(office.get(1, m::MailStatus::NAME, json!({"message_id": id})).await["state"], "offered");
    office.mail().connection_closed(7).await.unwrap();
    assert_eq!(office.reaches(1, &id, "failed").await["reason"], "expired");
}

#[tokio::test]
async fn a_full_mailbox_says_so() {
    let office = Office::with(|config| config.mailbox_messages = 2);
    office.agents(&["alice", "bob"]).await;
    office.send(1, json!({"to": "bob", "text": "1"})).await;
    office.send(1, json!({"to": "bob", "text": "2"})).await;
    let third = office.send(1, json!({"to": "bob", "text": "3"})).await;
    assert_eq!(office.reaches(1, &third, "failed").await["reason"], "mailbox_full");
    assert_eq!(office.take_texts(2, 2).await, ["1", "2"]);
    office.get(2, m::MailInbox::NAME, json!({})).await;
    office.send(1, json!({"to": "bob", "text": "4"})).await;
    assert_eq!(office.take_texts(2, 1).await, ["4"]);
}

#[tokio::test]
async fn what_a_lost_session_left_goes_to_others_unless_it_is_for_that_one() {
    let office = Office::with(|config| config.heartbeat_fresh = std::time::Duration::from_millis(300));
    office.agents(&["alice", "bob"]).await;
    office.get(3, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    let anyone = office.send(1, json!({"to": "bob", "text": "for whoever is there"})).await;
    let named = office.send(1, json!({"to": "bob/claude:1", "text": "for you"})).await;
    for id in [&anyone, &named] {
        office.reaches(1, id, "routed").await;
    }
    office.mail().connection_closed(2).await.unwrap();
    office.clock.advance(301);
    // Nobody calls for it: the clock alone does it.
    assert_eq!(office.take_texts(3, 1).await, ["for whoever is there"]);
    assert!(office.is_empty(3).await);
    assert_eq!(office.get(1, m::MailStatus::NAME, json!({"message_id": named})).await["state"], "routed");
}

#[tokio::test]
async fn a_session_that_comes_back_soon_finds_its_mail() {
    let mut office = Office::open();
    office.get(0, m::AgentCreate::NAME, json!({"name": "alice"})).await;
    office.get(0, m::AgentCreate::NAME, json!({"name": "bob"})).await;
    office.get(1, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    let first = json!({"agent": "bob", "harness_session_id": "h1"});
    office.get(2, m::AgentUse::NAME, first.clone()).await;
    office.get(3, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "h2"})).await;
    let id = office.send(1, json!({"to": "bob", "text": "x"})).await;
    office.reaches(1, &id, "routed").await;
    office.mail().connection_closed(2).await.unwrap();
    office.clock.advance(20_000);
    office.mail().tick().await.unwrap();
    office.get(2, m::AgentUse::NAME, first.clone()).await;
    assert!(office.is_empty(3).await);
    // It was last seen long ago when the daemon ends; all have time to come back to the next one.
    office.clock.advance(100_000);
    office.restart().await;
    office.get(3, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "h2"})).await;
    office.mail().tick().await.unwrap();
    office.get(2, m::AgentUse::NAME, first).await;
    assert_eq!(office.take_texts(2, 1).await, ["x"]);
    assert!(office.is_empty(3).await);
}

#[tokio::test]
async fn a_connection_speaks_for_nobody_after_it_released_its_session() {
    let office = Office::open();
    office.agents(&["alice"]).await;
    office.get(1, m::AgentRelease::NAME, json!({})).await;
    let fault = office.ask(1, m::AgentWhoami::NAME, json!({})).await.unwrap_err();
    assert_eq!(fault.code.as_str(), "AUTH_FAILED", "{fault}");
}

#[tokio::test]
async fn what_a_released_session_left_unread_is_routed_again() {
    let office = Office::open();
    office.agents(&["alice", "bob"]).await;
    office.get(3, m::AgentUse::NAME, json!({"agent": "bob"})).await;
    let id = office.send(1, json!({"to": "bob", "text": "for whoever is there"})).await;
    office.reaches(1, &id, "routed").await;
    office.get(2, m::AgentRelease::NAME, json!({})).await;
    assert_eq!(text(&office.take(3).await[0]), "for whoever is there");
}

/// Who last wrote to the agent is the sender itself; that binds nothing.
#[tokio::test]
async fn untargeted_mail_to_ones_own_agent_goes_by_policy() {
    let office = Office::open();
    office.agents(&["alice"]).await;
    office.get(2, m::AgentUse::NAME, json!({"agent": "alice"})).await;
    for text in ["one", "two"] {
        office.send(2, json!({"to": "alice", "text": text})).await;
        assert_eq!(office.take_texts(1, 1).await, [text]);
    }
    assert!(office.is_empty(2).await);
}
