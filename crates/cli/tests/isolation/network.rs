//! A list of hosts: the daemon's proxy is the only way out, and connects to nothing else.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, GUARD, Session, Shell, daemon, process, trl, wait_until};

use super::outside::NOBODY;

/// Answers every connection with the first line that it hears, until the test's process ends.
fn server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut lines = BufReader::new(&connection).lines();
                let first = lines.next().and_then(Result::ok).unwrap_or_default();
                // The rest of the head.
                while lines.next().and_then(Result::ok).is_some_and(|line| !line.is_empty()) {}
                write!(&connection, "HTTP/1.0 200 OK\r\n\r\nheard <{first}>\n").ok();
            });
        }
    });
    port
}

fn session(daemon: &Daemon, allow: Value) -> Session {
    let mut session = daemon
        .session_with(Shell::Bash, json!({"isolation": {"profile": "strict", "net": {"allow": allow}}}));
    // Bash can connect by itself: no program is needed inside.
    session.ok(
        "ask() { exec 3<>/dev/tcp/127.0.0.1/${HTTP_PROXY##*:} && printf \"$1\" >&3 && cat <&3; exec 3>&-; }",
    );
    session
}

#[test]
fn listed_hosts_are_reached_and_no_others() {
    let (port, other) = (server(), server());
    for daemon in [daemon!(), Daemon::builder(trl!()).as_user(NOBODY).start()] {
        let mut session = session(&daemon, json!([format!("localhost:{port}"), "*.example.invalid:443"]));
        let connect =
            |host: &str| format!("ask 'CONNECT {host} HTTP/1.1\\r\\n\\r\\nGET /x HTTP/1.0\\r\\n\\r\\n'");
        let get = |host: &str| format!("ask 'GET http://{host}/y?z HTTP/1.1\\r\\nHost: other\\r\\n\\r\\n'");

        let ran = session.run(&connect(&format!("localhost:{port}")));
        assert!(
            ran.stdout.contains("200 Connection") && ran.stdout.contains("heard <GET /x HTTP/1.0>"),
            "{ran:?}"
        );
        let ran = session.run(&get(&format!("LOCALHOST:{port}")));
        assert!(ran.stdout.contains("heard <GET /y?z HTTP/1.1>"), "{ran:?}");
        let [high, low] = port.to_be_bytes();
        let socks = format!(
            "ask '\\x05\\x01\\x00\\x05\\x01\\x00\\x03\\x09localhost\\x{high:02x}\\x{low:02x}GET /s HTTP/1.0\\r\\n\\r\\n' | tr -d '\\0'"
        );
        let ran = session.run(&socks);
        assert!(ran.stdout.contains("heard <GET /s HTTP/1.0>"), "{ran:?}");

        for host in [
            format!("localhost:{other}"),
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
            "example.invalid:443".to_owned(),
        ] {
            for command in [connect(&host), get(&host)] {
                let ran = session.run(&command);
                assert!(
                    ran.stdout.contains("403 Forbidden") && !ran.stdout.contains("heard"),
                    "{host}: {ran:?}"
                );
            }
            let told =
                daemon.connect().ok(m::ExecRun::NAME, session.params(json!({"command": connect(&host)})));
            let notes = told["notes"].to_string();
            assert!(notes.contains(&format!("{host} is not on the session's list")), "{told}");
        }
        // Listed, and not there.
        let ran = session.run(&connect("a.example.invalid:443"));
        assert!(ran.stdout.contains("502 Bad Gateway"), "{ran:?}");
        // What is no request of a proxy is none to the machine's servers either.
        let ran = session.run("ask 'GET / HTTP/1.1\\r\\n\\r\\n'");
        assert!(ran.stdout.contains("400 Bad Request"), "{ran:?}");
        // Around the proxy there is nothing.
        assert_ne!(session.run(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}")).exit_code, Some(0));
        session
            .run("echo $https_proxy $ALL_PROXY $NO_PROXY")
            .exits(0)
            .prints("http://127.0.0.1:3128 http://127.0.0.1:3128 127.0.0.1,::1\n", "");
        let info = session.info();
        let enforced = info["isolation"]["enforced"].to_string();
        assert!(enforced.contains("proxy for the listed hosts"), "{info}");
        assert!(daemon.log().contains("a host was refused"), "it is in the log");
    }
}

#[test]
fn decisions_are_events() {
    let daemon = daemon!();
    let port = server();
    let mut events = daemon.connect();
    let watch = events.begin(m::EventsSubscribe::NAME, json!({"topics": ["net"]}));
    events.event(watch);
    let mut session = session(&daemon, json!([format!("127.0.0.1:{port}")]));
    session.run(&format!("ask 'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\nGET / HTTP/1.0\\r\\n\\r\\n'"));
    let told = events.event(watch).data;
    assert_eq!(
        (&told["change"], &told["host"]),
        (&json!("allowed"), &json!(format!("127.0.0.1:{port}"))),
        "{told}"
    );
    session.run("ask 'CONNECT other.invalid:80 HTTP/1.1\\r\\n\\r\\n'");
    let told = events.event(watch).data;
    assert_eq!((&told["topic"], &told["change"]), (&json!("net"), &json!("refused")), "{told}");
    assert_eq!(told["host"], "other.invalid:80");
    assert!(told["session_id"].is_string() && told["reason"].to_string().contains("allow"), "{told}");
}

#[test]
fn the_way_out_survives_the_daemon_and_the_host() {
    let mut daemon = daemon!();
    daemon.keep_sessions();
    let port = server();
    let mut session = session(&daemon, json!([format!("localhost:{port}")]));
    let ask = format!("ask 'CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\nGET /x HTTP/1.0\\r\\n\\r\\n'");
    assert!(session.run(&ask).stdout.contains("heard"));
    let id = session.info()["session_id"].clone();
    let host = session.host_pid();
    let asked = json!({"session_id": id, "command": ask});
    daemon.kill9();
    daemon.restart();
    let mut connection = daemon.connect();
    let ran = connection.ok(m::ExecRun::NAME, asked.clone());
    assert!(ran["stdout"].to_string().contains("heard"), "{ran}");
    process::signal(host, rustix::process::Signal::KILL);
    wait_until("the session is lost", GUARD, || {
        connection.ok(m::SessionInfo::NAME, json!({"session_id": id}))["state"] == "lost"
    });
    connection.ok(m::SessionRestart::NAME, json!({"session_id": id}));
    let ran = connection.ok(m::ExecRun::NAME, asked);
    assert!(ran["stdout"].to_string().contains("heard"), "{ran}");
}

#[test]
fn a_person_hears_what_was_refused_and_how_to_allow_it() {
    let daemon = daemon!();
    let isolation = r#"{"profile":"strict","net":{"allow":["a.example.invalid"]}}"#;
    let command = "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT b.example.invalid:443 HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3 >/dev/null";
    let out = daemon.trl(&["run", "--new", "--isolation", isolation, "--", command]);
    let text = String::from_utf8_lossy(&out.stderr);
    assert!(text.contains("b.example.invalid:443 is not on the session's list"), "{out:?}");
    assert!(text.contains(r#""allow":["b.example.invalid:443"]"#), "{out:?}");
}

#[test]
fn a_list_is_looked_at_before_there_is_a_session() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    for host in ["https://a.example", "", "a b", "*x.example", "a.example:http"] {
        let asked = json!({"isolation": {"profile": "strict", "net": {"allow": [host]}}});
        let message = connection.fails(m::SessionCreate::NAME, asked, "INVALID_PARAMS");
        assert!(message.contains("net.allow"), "{message}");
    }
    let asked = json!({"isolation": {"profile": "none", "net": {"allow": ["a.example"]}}});
    connection.fails(m::SessionCreate::NAME, asked, "INVALID_PARAMS");
}
