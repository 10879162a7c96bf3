//! The line protocol, byte by byte.

mod daemon;

use daemon::start;
use serde_json::{Value, json};
use trl_protocol::limits::MAX_LINE_BYTES;

const PING: &str = "{\"id\":1,\"method\":\"system.ping\"}\n";

fn code(answer: &Value) -> (&Value, &str) {
    (&answer["id"], answer["error"]["code"].as_str().unwrap_or("OK"))
}

#[tokio::test]
async fn an_answer_is_one_compact_line_with_the_id_as_it_was() {
    let daemon = start().await;
    let mut client = daemon.connect().await;
    for id in ["1", "\"1\"", "1.50", "\"\\u00e9\"", "-0"] {
        client.send(format!("{{\"id\": {id}, \"method\": \"system.ping\", \"params\": {{}}}}\n")).await;
        let line = client.line().await.unwrap();
        assert!(line.starts_with(&format!("{{\"id\":{id},\"ok\":true,\"data\":{{\"uptime_s\":")), "{line}");
        assert!(line.ends_with("}}\n"), "{line}");
    }
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_the_connection_goes_on() {
    let daemon = start().await;
    let mut client = daemon.connect().await;
    let cases: &[(&[u8], Value, &str)] = &[
        (b"nonsense\n", json!(null), "PARSE_ERROR"),
        (b"[]\n", json!(null), "PARSE_ERROR"),
        (b"\xff\xfe\n", json!(null), "PARSE_ERROR"),
        (b"{\"id\":true,\"method\":\"system.ping\"}\n", json!(null), "INVALID_PARAMS"),
        (b"{\"id\":1,\"method\":\"system.pong\"}\n", json!(1), "METHOD_NOT_FOUND"),
        (b"{\"id\":1,\"method\":\"system.ping\",\"param\":{}}\n", json!(1), "INVALID_PARAMS"),
        (b"{\"id\":\"x\",\"method\":\"exec.run\",\"params\":{}}\n", json!("x"), "INVALID_PARAMS"),
        (
            b"{\"id\":1,\"method\":\"session.info\",\"params\":{\"session_id\":\"?\"}}\n",
            json!(1),
            "SESSION_NOT_FOUND",
        ),
    ];
    for (line, id, expected) in cases {
        let answer = client.ask(line).await;
        assert_eq!(code(&answer), (id, *expected), "{}", String::from_utf8_lossy(line));
        assert_eq!(code(&client.ask(PING).await), (&json!(1), "OK"));
    }
}

#[tokio::test]
async fn lines_may_be_empty_torn_or_end_with_crlf() {
    let daemon = start().await;
    let mut client = daemon.connect().await;
    client.send("\n\r\n  \n{\"id\":7,").await;
    client.send("\"method\":\"system.ping\"}\r\n\n").await;
    assert_eq!(code(&client.answer().await), (&json!(7), "OK"));
}

#[tokio::test]
async fn the_last_line_needs_no_end_and_a_half_closed_client_gets_all_answers() {
    let daemon = start().await;
    let mut client = daemon.connect().await;
    client.send(PING.repeat(100)).await;
    client.send(PING.trim_end()).await;
    client.half_close().await;
    assert_eq!(client.rest().await.lines().count(), 101);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_told_and_ends_the_connection() {
    let daemon = start().await;
    let mut client = daemon.connect().await;
    client.send(vec![b' '; MAX_LINE_BYTES - PING.len() + 1]).await;
    assert_eq!(code(&client.ask(PING).await), (&json!(1), "OK"), "just at the limit");
    client.send(vec![b'x'; MAX_LINE_BYTES + 1]).await;
    client.send("y\n").await;
    assert_eq!(code(&client.answer().await), (&json!(null), "PAYLOAD_TOO_LARGE"));
    assert_eq!(client.line().await, None);
    assert_eq!(code(&daemon.connect().await.ask(PING).await), (&json!(1), "OK"));
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_up_nobody_else() {
    let daemon = start().await;
    let mut deaf = daemon.connect().await;
    let asking = tokio::spawn(async move {
        // More answers than any buffer takes: at some point nothing more is read from it.
        let requests = "{\"id\":1,\"method\":\"system.info\"}\n".repeat(1000);
        for _ in 0..1000 {
            deaf.send(&requests).await;
        }
    });
    let mut client = daemon.connect().await;
    for _ in 0..100 {
        assert_eq!(code(&client.ask(PING).await), (&json!(1), "OK"));
    }
    assert!(!asking.is_finished());
    asking.abort();
}
