//! Telling sessions of new mail: once each, never what a waiting call takes, and not without end.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use serde_json::{Value, json};
use tokio::time::{Duration, timeout};
use trl_protocol::{Method as _, methods as m};

use crate::support::Office;

/// Ann writes on connection 1; bob's session of harness session `h` is on connection 2.
async fn ann_and_bob() -> Office {
    let office = Office::open();
    for name in ["ann", "bob"] {
        office.get(0, m::AgentCreate::NAME, json!({ "name": name })).await;
    }
    office.get(1, m::AgentUse::NAME, json!({"agent": "ann"})).await;
    office.get(2, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "h"})).await;
    office
}

fn waiter() -> Value {
    json!({"harness_session_id": "h", "wait_s": 20.0, "waiter": true, "wake": true, "claim": true})
}

fn ids(found: &Value) -> Vec<&str> {
    found["new"].as_array().unwrap().iter().map(|notice| notice["message_id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_message_is_announced_once_and_without_its_text() {
    let office = ann_and_bob().await;
    let waits = office.get(7, m::MailNotices::NAME, waiter());
    let (found, sent) = tokio::join!(waits, office.send(1, json!({"to": "bob", "text": "a secret"})));
    assert_eq!(ids(&found), [sent.as_str()]);
    assert_eq!(
        (&found["agent"], &found["label"], &found["unread"]),
        (&json!("bob"), &json!("claude:1"), &json!(1))
    );
    assert_eq!(
        (&found["new"][0]["from"], &found["new"][0]["from_session"]),
        (&json!("ann"), &json!("claude:1"))
    );
    assert!(!found.to_string().contains("secret"), "{found}");
    for again in [json!({"harness_session_id": "h", "claim": true}), json!({"harness_session_id": "h"})] {
        let found = office.get(7, m::MailNotices::NAME, again).await;
        assert_eq!((ids(&found).len(), &found["unread"]), (0, &json!(1)), "it waits to be read all the same");
    }
}

#[tokio::test]
async fn who_only_looks_leaves_it_to_others_until_it_says_that_it_announced() {
    let mut office = ann_and_bob().await;
    let sent = office.send(1, json!({"to": "bob", "text": "x"})).await;
    let look = json!({"wait_s": 20.0});
    for _ in 0..2 {
        assert_eq!(ids(&office.get(2, m::MailNotices::NAME, look.clone()).await), [sent.as_str()]);
    }
    let announced = json!({"announced": [sent, "of-another"]});
    assert!(ids(&office.get(2, m::MailNotices::NAME, announced).await).is_empty());
    office.restart().await;
    office.get(2, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "h"})).await;
    let found = office.get(2, m::MailNotices::NAME, json!({})).await;
    assert_eq!((ids(&found).len(), &found["unread"]), (0, &json!(1)));
}

#[tokio::test]
async fn what_a_waiting_call_takes_is_not_announced() {
    let office = ann_and_bob().await;
    let mut announced = std::pin::pin!(office.get(7, m::MailNotices::NAME, waiter()));
    let quiet = |announced: &Value| panic!("announced: {announced}");
    // By the inbox.
    let inbox = office.get(2, m::MailInbox::NAME, json!({"wait_s": 20.0}));
    let taken = async { tokio::join!(inbox, office.send(1, json!({"to": "bob", "text": "x"}))).0 };
    tokio::select! {
        found = &mut announced => quiet(&found),
        inbox = taken => assert_eq!(inbox["messages"].as_array().unwrap().len(), 1),
    }
    // And by a call that waits for a reply, also if the reply stays unread.
    let asks = office.get(
        2,
        m::MailSendAndWait::NAME,
        json!({"to": "ann", "text": "?", "timeout_s": 20.0, "peek": true}),
    );
    let answered = async {
        let question = office.take(1).await.remove(0);
        office.get(1, m::MailReply::NAME, json!({"message_id": question["message_id"], "text": "!"})).await
    };
    tokio::select! {
        found = &mut announced => quiet(&found),
        (reply, _) = async { tokio::join!(asks, answered) } => assert_eq!(reply["reply"]["text"], "!"),
    }
    let left = timeout(Duration::from_millis(200), &mut announced).await;
    assert!(left.is_err(), "{left:?}");
}

#[tokio::test]
async fn what_a_call_did_not_take_in_its_time_is_announced() {
    let office = ann_and_bob().await;
    let reads = office.get(2, m::MailInbox::NAME, json!({"wait_s": 0.05}));
    let waits = office.get(7, m::MailNotices::NAME, waiter());
    let sends = async {
        reads.await;
        office.send(1, json!({"to": "bob", "text": "x"})).await
    };
    let (found, sent) = tokio::join!(waits, sends);
    assert_eq!(ids(&found), [sent.as_str()]);
}

