//! The framing and its rules: one response per request, whatever is sent, and no input that harms the daemon.

use std::io::Write as _;
use std::net::Shutdown;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Connection, Daemon, Shell, daemon};

#[track_caller]
fn still_answers(connection: &mut Connection) {
    assert!(connection.ok(m::SystemPing::NAME, json!({}))["version"].is_string());
}

/// Sends one line and returns the one answer to it.
#[track_caller]
fn answer_to(connection: &mut Connection, line: &str) -> Value {
    connection.send_line(line);
    connection.next_line().unwrap_or_default()
}

#[test]
fn an_id_comes_back_with_its_type() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    for id in [
        json!("text"),
        json!(7),
        json!(0),
        json!(-3),
        json!(""),
        json!("7"),
        json!(9_007_199_254_740_993_u64),
        json!("\u{1f600}\n\""),
        json!(1.5),
    ] {
        let line = json!({"id": id, "method": m::SystemPing::NAME}).to_string();
        let answer = answer_to(&mut connection, &line);
        assert_eq!((&answer["id"], &answer["ok"]), (&id, &json!(true)), "{answer}");
        let line = json!({"id": id, "method": "no.such"}).to_string();
        let answer = answer_to(&mut connection, &line);
        assert_eq!((&answer["id"], &answer["ok"]), (&id, &json!(false)), "{answer}");
    }
}

