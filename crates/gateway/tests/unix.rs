//! The socket of a daemon: whose it is, who is there already, what is left of it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

mod daemon;

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use daemon::{config, start, start_in};
use serde_json::json;

fn mode(path: &std::path::Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn it_is_for_its_owner_only_and_gone_after_the_end() {
    let mut daemon = start().await;
    assert!(daemon.socket().metadata().unwrap().file_type().is_socket());
    assert_eq!(mode(&daemon.socket()), 0o600);
    let at: Vec<_> =
        std::fs::read_dir(daemon.dir.path().join("run")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!((at.len(), mode(&at[0]), mode(&at[0].join("hosts"))), (1, 0o700, 0o700));
    daemon.ask_to_stop();
    let dir = daemon.ended().await;
    for (left, count) in [(".", 2), ("run", 0), ("state", 0)] {
        let left: Vec<_> = std::fs::read_dir(dir.path().join(left)).unwrap().collect();
        assert_eq!(left.len(), count, "{left:?}");
    }
}

#[tokio::test]
async fn a_second_daemon_is_refused_and_changes_nothing() {
    let first = start().await;
    let other = tempfile::tempdir().unwrap();
    let gateway = trl_gateway::GatewayConfig { socket: Some(first.socket()), ..Default::default() };
    let refused = trl_gateway::serve(gateway, config(other.path()), std::future::pending())
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains(&format!("pid {}", std::process::id())), "{refused}");
    assert!(!other.path().join("run").exists(), "nothing was made");
    let answer = first.connect().await.ask("{\"id\":1,\"method\":\"system.ping\"}\n").await;
    assert_eq!(answer["ok"], json!(true));
}

#[tokio::test]
async fn what_a_dead_daemon_left_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    drop(std::os::unix::net::UnixListener::bind(dir.path().join("t.sock")).unwrap());
    std::fs::write(dir.path().join("t.sock.lock"), "1\n").unwrap();
    let config = config(dir.path());
    let daemon = start_in(dir, config).await.map_err(|(_, error)| error).unwrap();
    assert_eq!(
        daemon.connect().await.ask("{\"id\":1,\"method\":\"system.ping\"}\n").await["ok"],
        json!(true)
    );
}

#[tokio::test]
async fn what_is_not_a_dead_daemons_is_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.sock");
    std::fs::write(&path, "precious").unwrap();
    let config = config(dir.path());
    let (dir, error) = start_in(dir, config.clone()).await.err().unwrap();
    assert!(error.to_string().contains("is not a socket"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");

    std::fs::remove_file(&path).unwrap();
    let _stranger = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let (dir, error) = start_in(dir, config.clone()).await.err().unwrap();
    assert!(error.to_string().contains("another daemon serves"), "{error}");
    assert!(path.exists());

    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (_dir, error) = start_in(dir, config).await.err().unwrap();
    assert!(error.to_string().contains("can be written by other users"), "{error}");
}

#[tokio::test]
async fn what_took_the_place_of_its_socket_is_left_as_it_is() {
    let mut daemon = start().await;
    let (socket, other) = (daemon.socket(), daemon.dir.path().join("other.sock"));
    let _stranger = std::os::unix::net::UnixListener::bind(&other).unwrap();
    std::fs::rename(&other, &socket).unwrap();
    daemon.ask_to_stop();
    let _dir = daemon.ended().await;
    assert!(socket.exists());
}

#[tokio::test]
async fn shutdown_is_answered_first_and_the_next_daemon_can_start_at_once() {
    let daemon = start().await;
    let mut idle = daemon.connect().await;
    idle.ask("{\"id\":0,\"method\":\"system.ping\"}\n").await;
    let mut client = daemon.connect().await;
    let answer =
        client.ask("{\"id\":1,\"method\":\"system.shutdown\",\"params\":{\"keep_sessions\":true}}\n").await;
    assert_eq!(answer["data"], json!({ "pid": std::process::id(), "keep_sessions": true }));
    assert_eq!(client.line().await, None);
    assert_eq!(idle.line().await, None);
    let gateway = trl_gateway::GatewayConfig { socket: Some(daemon.socket()), ..Default::default() };
    let next = trl_gateway::serve(gateway, config(daemon.dir.path()), async {});
    next.await.unwrap();
    daemon.ended().await;
}

#[tokio::test]
async fn a_signal_is_heard_before_anybody_can_connect() {
    let dir = tempfile::tempdir().unwrap();
    let (heard, ready) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    // As with a signal: whoever has not begun to listen for it does not hear it.
    let listening = Arc::clone(&heard);
    let mut polls = 0;
    let shutdown = std::future::poll_fn(move |context| {
        listening.store(true, Ordering::Relaxed);
        polls += 1;
        context.waker().wake_by_ref();
        if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
    });
    let (was_heard, is_ready) = (Arc::clone(&heard), Arc::clone(&ready));
    let gateway = trl_gateway::GatewayConfig {
        socket: Some(dir.path().join("t.sock")),
        on_ready: Some(Box::new(move |_| {
            is_ready.store(was_heard.load(Ordering::Relaxed), Ordering::Relaxed)
        })),
        ..Default::default()
    };
    trl_gateway::serve(gateway, config(dir.path()), shutdown).await.unwrap();
    assert!(ready.load(Ordering::Relaxed), "signals were not heard yet when clients could connect");
}
