//! A new daemon and what an earlier one left.

mod fake_host;

use std::time::{Duration, SystemTime};
use trl_protocol::{Method as _, methods as m};

use fake_host::{FakeHost, Home, ID, adopted, ask, exists, info};
use serde_json::json;
use tokio::net::UnixListener;
use trl_protocol::session::{SessionInfo, SessionState};
use trl_protocol::wire::{FromHost, HOST_PROTOCOL, ToHost};
use trl_protocol::{Code, Reply, SessionId};
use trl_runtime::Runtime;

#[tokio::test]
async fn a_living_host_is_adopted() {
    let (_home, runtime, mut host) = adopted().await;
    let listed = tokio::spawn({
        let runtime = runtime.clone();
        async move { ask(&runtime, m::SessionList::NAME, json!(null)).await }
    });
    let Some(ToHost::Session { req }) = host.hear().await else { panic!("the host is asked") };
    host.say(&FromHost::Session { req, session: Box::new(info(ID)) }).await;
    let Ok(Reply::SessionList(list)) = listed.await.unwrap() else { panic!("a list") };
    assert_eq!(list.sessions, [SessionInfo { runtime: Some("local".into()), ..info(ID) }]);
}

#[tokio::test]
async fn a_dead_hosts_socket_is_removed_and_nothing_else() {
    let home = Home::new();
    let dead = SessionId(1);
    drop(UnixListener::bind(home.socket(dead)).unwrap());
    let stranger = home.hosts().join("not-a-session.sock");
    drop(UnixListener::bind(&stranger).unwrap());
    std::fs::create_dir_all(home.state_dir(dead)).unwrap();
    let old = SessionId(2);
    std::fs::create_dir_all(home.state_dir(old)).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(3 * 86_400);
    std::fs::File::open(home.state_dir(old)).unwrap().set_modified(long_ago).unwrap();

    Runtime::start(home.config()).await.unwrap();
    assert!(!exists(&home.socket(dead)));
    assert!(exists(&stranger));
    assert!(exists(&home.state_dir(dead)), "what it kept may still be wanted");
    assert!(!exists(&home.state_dir(old)));
}

/// Its end is a reset of the connection if it had not read the question yet.
#[tokio::test]
async fn a_host_that_ends_while_it_is_asked_is_dead() {
    let home = Home::new();
    let listener = UnixListener::bind(home.socket(ID)).unwrap();
    let ends = async move {
        let (stream, _) = listener.accept().await.unwrap();
        stream.readable().await.unwrap();
        drop((stream, listener));
    };
    let (runtime, ()) = tokio::join!(Runtime::start(home.config()), ends);
    runtime.unwrap();
    assert!(!exists(&home.socket(ID)));
}

/// However old its files are: a session that sleeps for days writes nothing.
#[tokio::test]
async fn what_a_living_session_keeps_is_not_too_old() {
    let home = Home::new();
    let listener = UnixListener::bind(home.socket(ID)).unwrap();
    let dir = home.state_dir(ID);
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("journal-1.log"), "kept").unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(30 * 86_400);
    std::fs::File::open(&dir).unwrap().set_modified(long_ago).unwrap();
    let (runtime, _host) = tokio::join!(Runtime::start(home.config()), FakeHost::accept(&listener));
    runtime.unwrap();
    assert!(exists(&dir.join("journal-1.log")));
}

/// Also one whose socket somebody has removed: it is connected, so it is there.
#[tokio::test]
async fn what_a_living_session_keeps_is_not_too_old_without_its_socket() {
    let home = Home::new();
    let listener = UnixListener::bind(home.socket(ID)).unwrap();
    let dir = home.state_dir(ID);
    std::fs::create_dir_all(&dir).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(30 * 86_400);
    std::fs::File::open(&dir).unwrap().set_modified(long_ago).unwrap();
    let host = async {
        let (stream, _) = listener.accept().await.unwrap();
        std::fs::remove_file(home.socket(ID)).unwrap();
        let mut host = FakeHost::of(stream);
        host.hear().await.unwrap();
        let session = Box::new(info(ID));
        host.say(&FromHost::Welcome { protocol: HOST_PROTOCOL, version: "fake".into(), session }).await;
        host
    };
    let (runtime, _host) = tokio::join!(Runtime::start(home.config()), host);
    runtime.unwrap();
    assert!(exists(&dir));
}

/// It lives, and only its own version of the daemon may judge what it keeps.
#[tokio::test]
async fn what_a_host_keeps_that_is_left_alone_is_not_too_old() {
    let home = Home::new();
    let listener = UnixListener::bind(home.socket(ID)).unwrap();
    let dir = home.state_dir(ID);
    std::fs::create_dir_all(&dir).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(30 * 86_400);
    std::fs::File::open(&dir).unwrap().set_modified(long_ago).unwrap();
    let newer = FakeHost::accept_as(&listener, HOST_PROTOCOL + 1);
    let (runtime, _host) = tokio::join!(Runtime::start(home.config()), newer);
    runtime.unwrap();
    assert!(exists(&dir));
}

/// A socket under the name of another session: whoever asks for that one must not be given this one.
#[tokio::test]
async fn a_host_that_answers_for_another_session_is_left_alone() {
    let home = Home::new();
    let listener = UnixListener::bind(home.socket(SessionId(7))).unwrap();
    let (runtime, _host) = tokio::join!(Runtime::start(home.config()), FakeHost::accept(&listener));
    let Ok(Reply::SessionList(list)) = ask(&runtime.unwrap(), m::SessionList::NAME, json!(null)).await else {
        panic!("a list")
    };
    assert_eq!(list.sessions, []);
    assert!(exists(&home.socket(SessionId(7))));
}

#[tokio::test]
async fn a_session_ends_when_its_host_says_so_and_is_lost_when_it_does_not() {
    for (said, state) in [(true, SessionState::Terminated), (false, SessionState::Lost)] {
        let (home, runtime, mut host) = adopted().await;
        std::fs::create_dir_all(home.state_dir(ID)).unwrap();
        let running = tokio::spawn({
            let runtime = runtime.clone();
            async move { ask(&runtime, m::ExecRun::NAME, json!({ "session_id": "fake", "command": "x" })).await }
        });
        host.hear_run().await;
        if said {
            host.say(&FromHost::Ended { req: 0, reason: "idle".into(), session: None }).await;
        }
        drop(host);
        let fault = running.await.unwrap().unwrap_err();
        assert_eq!(fault.code, Code::SessionTerminated);
        assert_eq!(exists(&home.state_dir(ID)), !said, "a lost session's remains are kept");
        match (ask(&runtime, m::SessionInfo::NAME, json!({ "session_id": "fake" })).await, state) {
            (Ok(Reply::SessionInfo(info)), SessionState::Lost) => assert_eq!(info.state, state),
            (Err(fault), SessionState::Terminated) => assert!(fault.message.contains("idle")),
            other => panic!("{other:?}"),
        }
        if !said {
            ask(&runtime, m::SessionDestroy::NAME, json!({ "session_id": ID })).await.unwrap();
            assert!(!exists(&home.state_dir(ID)));
        }
    }
}