#[test]
fn lines_are_written_compact_and_in_the_documented_order() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    connection.send_line(r#"{"id":"a b","method":"system.ping"}"#);
    let line = connection.next_raw_line().unwrap_or_default();
    assert!(line.starts_with(r#"{"id":"a b","ok":true,"data":{"#) && line.ends_with("}}"), "{line}");
    connection.send_line(r#"{"id":1,"method":"nope"}"#);
    let line = connection.next_raw_line().unwrap_or_default();
    assert!(
        line.starts_with(r#"{"id":1,"ok":false,"error":{"code":"METHOD_NOT_FOUND","message":""#),
        "{line}"
    );
    let session = daemon.session(Shell::Bash);
    connection.send_line(&json!({"id": 2, "method": m::ExecStream::NAME, "params": {"session_id": session.id, "command": "echo hi"}}).to_string());
    let line = connection.next_raw_line().unwrap_or_default();
    assert!(line.starts_with(r#"{"id":2,"event":"started","data":{"exec_id":"e-"#), "{line}");
    let line = connection.next_raw_line().unwrap_or_default();
    assert!(line.starts_with(r#"{"id":2,"event":"stdout","data":{"#), "{line}");
}

#[test]
fn params_may_be_missing_or_empty() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    for line in [
        r#"{"id":1,"method":"session.list"}"#,
        r#"{"id":1,"method":"session.list","params":{}}"#,
        r#"{"id":1,"method":"session.list","params":null}"#,
        " { \"id\" : 1 , \"method\" : \"session.list\" } \r",
    ] {
        assert_eq!(answer_to(&mut connection, line)["data"], json!({"sessions": []}), "{line}");
    }
}

#[test]
fn what_is_no_request_gets_a_parse_error_and_the_connection_goes_on() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    for line in [
        "garbage",
        "{",
        "}",
        "[]",
        "5",
        "\"text\"",
        "null",
        "true",
        "{\"id\":1,",
        "{'id':1}",
        "\u{feff}{}",
        "{\"id\":1,\"method\":\"system.ping\"} trailing",
        &deep,
        "\u{1}\u{2}",
    ] {
        let answer = answer_to(&mut connection, line);
        assert_eq!(
            (&answer["id"], &answer["ok"], &answer["error"]["code"]),
            (&json!(null), &json!(false), &json!("PARSE_ERROR")),
            "{line:.80}: {answer}"
        );
        still_answers(&mut connection);
    }
    for bytes in [
        &b"\xff\xfe\n"[..],
        b"{\"id\":\"\xff\",\"method\":\"system.ping\"}\n",
        b"\0\n",
        b"{\"id\":1,\"method\":\"\xc3\"}\n",
    ] {
        connection.send_bytes(bytes);
        let answer = connection.next_line().unwrap_or_default();
        assert_eq!(answer["error"]["code"], "PARSE_ERROR", "{bytes:?}: {answer}");
        still_answers(&mut connection);
    }
}

#[test]
fn an_object_that_is_no_request_gets_an_error() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let deep_params = format!("{{\"id\":1,\"method\":\"session.list\",\"params\":{deep}}}");
    for line in [
        deep.as_str(),
        &deep_params,
        "{}",
        r#"{"id":1}"#,
        r#"{"method":"system.ping"}"#,
        r#"{"id":1,"method":5}"#,
        r#"{"id":1,"method":null}"#,
        r#"{"id":[1],"method":"system.ping"}"#,
        r#"{"id":{},"method":"system.ping"}"#,
        r#"{"id":true,"method":"system.ping"}"#,
    ] {
        let answer = answer_to(&mut connection, line);
        assert_eq!(answer["ok"], false, "{line:.80}: {answer}");
        let code = answer["error"]["code"].as_str().unwrap_or_default();
        assert!(["PARSE_ERROR", "INVALID_PARAMS"].contains(&code), "{line:.80}: {answer}");
        still_answers(&mut connection);
    }
}

#[test]
fn wrong_params_are_named_with_the_nearest_known_name() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    for (method, params, words) in [
        (m::ExecRun::NAME, json!({"sesion_id": "x", "command": "true"}), &["sesion_id", "session_id"][..]),
        (
            m::ExecRun::NAME,
            json!({"session_id": "x", "command": "true", "timeout": 5}),
            &["timeout", "timeout_s"],
        ),
        (m::ExecRun::NAME, json!({"session_id": "x"}), &["command"]),
        (m::ExecRun::NAME, json!({"session_id": "x", "command": 5}), &["command"]),
        (m::ExecRun::NAME, json!({"session_id": "x", "command": "true", "env": {"A": 1}}), &["env.A"]),
        (m::ExecRun::NAME, json!({"session_id": "x", "command": "true", "env": []}), &["env"]),
        (m::ExecRun::NAME, json!({"session_id": ["x"], "command": "true"}), &["session_id"]),
        (m::SessionCreate::NAME, json!({"shel": "bash"}), &["shel", "shell"]),
        (m::SessionCreate::NAME, json!({"limits": {"journal": 5}}), &["journal"]),
        (m::SessionDestroy::NAME, json!({}), &["session_id"]),
        (m::SessionList::NAME, json!({"x": 1}), &["x"]),
        (m::SystemPing::NAME, json!({"x": 1}), &["x"]),
    ] {
        let message = connection.fails(method, params, "INVALID_PARAMS");
        assert!(words.iter().all(|word| message.contains(word)), "{method}: {message}");
    }
    for params in [json!([]), json!(5), json!("text"), json!(true)] {
        connection.fails(m::SessionList::NAME, params, "INVALID_PARAMS");
    }
    let message = connection.fails("exec.rum", json!({}), "METHOD_NOT_FOUND");
    assert!(message.contains("exec.run"), "{message}");
    for method in ["", "EXEC.RUN", "exec", "exec.run ", "exec.run\n", &"m".repeat(100_000)] {
        connection.fails(method, json!({}), "METHOD_NOT_FOUND");
    }
    still_answers(&mut connection);
}

#[test]
fn a_line_above_the_limit_ends_its_connection_and_no_other() {
    let daemon = daemon!();
    let mut other = daemon.connect();
    for (size, ends) in [(17 * 1024 * 1024, true), (64 * 1024 * 1024, true), (40 * 1024 * 1024, false)] {
        let mut connection = daemon.connect();
        let start = br#"{"id":1,"method":"exec.run","params":{"session_id":"x","command":""#;
        let mut line = start.to_vec();
        line.resize(size, b'x');
        if ends {
            line.extend(b"\"}}\n");
        }
        // The daemon may close before it has taken everything.
        let _refused = connection.socket().write_all(&line);
        let answer = connection.next_line().unwrap_or_default();
        assert_eq!(answer["error"]["code"], "PAYLOAD_TOO_LARGE", "{size}: {answer}");
        assert_eq!(connection.next_line(), None, "the connection is closed");
        still_answers(&mut other);
    }
    let memory = trl_testkit::process::memory(daemon.pid());
    assert!(memory.peak < 160 * 1024 * 1024, "{memory:?}");
}

#[test]
fn a_line_just_below_the_limit_is_read() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let command = format!(": {}", "x".repeat(7 * 1024 * 1024));
    session.run(&command).exits(0);
    let too_long = format!(": {}", "x".repeat(9 * 1024 * 1024));
    let params = session.params(json!({"command": too_long}));
    let error = session.connection.call(m::ExecRun::NAME, params).err().unwrap_or_default();
    assert!(
        ["PAYLOAD_TOO_LARGE", "INVALID_PARAMS"].contains(&error["code"].as_str().unwrap_or_default()),
        "{error}"
    );
    session.survives();
}

#[test]
fn bytes_may_come_one_at_a_time_or_many_lines_at_once() {
    let daemon = daemon!();
    let mut slow = daemon.connect();
    let mut other = daemon.connect();
    for byte in br#"{"id":1,"method":"system.ping"}"# {
        slow.send_bytes(&[*byte]);
        still_answers(&mut other);
    }
    slow.send_bytes(b"\n");
    assert_eq!(slow.next_line().unwrap_or_default()["ok"], true);
    let many: String =
        (0..500).map(|number| format!("{{\"id\":{number},\"method\":\"system.ping\"}}\n")).collect();
    slow.send_bytes(many.as_bytes());
    let mut ids: Vec<u64> =
        (0..500).filter_map(|_| slow.next_line().unwrap_or_default()["id"].as_u64()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..500).collect::<Vec<u64>>(), "one response for each request");
    slow.send_bytes(b"{\"id\":1,\"method\":\"system.pi");
    still_answers(&mut other);
}

#[test]
fn blank_lines_do_no_harm() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    connection.send_bytes(b"\n\r\n  \n{\"id\":\"after\",\"method\":\"system.ping\"}\n");
    let answer = (0..4).filter_map(|_| connection.next_line()).find(|line| line["id"] == "after");
    assert_eq!(answer.unwrap_or_default()["ok"], true);
}

