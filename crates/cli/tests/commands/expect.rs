//! Waiting for the next prompt of a program, and for whichever of several texts comes first.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Session, Shell, daemon, in_each_shell};

#[track_caller]
fn log(session: &mut Session, exec_id: &str, log: Value) -> Value {
    let params = json!({"exec_id": exec_id, "timeout_s": 20, "until": {"log": log}});
    session.connection.ok(m::ExecWait::NAME, params)["matched"]["log"].clone()
}

/// Prompts with `>>> `, answers each line, and ends with its input.
const PROMPTS: &str = "printf '>>> '; while read -r line; do printf 'got <%s>\\n>>> ' \"$line\"; done";

fn a_prompt_is_awaited_again_and_again(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = session.start(json!({"command": PROMPTS, "stdin_open": true, "timeout_s": 0}));
    let mut from = 0;
    for (index, word) in ["one", "two", "three"].iter().enumerate() {
        let prompt = log(&mut session, &exec_id, json!({"pattern": ">>> ", "from_offset": from}));
        assert_eq!((&prompt["index"], &prompt["text"]), (&json!(0), &json!(">>> ")), "{prompt}");
        let begin = prompt["offset"].as_u64().unwrap();
        assert_eq!(prompt["end_offset"], begin + 4, "{prompt}");
        assert!(index == 0 || begin >= from, "{prompt}");
        from = prompt["end_offset"].as_u64().unwrap();
        session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": format!("{word}\n")}));
        let patterns = json!(["<nothing>", format!("<{word}>"), ">>> "]);
        let answer = log(&mut session, &exec_id, json!({"patterns": patterns, "from_offset": from}));
        assert_eq!(
            (&answer["index"], &answer["stream"], &answer["text"], &answer["offset"]),
            (&json!(1), &json!("stdout"), &json!(format!("<{word}>")), &json!(from + 4)),
            "{answer}"
        );
    }
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "eof": true}));
    session.survives();
}

fn patterns_that_cannot_be_are_refused(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = session.start(json!({"command": "echo x"}));
    for log in [
        json!({}),
        json!({"patterns": []}),
        json!({"pattern": "a", "patterns": ["b"]}),
        json!({"patterns": ["a", ""]}),
    ] {
        let params = json!({"exec_id": exec_id, "until": {"log": log}});
        session.connection.fails(m::ExecWait::NAME, params, "INVALID_PARAMS");
    }
}

fn ends_of_lines_are_found_on_a_terminal_and_so_is_a_prompt_that_waits(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let command = "echo ready; printf a; sleep .01; printf 'b\\n>>> '; read x; echo \"got $x\"; cat";
    for (tty, end) in [(true, "\r\n"), (false, "\n")] {
        let params =
            json!({"command": command, "tty": tty, "background": false, "stdin_open": true, "timeout_s": 0});
        let exec_id = session.start(params);
        let mut find = |pattern: &str, from: u64| {
            let found =
                log(&mut session, &exec_id, json!({"pattern": pattern, "regex": true, "from_offset": from}));
            let (begin, end) = (found["offset"].as_u64().unwrap(), found["end_offset"].as_u64().unwrap());
            (found["text"].as_str().unwrap().to_owned(), begin, end)
        };
        let line = end.len() as u64;
        assert_eq!(find("^ready$", 0), ("ready".to_owned(), 0, 5));
        let begin = 5 + line + 2 + line;
        assert_eq!(find("^>>> $", 0), (">>> ".to_owned(), begin, begin + 4));
        assert_eq!(find("[>#] $", 5), ("> ".to_owned(), begin + 2, begin + 4));
        assert_eq!(find("^a.*$", 0), ("ab".to_owned(), 5 + line, 7 + line));
        let torn = json!({"exec_id": exec_id, "timeout_s": 0.5, "until": {"log": {"pattern": "^(a|>>|\\s*)$", "regex": true}}});
        session.connection.fails(m::ExecWait::NAME, torn, "WAIT_TIMEOUT");
        session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "it\n"}));
        let answer = json!({"pattern": "got it$", "regex": true, "from_offset": begin + 4});
        assert_eq!(log(&mut session, &exec_id, answer)["text"], "got it");
        session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "eof": true}));
        let params = json!({"exec_id": exec_id, "timeout_s": 20});
        assert_eq!(session.connection.ok(m::ExecWait::NAME, params)["exit_code"], 0);
    }
}

/// As python without a terminal: its prompt is in the other stream than its answers.
fn a_dialogue_over_both_streams_loses_nothing(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let prompts = "printf '>>> ' >&2; while read -r line; do echo \"<$line>\"; printf '>>> ' >&2; done";
    let exec_id = session.start(json!({"command": prompts, "stdin_open": true, "timeout_s": 0}));
    let mut next = json!({});
    for word in ["one", "two", "three"] {
        let prompt = log(&mut session, &exec_id, json!({"pattern": ">>> ", "from_offsets": next}));
        assert_eq!(prompt["stream"], "stderr", "{prompt}");
        session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": format!("{word}\n")}));
        let any = json!({"pattern": "<[a-z]+>", "regex": true, "from_offsets": prompt["next_offsets"]});
        let answer = log(&mut session, &exec_id, any);
        assert_eq!(
            (&answer["stream"], &answer["text"], &answer["next_offsets"]["stderr"]),
            (&json!("stdout"), &json!(format!("<{word}>")), &prompt["end_offset"]),
            "{answer}"
        );
        next = answer["next_offsets"].clone();
    }
    let both = json!({"pattern": ">>> ", "from_offset": 1, "from_offsets": next});
    let params = json!({"exec_id": exec_id, "until": {"log": both}});
    session.connection.fails(m::ExecWait::NAME, params, "INVALID_PARAMS");
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "eof": true}));
    session.survives();
}

in_each_shell!(
    a_dialogue_over_both_streams_loses_nothing,
    a_prompt_is_awaited_again_and_again,
    patterns_that_cannot_be_are_refused,
    ends_of_lines_are_found_on_a_terminal_and_so_is_a_prompt_that_waits,
);
