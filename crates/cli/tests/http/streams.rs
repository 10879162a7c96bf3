//! Events over HTTP: server-sent, and over a WebSocket.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::io::{BufReader, Write as _};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, GUARD, Http, Shell, WebSocket, read_answer, read_chunk, trl, wait_until};

fn served() -> (Daemon, Http) {
    let daemon = Daemon::builder(trl!()).http().start();
    let http = daemon.http();
    (daemon, http)
}

/// The events of a body: their names and what they carry.
fn events(body: &str) -> Vec<(String, Value)> {
    body.split("\n\n")
        .filter(|block| block.starts_with("event: "))
        .map(|block| {
            let (name, data) = block["event: ".len()..].split_once("\ndata: ").unwrap();
            (name.to_owned(), serde_json::from_str(data).unwrap())
        })
        .collect()
}

fn ask_events(http: &Http, method: &str, params: Value) -> trl_testkit::HttpAnswer {
    let body = json!({"id": "s", "method": method, "params": params}).to_string();
    http.ask("POST", "/v1/rpc", &[("Accept", "text/event-stream")], body.as_bytes())
}

#[test]
fn a_streamed_command_is_told_as_events() {
    let (_daemon, http) = served();
    http.ok(m::SessionCreate::NAME, json!({"shell": "bash", "name": "web"}));
    let params = json!({"session_id": "web", "command": "echo out; echo err >&2; x=kept; exit_with() { return 3; }; exit_with"});
    let answer = ask_events(&http, m::ExecStream::NAME, params.clone());
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let told = events(&answer.text());
    let names: Vec<&str> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("started", "response"), "{names:?}");
    let text = |stream: &str| {
        let parts = told.iter().filter(|(name, _)| name == stream);
        parts.map(|(_, line)| line["data"]["text"].as_str().unwrap()).collect::<String>()
    };
    assert_eq!((text("stdout"), text("stderr")), ("out\n".to_owned(), "err\n".to_owned()));
    let (_, last) = &told[told.len() - 1];
    assert_eq!(
        (&last["id"], &last["ok"], &last["data"]["exit_code"]),
        (&json!("s"), &json!(true), &json!(3))
    );
    let exec_id = last["data"]["exec_id"].clone();
    let again = ask_events(&http, m::ExecAttach::NAME, json!({"exec_id": exec_id}));
    assert!(events(&again.text()).iter().any(|(name, _)| name == "stdout"));
    assert_eq!(
        http.ok(m::ExecRun::NAME, json!({"session_id": "web", "command": "echo $x"}))["stdout"],
        "kept\n"
    );
    // Without events there is still the one response.
    assert_eq!(http.ok(m::ExecStream::NAME, params)["exit_code"], 3);
}

#[test]
fn what_is_refused_has_its_status_and_what_is_no_stream_is_json() {
    let (_daemon, http) = served();
    let refused = ask_events(&http, m::ExecStream::NAME, json!({"session_id": "none", "command": "true"}));
    assert_eq!((refused.status, refused.header("content-type")), (404, Some("application/json")));
    assert_eq!(refused.json()["error"]["code"], "SESSION_NOT_FOUND");
    let ping = ask_events(&http, m::SystemPing::NAME, json!({}));
    assert_eq!((ping.status, ping.header("content-type")), (200, Some("application/json")));
    let endless = http.call(m::EventsSubscribe::NAME, json!({}));
    assert_eq!((endless.status, &endless.json()["error"]["code"]), (400, &json!("INVALID_PARAMS")));
}

#[test]
fn the_first_bytes_come_before_the_end_and_a_reader_who_leaves_ends_nothing() {
    let (daemon, http) = served();
    let mut session = daemon.session(Shell::Bash);
    let body = json!({"id": 1, "method": m::ExecStream::NAME, "params": session.params(
        json!({"command": "echo up; read line; echo got $line", "stdin_open": true, "timeout_s": 0}))})
    .to_string();
    let mut stream = http.connect();
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\nContent-Length: {}\r\n\r\n{body}",
        http.token,
        body.len()
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let mut text = String::new();
    // The head by hand: the body is still being written.
    loop {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut reader, &mut line).unwrap();
        if line == "\r\n" {
            break;
        }
    }
    while !text.contains("up") {
        text.push_str(&String::from_utf8(read_chunk(&mut reader).unwrap()).unwrap());
    }
    let exec_id = events(&text)[0].1["data"]["exec_id"].as_str().unwrap().to_owned();
    drop(reader);
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "this\n"}));
    let answer = session.attach(&exec_id);
    assert_eq!(answer.output("stdout"), b"up\ngot this\n");
}