#[test]
fn requests_on_one_connection_run_at_the_same_time() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let params = session.params(json!({"command": "sleep 0.5"}));
    let slow = session.connection.begin(m::ExecRun::NAME, params);
    let fast = session.connection.begin(m::SystemPing::NAME, json!({}));
    assert_eq!(session.connection.next_line().unwrap_or_default()["id"], fast, "the fast one answers first");
    assert_eq!(session.connection.finish(slow).data()["exit_code"], 0);
}

#[test]
fn the_same_id_twice_gets_two_answers() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    connection.send_bytes(b"{\"id\":5,\"method\":\"system.ping\"}\n{\"id\":5,\"method\":\"session.list\"}\n");
    let answers = [connection.next_line().unwrap_or_default(), connection.next_line().unwrap_or_default()];
    assert!(answers.iter().all(|answer| answer["id"] == 5 && answer["ok"] == true), "{answers:?}");
    assert!(answers.iter().any(|answer| answer["data"]["sessions"].is_array()));
}

#[test]
fn a_client_that_has_said_all_still_gets_its_answers() {
    let daemon = daemon!();
    let session = daemon.session(Shell::Bash);
    let mut connection = daemon.connect();
    let request = json!({"id": 1, "method": m::ExecRun::NAME, "params": {"session_id": session.id, "command": "sleep 0.2; echo late"}});
    connection.send_line(&request.to_string());
    assert!(connection.socket().shutdown(Shutdown::Write).is_ok());
    assert_eq!(connection.next_line().unwrap_or_default()["data"]["stdout"], "late\n");
    assert_eq!(connection.next_line(), None);
}

