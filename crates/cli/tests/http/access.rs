//! HTTP: who is let in, what is answered, and what cannot harm it.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::io::{BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::{Daemon, Http, every, read_answer, trl};

fn served() -> (Daemon, Http) {
    let daemon = Daemon::builder(trl!()).http().start();
    let http = daemon.http();
    (daemon, http)
}

#[test]
fn a_request_is_answered_as_over_the_socket() {
    let (daemon, http) = served();
    for path in ["/", "/v1/rpc"] {
        let body = json!({"id": "a b", "method": m::SystemPing::NAME}).to_string();
        let answer = http.ask("POST", path, &[("Content-Type", "application/json")], body.as_bytes());
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert!(
            answer.text().starts_with(r#"{"id":"a b","ok":true,"data":{"uptime_s":"#),
            "{}",
            answer.text()
        );
    }
    let created = http.ok(m::SessionCreate::NAME, json!({"shell": "bash", "name": "web"}));
    assert_eq!(
        http.ok(m::ExecRun::NAME, json!({"session_id": "web", "command": "x=5; echo $x"}))["stdout"],
        "5\n"
    );
    assert_eq!(
        http.ok(m::ExecRun::NAME, json!({"session_id": "web", "command": "echo $x"}))["stdout"],
        "5\n"
    );
    let listed = daemon.connect().ok(m::SessionList::NAME, json!({}));
    assert_eq!(
        listed["sessions"][0]["session_id"], created["session_id"],
        "both ways lead to the same sessions"
    );
}

#[test]
fn a_fault_has_the_status_of_its_code() {
    let (_daemon, http) = served();
    http.ok(m::SessionCreate::NAME, json!({"shell": "bash", "name": "web"}));
    every(
        [
            (r#"nonsense"#, 400, "PARSE_ERROR"),
            ("", 400, "PARSE_ERROR"),
            (r#"{"id":1,"method":"no.such"}"#, 404, "METHOD_NOT_FOUND"),
            (r#"{"method":"system.ping"}"#, 400, "INVALID_PARAMS"),
            (r#"{"id":1,"method":"exec.run","params":{}}"#, 400, "INVALID_PARAMS"),
            (r#"{"id":1,"method":"session.info","params":{"session_id":"none"}}"#, 404, "SESSION_NOT_FOUND"),
            (r#"{"id":1,"method":"session.create","params":{"name":"web"}}"#, 409, "NAME_TAKEN"),
            (
                r#"{"id":1,"method":"session.create","params":{"runtime":"ssh:a.example","isolation":{"net":{"allow":["b.example"]}}}}"#,
                422,
                "ISOLATION_UNAVAILABLE",
            ),
        ],
        |(body, status, code)| {
            let answer = http.ask("POST", "/", &[], body.as_bytes());
            assert_eq!(
                (answer.status, &answer.json()["error"]["code"]),
                (*status, &json!(code)),
                "{}",
                answer.text()
            );
        },
    );
    let answer = http.ask("GET", "/", &[], b"");
    assert_eq!(answer.status, 405, "{answer:?}");
    assert_eq!(http.ask("GET", "/nothing/here", &[], b"").status, 404);
}

#[test]
fn nothing_but_health_is_told_without_a_token() {
    let (_daemon, http) = served();
    let health = http.ask_bare("GET", "/healthz", &[], b"");
    assert_eq!((health.status, health.json()["ok"].clone()), (200, json!(true)));
    let body = json!({"id": 1, "method": m::SystemPing::NAME}).to_string();
    let wrong = format!("Bearer {}x", http.token);
    let short = format!("Bearer {}", &http.token[1..]);
    let right = format!("Bearer {}", http.token);
    let sets: &[&[(&str, &str)]] = &[
        &[],
        &[("Authorization", &wrong)],
        &[("Authorization", &short)],
        &[("Authorization", "Bearer ")],
        &[("Authorization", "Basic YTpi")],
        &[("Authorization", &http.token)],
        &[("Authorization", &right), ("Authorization", &wrong)],
        &[("X-Authorization", &right)],
    ];
    for headers in sets {
        every(
            [
                ("POST", "/"),
                ("POST", "/v1/rpc"),
                ("POST", "//v1/rpc"),
                ("POST", "/v1//rpc"),
                ("POST", "/./v1/rpc"),
                ("POST", "/healthz/../v1/rpc"),
                ("POST", "/%2e/v1/rpc"),
                ("GET", "//healthz"),
                ("GET", "/healthz/"),
                ("GET", "/metrics"),
                ("GET", "/openapi.json"),
                ("GET", "/v1/ws"),
                ("GET", "/nothing"),
                ("OPTIONS", "/v1/rpc"),
                ("DELETE", "/"),
            ],
            |(method, path)| {
                let answer = http.ask_bare(method, path, headers, body.as_bytes());
                assert_eq!(answer.status, 401, "{method} {path} {headers:?}: {answer:?}");
                assert_eq!(answer.json()["error"]["code"], "AUTH_FAILED");
                assert!(answer.header("www-authenticate").is_some());
            },
        );
    }
    let lower = format!("bearer  {}", http.token);
    assert_eq!(http.ask_bare("POST", "/", &[("authorization", &lower)], body.as_bytes()).status, 200);
}

#[test]
fn requests_for_other_hosts_and_pages_of_others_are_refused() {
    let daemon = Daemon::builder(trl!())
        .http()
        .env("TRL_HTTP_HOSTS", "build.example")
        .env("TRL_HTTP_ORIGINS", "https://board.example")
        .start();
    let http = daemon.http();
    let body = json!({"id": 1, "method": m::SystemPing::NAME}).to_string();
    let status = |headers: &[(&str, &str)]| http.ask("POST", "/", headers, body.as_bytes()).status;
    for (host, expected) in
        [("evil.example", 403), ("localhost:1", 200), ("build.example", 200), ("[::1]", 200), ("", 403)]
    {
        assert_eq!(status(&[("Host", host)]), expected, "{host}");
        let health = http.ask_bare("GET", "/healthz", &[("Host", host)], b"");
        assert_eq!(health.status, expected, "{host}");
    }
    assert_eq!(status(&[("Host", "localhost"), ("Host", "evil.example")]), 403);
    assert_eq!(status(&[("Origin", "https://evil.example")]), 403);
    assert_eq!(status(&[("Origin", "null")]), 403);
    let allowed = http.ask("POST", "/", &[("Origin", "https://board.example")], body.as_bytes());
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://board.example"));
    let ask = [("Origin", "https://board.example"), ("Access-Control-Request-Method", "POST")];
    let preflight = http.ask_bare("OPTIONS", "/v1/rpc", &ask, b"");
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-headers").is_some_and(|it| it.contains("authorization")));
    let ask = [("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")];
    assert_eq!(http.ask_bare("OPTIONS", "/v1/rpc", &ask, b"").status, 403);
}

#[test]
fn a_token_opens_what_its_scope_says() {
    let daemon =
        Daemon::builder(trl!()).arg("--http").arg("127.0.0.1:0").arg("--tokens").arg("tokens").prepare();
    let file = daemon.work().join("tokens");
    std::fs::write(&file, "# who may\nboard read look-only-0123456789\nci run work-0123456789abcdef\nops admin rule-0123456789abcdef\n")
        .unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let daemon = daemon.started();
    let http = |token: &str| Http { token: token.to_owned(), ..daemon.http() };
    let (board, ci, ops) =
        (http("look-only-0123456789"), http("work-0123456789abcdef"), http("rule-0123456789abcdef"));
    assert_eq!(board.call(m::SessionList::NAME, json!({})).status, 200);
    let refused = board.call(m::SessionCreate::NAME, json!({}));
    assert_eq!(
        (refused.status, &refused.json()["error"]["code"]),
        (403, &json!("AUTH_FAILED")),
        "{refused:?}"
    );
    assert_eq!(ci.call(m::SessionCreate::NAME, json!({"name": "x", "shell": "sh"})).status, 200);
    assert_eq!(board.call(m::SessionDestroy::NAME, json!({"session_id": "x"})).status, 403);
    assert_eq!(ci.call(m::SystemShutdown::NAME, json!({})).status, 403);
    assert_eq!(ops.call(m::SessionInfo::NAME, json!({"session_id": "x"})).status, 200);
    assert!(!daemon.log().contains("0123456789"), "no token is logged");
}

#[test]
fn without_a_token_the_daemon_does_not_start() {
    let mut daemon = Daemon::builder(trl!()).prepare();
    let said = |daemon: &Daemon, args: &[&str], env: &[(&str, &str)]| {
        let mut command = daemon.command();
        let output = command.args(args).envs(env.iter().copied()).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, error) = said(&daemon, &["--http", "127.0.0.1:0"], &[]);
    assert_eq!(status, Some(78), "{error}");
    assert!(error.contains("token") && error.contains("TRL_AUTH_TOKEN"), "{error}");
    let (_, error) = said(&daemon, &["serve"], &[("TRL_HTTP", "nowhere"), ("TRL_AUTH_TOKEN", "x")]);
    assert!(error.contains("TRL_HTTP") && error.contains("nowhere"), "{error}");
    let file = daemon.work().join("open");
    std::fs::write(&file, "ci run abcdef\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (_, error) = said(&daemon, &["serve", "--http", "0", "--tokens", "open"], &[]);
    assert!(error.contains("chmod 600"), "{error}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (_, error) = said(&daemon, &["serve", "--http", &address], &[("TRL_AUTH_TOKEN", "x")]);
    assert!(error.contains(&address), "{error}");
    assert!(!daemon.socket().exists());
    daemon.keep_sessions();
}

#[test]
fn a_body_that_is_too_long_and_a_head_that_is_too_long_are_refused() {
    let (_daemon, http) = served();
    let long = vec![b' '; 17 * 1024 * 1024];
    let answer = http.ask("POST", "/", &[], &long);
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (413, &json!("PAYLOAD_TOO_LARGE")));
    let mut stream = http.connect();
    let token = &http.token;
    write!(stream, "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    for _ in 0..17 {
        // It may have answered already.
        let _closed = write!(stream, "100000\r\n")
            .and_then(|()| stream.write_all(&long[..0x10_0000]))
            .and_then(|()| write!(stream, "\r\n"));
    }
    let _closed = write!(stream, "0\r\n\r\n");
    assert_eq!(read_answer(&mut BufReader::new(stream)).status, 413);
    let value = "x".repeat(200_000);
    let answer = http.ask("GET", "/healthz", &[("X-Long", &value)], b"");
    assert_eq!(answer.status, 431, "{answer:?}");
    let many: Vec<(String, &str)> = (0..300).map(|number| (format!("X-{number}"), "x")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(http.ask("GET", "/healthz", &many, b"").status, 431);
    assert_eq!(http.ask("GET", "/healthz", &[], b"").status, 200);
}

#[test]
fn what_is_no_http_harms_nobody() {
    let (_daemon, http) = served();
    for bytes in [
        &b"\x16\x03\x01\x02\x00"[..],
        b"GET\r\n\r\n",
        b"{\"id\":1}\n",
        b"POST / HTTP/1.1\r\n",
        b"\0\0\0\0\r\n\r\n",
    ] {
        let mut stream = http.connect();
        stream.write_all(bytes).unwrap();
    }
    assert_eq!(http.ask("GET", "/healthz", &[], b"").status, 200);
}
