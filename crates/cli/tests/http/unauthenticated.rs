//! Connections without a token must not keep clients that have one from being served.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::{Daemon, WebSocket, trl};

/// Far less than the 30 s that such connections used to last, far more than an answer takes.
const SOON: Duration = Duration::from_secs(4);

#[test]
fn silent_connections_and_health_checks_lock_nobody_out() {
    let daemon = Daemon::builder(trl!()).http().env("TRL_MAX_CONNECTIONS", "4").start();
    let http = daemon.http();
    let mut socket = WebSocket::open(&http);
    let mut idle = Vec::new();
    for index in 0..300 {
        let Ok(mut stream) = TcpStream::connect(http.address) else { continue };
        match index % 3 {
            0 => {}
            1 => drop(stream.write_all(b"POST / HTTP/1.1\r\nHost: local")),
            _ => drop(stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")),
        }
        idle.push(stream);
    }
    let begun = Instant::now();
    assert_eq!(http.call(m::SystemPing::NAME, json!({})).status, 200);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert!(
        socket.ok(m::SystemPing::NAME, json!({}))["version"].is_string(),
        "a client that was there stays"
    );
    drop(idle);
}

#[test]
fn a_token_takes_no_more_places_than_are_allowed_and_one_that_is_free_again_is_given() {
    let daemon = Daemon::builder(trl!()).http().env("TRL_MAX_CONNECTIONS", "2").start();
    let http = daemon.http();
    let held = [WebSocket::open(&http), WebSocket::open(&http)];
    let refused = http.call(m::SystemPing::NAME, json!({}));
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (503, &json!("RESOURCE_PRESSURE")));
    assert!(refused.text().contains("TRL_MAX_CONNECTIONS"), "{}", refused.text());
    let health = http.ask_bare("GET", "/healthz", &[], b"");
    assert_eq!(health.status, 200, "health needs no place");
    drop(held);
    assert_eq!(http.call(m::SystemPing::NAME, json!({})).status, 200);
}

#[test]
fn a_wrong_token_makes_no_client() {
    let daemon = Daemon::builder(trl!()).http().start();
    let http = daemon.http();
    let begun = Instant::now();
    let mut stream = http.connect();
    let ask =
        "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(ask.as_bytes()).unwrap();
    stream.write_all(ask.as_bytes()).unwrap();
    let mut answers = String::new();
    let _reset_is_an_end_too = stream.read_to_string(&mut answers);
    assert_eq!(answers.matches("HTTP/1.1 401").count(), 2, "{answers}");
    assert!(begun.elapsed() < Duration::from_secs(15), "it was kept for {:?}", begun.elapsed());
}
