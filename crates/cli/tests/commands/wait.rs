//! Waiting for a command: its end, its output, its port.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Session, Shell, daemon, in_each_shell, own_port};

#[track_caller]
fn wait(session: &mut Session, exec_id: &str, params: Value) -> Value {
    session.connection.ok(m::ExecWait::NAME, with(exec_id, params))
}

#[track_caller]
fn fails(session: &mut Session, exec_id: &str, params: Value, code: &str) -> Value {
    let request = session.connection.begin(m::ExecWait::NAME, with(exec_id, params));
    session.connection.finish(request).failed(code)
}

fn with(exec_id: &str, mut params: Value) -> Value {
    params["exec_id"] = json!(exec_id);
    params
}

fn for_its_end(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = session.start(json!({"command": "read x; echo $x; exit 4", "stdin": ""}));
    let fault = fails(&mut session, &exec_id, json!({"timeout_s": 0.05}), "WAIT_TIMEOUT");
    assert_eq!(fault["details"]["state"], "running", "{fault}");
    let request =
        session.connection.begin(m::ExecWait::NAME, json!({"exec_id": exec_id, "until": {"exit": true}}));
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "go\n"}));
    let waited = session.connection.finish(request).data();
    assert_eq!(
        (&waited["state"], &waited["exit_code"], &waited["matched"], &waited["stdout_bytes"]),
        (&json!("finished"), &json!(4), &json!({"exit": true}), &json!(3)),
        "{waited}"
    );
    // Again, when it is over; and for one in the foreground.
    assert_eq!(wait(&mut session, &exec_id, json!({"until": {"exit": {}}}))["exit_code"], 4);
    let ran = session.run("echo done");
    assert_eq!(wait(&mut session, &ran.exec_id, json!({}))["exit_code"], 0);
    session.survives();
}

fn for_something_in_its_output(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let torn = "printf 'rea'; sleep 0.1; printf 'dy now\\n'; echo 'port 8080' >&2; cat";
    let exec_id = session.start(json!({"command": torn, "stdin": ""}));
    let waited = wait(&mut session, &exec_id, json!({"until": {"log": {"pattern": "ready"}}}));
    assert_eq!(
        waited["matched"],
        json!({"log": {"stream": "stdout", "offset": 0, "end_offset": 5, "index": 0, "text": "ready",
            "next_offsets": {"stdout": 5, "stderr": 0}}}),
        "{waited}"
    );
    assert_eq!(waited["state"], "running");
    let until = json!({"until": {"log": {"pattern": "^port (\\d+)$", "regex": true}}});
    let waited = wait(&mut session, &exec_id, until);
    assert_eq!(
        waited["matched"],
        json!({"log": {"stream": "stderr", "offset": 0, "end_offset": 9, "index": 0, "text": "port 8080",
            "next_offsets": {"stdout": 0, "stderr": 9}}}),
        "{waited}"
    );
    // Already printed, and only in the other stream.
    wait(&mut session, &exec_id, json!({"until": {"log": {"pattern": "now"}}}));
    let other = json!({"timeout_s": 0.1, "until": {"log": {"pattern": "now", "stream": "stderr"}}});
    fails(&mut session, &exec_id, other, "WAIT_TIMEOUT");
    // The first of several, and only from an offset on.
    let several = json!({"until": {"log": {"patterns": ["never", "now", "rea"], "from_offset": 5}}});
    let matched = &wait(&mut session, &exec_id, several)["matched"]["log"];
    assert_eq!((&matched["index"], &matched["offset"]), (&json!(1), &json!(6)), "{matched}");
    let later = json!({"timeout_s": 0.1, "until": {"log": {"pattern": "now", "from_offset": 7}}});
    fails(&mut session, &exec_id, later, "WAIT_TIMEOUT");
    let request = session
        .connection
        .begin(m::ExecWait::NAME, json!({"exec_id": exec_id, "until": {"log": {"pattern": "never"}}}));
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "eof": true}));
    let fault = session.connection.finish(request).failed("COMMAND_FAILED");
    assert_eq!(
        (&fault["details"]["state"], &fault["details"]["exit_code"]),
        (&json!("finished"), &json!(0)),
        "{fault}"
    );
    // What it printed still counts when it is over.
    assert_eq!(
        wait(&mut session, &exec_id, json!({"until": {"log": {"pattern": "ready"}}}))["state"],
        "finished"
    );
    let exec_id = session.start(json!({"command": "printf 'the last word'"}));
    wait(&mut session, &exec_id, json!({"until": {"log": {"pattern": "word$", "regex": true}}}));
}

