//! Clients that take their time: over HTTP they have some, and nobody else waits for them.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

mod daemon;

use std::net::SocketAddr;
use std::time::Duration;

use daemon::{Daemon, GUARD, config, start_with};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use trl_gateway::{HttpConfig, Patience, Tokens, UnauthenticatedLimits};

const SHORT: Duration = Duration::from_millis(200);
/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

async fn served(patience: Patience) -> (Daemon, SocketAddr) {
    served_with(patience, UnauthenticatedLimits { time: LONG, ..UnauthenticatedLimits::default() }).await
}

async fn served_with(patience: Patience, unauthenticated: UnauthenticatedLimits) -> (Daemon, SocketAddr) {
    let http = HttpConfig {
        address: "127.0.0.1:0".to_owned(),
        tokens: Tokens::load(Some("secret-of-this-test"), None).unwrap(),
        hosts: Vec::new(),
        origins: Vec::new(),
        tls: None,
        patience,
        unauthenticated,
    };
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path());
    let (daemon, address) = start_with(dir, config, Some(http)).await.map_err(|(_, error)| error).unwrap();
    (daemon, address.unwrap())
}

fn patience() -> Patience {
    Patience { head: LONG, body: LONG, handshake: LONG, stall: LONG }
}

async fn send(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

/// Everything until the daemon has had enough.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    // A reset is an end too.
    let _end = timeout(GUARD, stream.read_to_end(&mut text)).await.unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

async fn is_well(address: SocketAddr) -> bool {
    let mut stream =
        send(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    answer(&mut stream).await.starts_with("HTTP/1.1 200")
}

#[tokio::test]
async fn a_head_that_does_not_come_ends_its_connection() {
    let (mut daemon, address) = served(Patience { head: SHORT, ..patience() }).await;
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut half = send(address, "POST / HTTP/1.1\r\nHost: local").await;
    let mut idle = send(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    let dripping = tokio::spawn(async move {
        let mut stream = send(address, "POST / HTTP/1.1\r\nX: ").await;
        // Each byte comes in time, the head never does.
        while stream.write_all(b"x").await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    });
    assert!(is_well(address).await);
    assert_eq!(answer(&mut silent).await, "");
    assert!(!answer(&mut half).await.contains(" 200 "));
    assert!(answer(&mut idle).await.starts_with("HTTP/1.1 200"), "it had its answer before");
    timeout(GUARD, dripping).await.unwrap().unwrap();
    daemon.ask_to_stop();
    daemon.ended().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_refused() {
    let (mut daemon, address) = served(Patience { body: SHORT, ..patience() }).await;
    let head = "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-of-this-test\r\nConnection: close\r\n";
    let mut half = send(address, &format!("{head}Content-Length: 100\r\n\r\n{{\"id\":1,")).await;
    let mut chunked = send(address, &format!("{head}Transfer-Encoding: chunked\r\n\r\n2\r\n{{\"\r\n")).await;
    for stream in [&mut half, &mut chunked] {
        let text = answer(stream).await;
        assert!(text.starts_with("HTTP/1.1 408") && text.contains("PARSE_ERROR"), "{text}");
        assert!(text.contains("did not come within"), "{text}");
    }
    assert!(is_well(address).await);
    daemon.ask_to_stop();
    daemon.ended().await;
}

#[tokio::test]
async fn one_that_does_not_read_is_given_up() {
    let (mut daemon, address) = served(Patience { stall: SHORT, ..patience() }).await;
    let ask =
        "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-of-this-test\r\n\r\n";
    let mut stream = TcpStream::connect(address).await.unwrap();
    // As many questions as the daemon takes, and no answer read: when it has given up, none can be asked.
    let asked = async { while stream.write_all(ask.as_bytes()).await.is_ok() {} };
    timeout(GUARD, asked).await.unwrap();
    assert!(is_well(address).await);
    daemon.ask_to_stop();
    daemon.ended().await;
}

const AUTHORIZED: &str = "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-of-this-test\r\n\
     Content-Length: 31\r\n\r\n{\"id\":1,\"method\":\"system.ping\"}";
const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The status line of the next answer, or nothing if the connection has ended.
async fn status(stream: &mut TcpStream) -> String {
    let mut text = vec![0; 4096];
    let count = timeout(GUARD, stream.read(&mut text)).await.unwrap().unwrap_or(0);
    String::from_utf8_lossy(&text[..count]).lines().next().unwrap_or_default().to_owned()
}

/// A connection from another address of this machine, which has asked for its health.
async fn elsewhere(from: &str, address: SocketAddr) -> TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(from.parse().unwrap()).unwrap();
    let mut stream = socket.connect(address).await.unwrap();
    stream.write_all(HEALTH.as_bytes()).await.unwrap();
    assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK");
    stream
}

#[tokio::test]
async fn when_connections_without_a_token_are_too_many_the_oldest_is_closed() {
    let limits =
        UnauthenticatedLimits { per_address: 3, total: 5, grace: Duration::from_millis(1), time: LONG };
    let (mut daemon, address) = served_with(patience(), limits).await;
    let mut client = send(address, AUTHORIZED).await;
    assert_eq!(status(&mut client).await, "HTTP/1.1 200 OK");
    // One that only asks for /healthz is no better than one that says nothing.
    let mut here = vec![send(address, HEALTH).await];
    assert_eq!(status(&mut here[0]).await, "HTTP/1.1 200 OK");
    for _ in 0..3 {
        here.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(status(&mut here[0]).await, "", "four from one address are too many");
    // Another address has its own share, until all together are too many: then who has most gives way.
    let mut others = vec![elsewhere("127.0.0.2:0", address).await, elsewhere("127.0.0.2:0", address).await];
    others.push(elsewhere("127.0.0.3:0", address).await);
    assert_eq!(status(&mut here[1]).await, "", "six are too many");
    for stream in others.iter_mut().chain([&mut client]) {
        stream.write_all(HEALTH.as_bytes()).await.unwrap();
        assert_eq!(status(stream).await, "HTTP/1.1 200 OK", "the others stay");
    }
    daemon.ask_to_stop();
    daemon.ended().await;
}

#[tokio::test]
async fn a_connection_without_a_token_is_closed_after_a_while_and_a_client_is_not() {
    let limits = UnauthenticatedLimits { time: Duration::from_secs(1), ..UnauthenticatedLimits::default() };
    let (mut daemon, address) = served_with(patience(), limits).await;
    let mut client = send(address, AUTHORIZED).await;
    assert_eq!(status(&mut client).await, "HTTP/1.1 200 OK");
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut healthy = send(address, HEALTH).await;
    assert_eq!(status(&mut healthy).await, "HTTP/1.1 200 OK");
    assert_eq!(status(&mut silent).await, "", "no token came in time");
    assert_eq!(status(&mut healthy).await, "", "nor did /healthz prolong it");
    client.write_all(AUTHORIZED.as_bytes()).await.unwrap();
    assert_eq!(status(&mut client).await, "HTTP/1.1 200 OK", "a client that is idle stays");
    daemon.ask_to_stop();
    daemon.ended().await;
}
