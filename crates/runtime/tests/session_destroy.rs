//! `session.destroy`, and the end of a daemon.

mod fake_host;

use fake_host::{ID, adopted, ask, exists};
use serde_json::json;
use trl_protocol::session::{Destroyed, SessionState};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Code, Reply};
use trl_protocol::{Method as _, methods as m};
use trl_runtime::Stop;

#[tokio::test]
async fn it_answers_when_the_host_is_gone() {
    let (home, runtime, mut host) = adopted().await;
    let destroying = tokio::spawn({
        let runtime = runtime.clone();
        async move { ask(&runtime, m::SessionDestroy::NAME, json!({ "session_id": "fake", "force": true })).await }
    });
    let Some(ToHost::End { req, force: true }) = host.hear().await else { panic!("the host is told") };
    host.say(&FromHost::Ended { req, reason: "asked".into(), session: None }).await;
    tokio::task::yield_now().await;
    assert!(!destroying.is_finished(), "the host is still there");
    drop(host);
    let expected = Destroyed { session_id: ID, state: SessionState::Terminated };
    assert_eq!(destroying.await.unwrap(), Ok(Reply::SessionDestroy(Box::new(expected))));
    assert!(!exists(&home.socket(ID)));
    let again = ask(&runtime, m::SessionDestroy::NAME, json!({ "session_id": ID })).await.unwrap_err();
    assert_eq!(again.code, Code::SessionTerminated);
}

#[tokio::test]
async fn the_end_of_the_daemon_ends_its_sessions_unless_they_are_kept() {
    for keep_sessions in [false, true] {
        let (_home, runtime, mut host) = adopted().await;
        runtime.refuse(Stop { keep_sessions });
        let refused = ask(&runtime, m::SessionList::NAME, json!(null)).await.unwrap_err();
        assert_eq!(refused.code, Code::ShuttingDown);
        let ending = tokio::spawn(async move { runtime.end().await });
        if !keep_sessions {
            let Some(ToHost::End { req, force: false }) = host.hear().await else {
                panic!("the host is told")
            };
            host.say(&FromHost::Ended { req, reason: "asked".into(), session: None }).await;
            drop(host);
        }
        assert_eq!(ending.await.unwrap(), keep_sessions);
    }
}