fn for_its_port(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let port = own_port();
    let server = format!(
        "sleep 0.1; exec python3 -c 'import http.server; http.server.HTTPServer((\"127.0.0.1\", {port}), http.server.SimpleHTTPRequestHandler).serve_forever()'"
    );
    let exec_id = session.start(json!({"command": server}));
    let waited = wait(&mut session, &exec_id, json!({"until": {"port": {"port": port}}}));
    assert_eq!(waited["matched"]["port"]["port"], port, "{waited}");
    assert_eq!(waited["state"], "running");
    let http = json!({"until": {"port": {"port": port, "host": "127.0.0.1", "http_path": "/"}}});
    assert_eq!(wait(&mut session, &exec_id, http)["matched"]["port"]["http_status"], 200);
    let missing = json!({"timeout_s": 0.2, "until": {"port": {"port": port, "http_path": "/no-such-file"}}});
    fails(&mut session, &exec_id, missing, "WAIT_TIMEOUT");
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
    wait(&mut session, &exec_id, json!({}));
    // One that never opens, and one whose command dies first.
    let port = own_port();
    let exec_id = session.start(json!({"command": "read x; exit 9", "stdin": ""}));
    let until = json!({"timeout_s": 0.1, "until": {"port": {"port": port}}});
    fails(&mut session, &exec_id, until, "WAIT_TIMEOUT");
    let request = session
        .connection
        .begin(m::ExecWait::NAME, json!({"exec_id": exec_id, "until": {"port": {"port": port}}}));
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "eof": true}));
    let fault = session.connection.finish(request).failed("COMMAND_FAILED");
    assert_eq!(fault["details"]["exit_code"], 9, "{fault}");
}

fn a_wait_ends_with_its_session_and_what_makes_no_sense_is_refused(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = session.start(json!({"command": "sleep 1000"}));
    for until in [
        json!({"log": {"pattern": ""}}),
        json!({"log": {}}),
        json!({"log": {"patterns": []}}),
        json!({"log": {"patterns": ["a", ""]}}),
        json!({"log": {"pattern": "a", "patterns": ["b"]}}),
        json!({"log": {"pattern": "(", "regex": true}}),
        json!({"port": {"port": 0}}),
        json!({"port": {"port": 70000}}),
        json!({"port": {"port": 80, "http_path": "no slash"}}),
        json!({"exit": false}),
        json!({"exit": true, "port": {"port": 80}}),
        json!({"exti": true}),
        json!("exit"),
    ] {
        fails(&mut session, &exec_id, json!({"until": until}), "INVALID_PARAMS");
    }
    fails(&mut session, "e-00000000-1", json!({}), "EXEC_NOT_FOUND");
    let unknown = format!("{}9", exec_id);
    fails(&mut session, &unknown, json!({}), "EXEC_NOT_FOUND");
    let mut other = daemon.connect();
    let request = other.begin(m::ExecWait::NAME, json!({"exec_id": exec_id}));
    session.survives();
    session.destroy();
    other.finish(request).failed("SESSION_TERMINATED");
}

in_each_shell!(
    for_its_end,
    for_something_in_its_output,
    for_its_port,
    a_wait_ends_with_its_session_and_what_makes_no_sense_is_refused,
);