#[tokio::test]
async fn one_waiter_for_each_harness_session_until_that_ends() {
    let office = ann_and_bob().await;
    let first = office.get(7, m::MailNotices::NAME, waiter());
    let mut second = std::pin::pin!(office.get(8, m::MailNotices::NAME, waiter()));
    let (first, ()) = tokio::join!(first, async {
        let early = timeout(Duration::from_millis(50), &mut second).await;
        assert!(early.is_err(), "{early:?}");
    });
    assert_eq!((first["over"].as_bool(), ids(&first).len()), (Some(true), 0));
    let found = office.get(9, m::MailNotices::NAME, json!({"harness_session_id": "h"})).await;
    assert_eq!(found["has_waiter"], true);
    let released = office.get(9, m::AgentRelease::NAME, json!({"harness_session_id": "h"})).await;
    assert_eq!(released["label"], "claude:1");
    assert_eq!(second.await["over"], true);
    let other =
        office.get(3, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "other"})).await;
    assert_eq!(other["label"], "claude:1", "it is free");
}

#[tokio::test]
async fn a_waiter_that_came_before_its_session_is_told_too() {
    let office = Office::open();
    office.agents(&["ann"]).await;
    office.get(0, m::AgentCreate::NAME, json!({"name": "bob"})).await;
    office.send(1, json!({"to": "bob", "text": "held"})).await;
    let before =
        office.get(7, m::MailNotices::NAME, json!({"harness_session_id": "h", "agent": "bob"})).await;
    assert!(before["unread"].as_u64().unwrap() <= 1 && before["agent"] == "bob", "{before}");
    let waits = office.get(7, m::MailNotices::NAME, waiter());
    let (found, _) = tokio::join!(
        waits,
        office.get(2, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "h"}))
    );
    assert_eq!(ids(&found).len(), 1);
}

#[tokio::test]
async fn two_agents_cannot_wake_each_other_for_ever() {
    let office = ann_and_bob().await;
    let mut woken = 0;
    loop {
        office.send(1, json!({"to": "bob", "text": "again"})).await;
        office.reaches_inbox(2).await;
        let mut params = waiter();
        params["wait_s"] = json!(0.0);
        if ids(&office.get(7, m::MailNotices::NAME, params).await).is_empty() {
            break;
        }
        woken += 1;
        assert!(woken < 50, "nothing stops it");
    }
    assert!(woken >= 5, "{woken}");
    // The user says something, and is told of what waits.
    let prompted = json!({"harness_session_id": "h", "prompted": true, "claim": true});
    assert_eq!(ids(&office.get(7, m::MailNotices::NAME, prompted).await).len(), 1);
    office.send(1, json!({"to": "bob", "text": "again"})).await;
    assert_eq!(
        ids(&office.get(7, m::MailNotices::NAME, waiter()).await).len(),
        1,
        "woken again from here on"
    );
}

#[tokio::test]
async fn mail_of_a_live_session_can_go_to_the_auto_responder() {
    let office = ann_and_bob().await;
    let on = json!({"on": true, "command": ["/bin/echo", "an automatic answer"]});
    office.get(2, m::MailAutorespond::NAME, on).await;
    let stop = json!({"harness_session_id": "h", "claim": true, "wake": true, "respond": true});
    let asks = office.get(1, m::MailSendAndWait::NAME, json!({"to": "bob", "text": "?", "timeout_s": 30.0}));
    let (heard, ()) = tokio::join!(asks, async {
        office.reaches_inbox(2).await;
        let told = office.get(7, m::MailNotices::NAME, stop.clone()).await;
        assert!(ids(&told).is_empty(), "{told}");
    });
    assert_eq!(
        (&heard["reply"]["text"], &heard["reply"]["auto"]),
        (&json!("an automatic answer"), &json!(true))
    );
    // A machine's message, and one for this very session, are its own to read.
    for message in
        [json!({"to": "bob", "text": "x", "auto": true}), json!({"to": "bob/claude:1", "text": "x"})]
    {
        office.send(1, message).await;
        office.reaches_inbox(2).await;
        assert_eq!(ids(&office.get(7, m::MailNotices::NAME, stop.clone()).await).len(), 1);
    }
}