#[test]
fn odd_text_in_json_is_read_or_refused_but_never_wedges() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let id = session.id.clone();
    let escaped = r#""\u0065cho \u00e9 \ud83d\ude00 \"q\" \\ \/ \t.""#;
    session.connection.send_line(&format!(
        r#"{{"id":1,"method":"exec.run","params":{{"session_id":"{id}","command":{escaped}}}}}"#
    ));
    assert_eq!(session.connection.next_line().unwrap_or_default()["data"]["stdout"], "é 😀 q  / .\n");
    for lone in [r#""\ud800""#, r#""\udc00x""#, r#""\u12""#, r#""\x41""#] {
        session.connection.send_line(&format!(
            r#"{{"id":2,"method":"exec.run","params":{{"session_id":"{id}","command":{lone}}}}}"#
        ));
        assert_eq!(session.connection.next_line().unwrap_or_default()["ok"], false, "{lone}");
    }
    for number in ["1e999", "-1e999", "99999999999999999999999999"] {
        session.connection.send_line(&format!(r#"{{"id":3,"method":"exec.run","params":{{"session_id":"{id}","command":"touch hit","timeout_s":{number}}}}}"#));
        assert_eq!(session.connection.next_line().unwrap_or_default()["ok"], false, "{number}");
    }
    session.survives();
}

#[test]
fn clients_that_come_and_go_leave_nothing_open() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.survives();
    let before = daemon.open_descriptors();
    for number in 0..200 {
        let mut connection = daemon.connect();
        match number % 4 {
            0 => {}
            1 => connection.send_bytes(b"{\"id\":1,"),
            2 => connection.send_line(r#"{"id":1,"method":"system.stats"}"#),
            _ => still_answers(&mut connection),
        }
    }
    let crowd: Vec<Connection> = (0..100).map(|_| daemon.connect()).collect();
    session.survives();
    drop(crowd);
    let host = session.host_pid();
    for _ in 0..50 {
        session.ok("echo x");
    }
    let host_before = trl_testkit::process::open_descriptors(host);
    for _ in 0..50 {
        session.ok("echo x");
    }
    trl_testkit::wait_until("descriptors are closed again", trl_testkit::GUARD, || {
        daemon.open_descriptors() <= before + 2
            && trl_testkit::process::open_descriptors(host) <= host_before + 4
    });
    assert_eq!(session.connection.ok(m::SystemStats::NAME, json!({}))["connections"], 1);
}

#[test]
fn a_client_that_does_not_read_harms_only_itself() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let mut deaf = daemon.connect();
    let request = json!({"id": 1, "method": m::ExecRun::NAME, "params": {"session_id": session.id, "command": "head -c 900000 /dev/zero | tr '\\0' x", "wait_s": 60}});
    for _ in 0..20 {
        deaf.send_line(&request.to_string());
    }
    for _ in 0..3 {
        session.run_with(json!({"command": "echo ok", "wait_s": 60})).exits(0).prints("ok\n", "");
    }
    let memory = trl_testkit::process::memory(daemon.pid());
    assert!(memory.peak < 160 * 1024 * 1024, "{memory:?}");
}

#[test]
fn the_daemon_tells_about_itself() {
    let daemon: Daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("true");
    session.ok("true");
    let ping = session.connection.ok(m::SystemPing::NAME, json!({}));
    assert!(
        ping["uptime_s"].as_f64().is_some_and(|uptime| uptime >= 0.0) && ping["version"].is_string(),
        "{ping}"
    );
    let stats = session.connection.ok(m::SystemStats::NAME, json!({}));
    assert_eq!(
        (&stats["active_sessions"], &stats["total_commands_run"], &stats["connections"]),
        (&json!(1), &json!(2), &json!(1)),
        "{stats}"
    );
    assert!(
        stats["memory_rss_bytes"].as_u64() > Some(1_000_000) && stats["open_fds"].as_u64() > Some(3),
        "{stats}"
    );
    let info = session.connection.ok(m::SystemInfo::NAME, json!({}));
    assert_eq!(info["pid"], daemon.pid());
    let shells: Vec<&str> =
        info["shells"].as_array().into_iter().flatten().filter_map(|shell| shell["name"].as_str()).collect();
    assert!(["bash", "zsh"].iter().all(|name| shells.contains(name)), "{info}");
    assert_eq!(
        (
            &info["limits"]["max_sessions"],
            &info["limits"]["default_timeout_s"],
            &info["limits"]["max_line_bytes"]
        ),
        (&json!(64), &json!(60.0), &json!(16_777_216))
    );
}

/// A method without a test here is one that nobody has seen work from outside.
#[test]
fn every_method_of_sessions_is_asked_for_by_some_test() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let groups = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let sources = groups.filter_map(|group| std::fs::read_dir(group.path()).ok()).flatten().flatten();
    let text: String = sources.filter_map(|entry| std::fs::read_to_string(entry.path()).ok()).collect();
    let ours =
        |method: &str| ["session.", "exec.", "file.", "system."].iter().any(|kind| method.starts_with(kind));
    let unseen: Vec<_> = trl_protocol::METHODS
        .iter()
        .map(|method| method.name)
        .filter(|method| ours(method) && !text.contains(&format!("\"{method}\"")))
        .collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}
