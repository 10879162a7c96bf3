//! Ways to ask for a command: words instead of shell text, bytes for stdin, an answer before its
//! end, no session.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, Shell, daemon, in_each_shell};

fn words_are_not_shell_text(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let odd = "a  b$HOME`x`'q'\"*;\n|&";
    session.run_with(json!({"argv": ["printf", "%s|", odd, ""]})).exits(0).prints(&format!("{odd}||"), "");
    // It runs in the living shell all the same.
    session.run_with(json!({"argv": ["cd", "/usr"]})).exits(0);
    assert_eq!(session.ok("pwd"), "/usr\n");
    session.refused(json!({"argv": []}), "INVALID_PARAMS");
    session.refused(json!({"argv": ["true"], "command": "true"}), "INVALID_PARAMS");
    let problem = session.refused(json!({}), "INVALID_PARAMS");
    assert!(problem.contains("needs the param `command`"), "{problem}");
    let nul = session.refused(json!({"argv": ["echo", "a\u{0}b"]}), "INVALID_PARAMS");
    assert!(nul.contains("NUL") && nul.contains("`argv`"), "{nul}");
}

fn stdin_can_be_bytes_and_can_be_empty(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let bytes = json!({"command": "od -An -tx1", "stdin": "AP8K", "stdin_encoding": "base64"});
    let ran = session.run_with(bytes);
    assert_eq!(ran.stdout.split_whitespace().collect::<Vec<_>>(), ["00", "ff", "0a"]);
    session.refused(json!({"command": "cat", "stdin": "?", "stdin_encoding": "base64"}), "INVALID_PARAMS");
    let answer = session.stream(json!({"command": "cat; echo over", "stdin": ""}));
    assert_eq!(answer.output("stdout"), b"over\n");
    let exec_id = session.start(json!({"command": "od -An -tx1", "stdin_open": true}));
    let write = json!({"exec_id": exec_id, "data": "/wA=", "stdin_encoding": "base64", "eof": true});
    assert_eq!(session.connection.ok(m::ExecWrite::NAME, write)["bytes"], 2);
    session.connection.ok(m::ExecWait::NAME, json!({"exec_id": exec_id}));
    let out = session.connection.ok(m::ExecOutput::NAME, json!({"exec_id": exec_id, "stream": "stdout"}));
    assert_eq!(out["text"].as_str().unwrap().split_whitespace().collect::<Vec<_>>(), ["ff", "00"]);
}

fn an_answer_can_come_before_the_end(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let command = "echo begun; echo oops >&2; read line; echo got $line; x=kept";
    let params =
        json!({"command": command, "stdin_open": true, "soft_timeout_s": 0.4, "timeout_s": 0, "check": true});
    let params = session.params(params);
    let so_far = session.connection.ok(m::ExecRun::NAME, params);
    assert_eq!(
        (
            &so_far["still_running"],
            &so_far["stdout"],
            &so_far["stderr"],
            &so_far["exit_code"],
            &so_far["timed_out"]
        ),
        (&json!(true), &json!("begun\n"), &json!("oops\n"), &Value::Null, &json!(false)),
        "{so_far}"
    );
    let exec_id = so_far["exec_id"].clone();
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "it\n"}));
    assert_eq!(session.connection.ok(m::ExecWait::NAME, json!({"exec_id": exec_id}))["exit_code"], 0);
    let at_once = json!({"command": "sleep 60", "soft_timeout_s": 0, "timeout_s": 0});
    let ran = session.run_with(at_once);
    assert_eq!((ran.exit_code, &ran.raw["still_running"]), (None, &json!(true)), "{ran:?}");
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": ran.exec_id}));
    session.connection.ok(m::ExecWait::NAME, json!({"exec_id": ran.exec_id}));
    let never = session.refused(json!({"command": "true", "soft_timeout_s": -1}), "INVALID_PARAMS");
    assert!(never.contains("0 (at once)"), "{never}");
    // One that is in time is answered as ever.
    let params = json!({"command": "echo $x; false", "soft_timeout_s": 30});
    let ran = session.run_with(params);
    assert_eq!((ran.stdout.as_str(), ran.exit_code), ("kept\n", Some(1)));
    assert_eq!(ran.raw.get("still_running"), None, "{:?}", ran.raw);
    let streamed =
        session.stream(json!({"command": "echo up; sleep 60", "soft_timeout_s": 0.4, "timeout_s": 0}));
    assert_eq!(
        (streamed.data()["still_running"].clone(), streamed.output("stdout")),
        (json!(true), b"up\n".to_vec())
    );
    let exec_id = streamed.data()["exec_id"].clone();
    assert_eq!(session.connection.ok(m::ExecInfo::NAME, json!({"exec_id": exec_id}))["state"], "running");
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
    session.connection.ok(m::ExecWait::NAME, json!({"exec_id": exec_id}));
    session.survives();
}

in_each_shell!(
    words_are_not_shell_text,
    stdin_can_be_bytes_and_can_be_empty,
    an_answer_can_come_before_the_end,
);

#[test]
fn a_command_needs_no_session() {
    let daemon = Daemon::builder(trl_testkit::trl!()).env("TRL_MAX_SESSIONS", "1").start();
    let mut connection = daemon.connect();
    connection.ok(m::SessionCreate::NAME, json!({"name": "only"}));
    connection.fails(m::SessionCreate::NAME, json!({}), "MAX_SESSIONS_REACHED");
    let ran = connection.ok(m::ExecRun::NAME, json!({"command": "echo $((6 * 7)); sleep 100 & x=1"}));
    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!("42\n"), &json!(0)), "{ran}");
    let names = |list: &Value| -> Vec<String> {
        let rows = list["sessions"].as_array().unwrap();
        rows.iter().map(|row| row["name"].as_str().unwrap_or("-").to_owned()).collect()
    };
    assert_eq!(names(&connection.ok(m::SessionList::NAME, json!({}))), ["only"]);
    let streamed = connection.stream(m::ExecStream::NAME, json!({"command": "echo ${x-unset}"}));
    assert_eq!(streamed.output("stdout"), b"unset\n");
    connection.fails(
        m::ExecRun::NAME,
        json!({"command": "true", "working_dir": "/nowhere"}),
        "INVALID_PARAMS",
    );
    assert_eq!(names(&connection.ok(m::SessionList::NAME, json!({}))), ["only"]);
    // What a reply leaves out can be read, also of one that fails.
    for (check, tail) in [(false, "true"), (true, "false")] {
        let params = json!({"command": format!("seq 100; {tail}"), "max_output_bytes": 10, "check": check});
        let request = connection.begin(m::ExecRun::NAME, params);
        let answer = connection.finish(request);
        let ran = if check { answer.failed("COMMAND_FAILED")["details"].clone() } else { answer.data() };
        assert_eq!(ran["stdout_truncated"], true, "{ran}");
        let params = json!({"exec_id": ran["exec_id"], "stream": "stdout", "offset": 282});
        assert_eq!(connection.ok(m::ExecOutput::NAME, params)["text"], "98\n99\n100\n");
    }
    // One that outlives its answer keeps its session.
    let started = connection.ok(m::ExecStart::NAME, json!({"command": "read line; echo $line"}));
    let exec_id = started["exec_id"].clone();
    connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "later\n"}));
    connection.ok(m::ExecWait::NAME, json!({"exec_id": exec_id}));
    let out = connection.ok(m::ExecOutput::NAME, json!({"exec_id": exec_id, "stream": "stdout"}));
    assert_eq!(out["text"], "later\n");
    connection.ok(m::SessionDestroy::NAME, json!({"session_id": started["session_id"], "force": true}));
}