#[test]
fn a_websocket_speaks_the_line_protocol() {
    let (daemon, http) = served();
    let mut socket = WebSocket::open(&http);
    socket.send(r#"{"id":"x","method":"system.ping"}"#);
    assert_eq!(socket.next_message().unwrap()["id"], "x");
    socket.send("{\n  \"id\": 7,\n  \"method\": \"system.ping\"\n}\n");
    assert_eq!(socket.next_message().unwrap()["id"], 7);
    socket.send("nonsense");
    let refused = socket.next_message().unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!("PARSE_ERROR")));
    socket.send("{\"id\":\"a\nb\",\"method\":\"system.ping\"}");
    assert_eq!(
        socket.next_message().unwrap()["error"]["code"],
        "PARSE_ERROR",
        "a raw newline in a string is no JSON"
    );
    socket.ok(m::SessionCreate::NAME, json!({"shell": "bash", "name": "ws"}));
    socket.send(
        &json!({"id": 9, "method": m::ExecStream::NAME, "params": {"session_id": "ws", "command": "echo hi"}})
            .to_string(),
    );
    let told: Vec<Value> = (0..3).map(|_| socket.next_message().unwrap()).collect();
    assert_eq!(
        (&told[0]["event"], &told[1]["event"], &told[2]["ok"]),
        (&json!("started"), &json!("stdout"), &json!(true))
    );
    // Requests run at the same time.
    socket.send(&json!({"id": 10, "method": m::ExecRun::NAME, "params": {"session_id": "ws", "command": "read x", "timeout_s": 0.5}}).to_string());
    assert_eq!(
        socket.ok(m::ExecList::NAME, json!({"session_id": "ws"}))["execs"].as_array().map(Vec::len),
        Some(2)
    );
    let long = " ".repeat(16 * 1024 * 1024 + 1);
    socket.send(&long);
    let answers: Vec<Value> = std::iter::from_fn(|| socket.next_message()).collect();
    assert!(answers.iter().any(|it| it["error"]["code"] == "PAYLOAD_TOO_LARGE"), "{answers:?}");
    let connections =
        |daemon: &Daemon| daemon.connect().ok(m::SystemStats::NAME, json!({}))["connections"].as_u64();
    socket.close();
    drop(socket);
    wait_until("the connection is over", GUARD, || connections(&daemon) == Some(1));
}

#[test]
fn a_websocket_needs_the_handshake_and_the_token() {
    let (daemon, http) = served();
    let answer = http.ask("GET", "/v1/ws", &[], b"");
    assert_eq!((answer.status, answer.header("upgrade")), (426, Some("websocket")));
    let bare = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    assert_eq!(http.ask_bare("GET", "/v1/ws", &bare, b"").status, 401);
    let mut evil = bare.to_vec();
    let token = format!("Bearer {}", http.token);
    evil.push(("Authorization", &token));
    evil.push(("Origin", "https://evil.example"));
    assert_eq!(http.ask_bare("GET", "/v1/ws", &evil, b"").status, 403);
    drop(daemon);
}

#[test]
fn an_ending_daemon_answers_what_is_under_way_and_closes() {
    let (mut daemon, http) = served();
    let mut socket = WebSocket::open(&http);
    socket.ok(m::SessionCreate::NAME, json!({"shell": "bash", "name": "w"}));
    socket.send(&json!({"id": 5, "method": m::EventsSubscribe::NAME, "params": {}}).to_string());
    assert_eq!(socket.next_message().unwrap()["event"], "subscribed");
    socket.send(&json!({"id": 6, "method": m::ExecRun::NAME, "params": {"session_id": "w", "command": "echo up; sleep 60", "timeout_s": 0}}).to_string());
    // It runs when the subscription says so.
    while socket.next_message().unwrap()["data"]["change"] != "started" {}
    assert!(daemon.terminate().success());
    let last: Vec<Value> = std::iter::from_fn(|| socket.next_message()).collect();
    assert!(last.iter().any(|it| it["id"] == 6 && it["ok"] == false), "{last:?}");
    assert!(last.iter().any(|it| it["id"] == 5 && it["ok"] == true), "{last:?}");
}

#[test]
fn a_kept_connection_serves_request_after_request() {
    let (_daemon, http) = served();
    let stream = http.connect();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    for number in 0..50 {
        let body = json!({"id": number, "method": m::SystemPing::NAME}).to_string();
        let mut stream = &stream;
        write!(stream, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}", http.token, body.len()).unwrap();
        assert_eq!(read_answer(&mut reader).json()["id"], number);
    }
}

#[test]
fn what_is_bound_to_a_websocket_ends_with_it() {
    let (daemon, http) = served();
    http.ok(m::SessionCreate::NAME, json!({"shell": "bash", "name": "stays"}));
    let mut socket = WebSocket::open(&http);
    socket.ok(m::SessionCreate::NAME, json!({"shell": "bash", "name": "goes"}));
    socket.ok(m::SessionBind::NAME, json!({"session_id": "goes"}));
    let started = socket.ok(m::ExecStart::NAME, json!({"session_id": "stays", "command": "sleep 1000"}));
    socket.ok(m::ExecBind::NAME, json!({"exec_id": started["exec_id"]}));
    socket.close();
    drop(socket);
    let waited = http.ok(m::ExecWait::NAME, json!({"exec_id": started["exec_id"], "timeout_s": 20}));
    assert_eq!(waited["cancelled"], true, "{waited}");
    wait_until("the bound session is over", GUARD, || {
        daemon.connect().ok(m::SessionList::NAME, json!({}))["sessions"].as_array().map(Vec::len) == Some(1)
    });
}