#[tokio::test]
async fn assignments_by_session_project_and_for_all() {
    let mut office = Office::open();
    for name in ["all", "project", "session"] {
        office.get(0, m::AgentCreate::NAME, json!({ "name": name })).await;
    }
    let assign = |params: Value| office.get(0, m::AgentAssign::NAME, params);
    assign(json!({"agent": "all"})).await;
    assign(json!({"agent": "project", "project": "/work/p/"})).await;
    let mine = assign(json!({"agent": "session", "harness_session_id": "mine", "project": "/work/p"})).await;
    assert_eq!(mine, json!({"agent": "session", "scope": "session", "key": "mine"}));
    office.restart().await;
    let cases = [
        ("mine", "/work/p", "session"),
        ("other", "/work/p", "project"),
        ("other", "/work/p/deep/inside", "project"),
        ("other", "/work/pp", "all"),
        ("other", "/", "all"),
    ];
    for (n, (session, project, agent)) in cases.into_iter().enumerate() {
        let wish = json!({"harness_session_id": session, "cwd": "/elsewhere", "project": project});
        let used = office.get(n as u64 + 1, m::AgentUse::NAME, wish.clone()).await;
        assert_eq!(used["agent"], agent, "{wish}");
        let told = json!({"harness_session_id": session, "project": project});
        let told = office.get(0, m::AgentAssignments::NAME, told).await;
        assert_eq!(told["effective"], agent, "{wish}");
        assert_eq!(told.to_string().contains("\"mine\""), session == "mine", "{told}");
    }
    let gone = office.get(0, m::AgentUnassign::NAME, json!({"project": "/work/p"})).await;
    assert_eq!(gone, json!({"scope": "project", "removed": true}));
    let again =
        office.get(0, m::AgentUnassign::NAME, json!({"scope": "project", "project": "/work/p"})).await;
    assert_eq!(again["removed"], false);
    let told = office.get(0, m::AgentAssignments::NAME, json!({"project": "/work/p"})).await;
    assert_eq!(told["effective"], "all");
    for (bad, code) in [
        (json!({"agent": "nobody"}), "AGENT_NOT_FOUND"),
        (json!({"agent": "all", "scope": "session"}), "INVALID_PARAMS"),
        (json!({"agent": "all", "scope": "project", "project": "p"}), "INVALID_PARAMS"),
    ] {
        let fault = office.ask(0, m::AgentAssign::NAME, bad.clone()).await.unwrap_err();
        assert_eq!(fault.code.as_str(), code, "{bad}");
    }
}

/// The server of a harness session is this process here; the process that started it stands for the harness.
#[tokio::test]
async fn a_harness_that_goes_on_under_another_id_keeps_its_session() {
    let office = Office::open();
    let (server, harness) = (std::process::id(), std::os::unix::process::parent_id());
    for name in ["ann", "bob"] {
        office.get(0, m::AgentCreate::NAME, json!({ "name": name })).await;
    }
    let notices = |id: &str, pids: &[u32]| {
        office.get(7, m::MailNotices::NAME, json!({"harness_session_id": id, "harness_pids": pids}))
    };
    // What a person started at a terminal is not meant, whatever started that.
    let cli = json!({"agent": "ann", "harness": "cli", "harness_session_id": "terminal", "pid": server});
    office.get(1, m::AgentUse::NAME, cli).await;
    assert_eq!(notices("new", &[harness]).await["agent"], Value::Null);
    office
        .get(2, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "old", "pid": server}))
        .await;
    for pids in [&[][..], &[server][..], &[u32::MAX / 2][..]] {
        assert_eq!(notices("new", pids).await["agent"], Value::Null, "{pids:?}");
    }
    let mut before = waiter();
    before["harness_session_id"] = json!("old");
    let waits = office.get(8, m::MailNotices::NAME, before);
    let (before, found) = tokio::join!(waits, notices("new", &[u32::MAX / 2, harness]));
    assert_eq!((&found["agent"], &found["label"]), (&json!("bob"), &json!("claude:1")));
    assert_eq!(before["over"], true, "the waiter of the id before ends");
    // From here on it is the session of that id, and of no other.
    assert_eq!(notices("new", &[]).await["agent"], "bob");
    assert_eq!(notices("old", &[]).await["agent"], Value::Null);
    // A live session of the id that is asked for comes first.
    let live = json!({"agent": "ann", "harness_session_id": "live"});
    office.get(3, m::AgentUse::NAME, live).await;
    assert_eq!(notices("live", &[harness]).await["agent"], "ann");
    // A resumed one has its label.
    office.get(7, m::AgentRelease::NAME, json!({"harness_session_id": "new"})).await;
    let again = office.get(4, m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "new"})).await;
    assert_eq!(again["label"], "claude:1");
}
