//! What a command may read: nothing, what it was given, or what is written to it while it runs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Session, Shell, daemon, in_each_shell, numbers};

fn without_stdin_there_is_end_of_file_at_once(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for (command, code) in [
        ("cat", 0),
        ("wc -c | grep -qx 0", 0),
        ("grep foo", 1),
        ("read x", 1),
        ("sh", 0),
        ("sh -", 0),
        ("head -c 5", 0),
        ("while read l; do echo $l; done", 0),
    ] {
        let ran = session.run(command);
        assert_eq!(ran.exit_code, Some(code), "{command}: {ran:?}");
        assert!(!ran.timed_out && ran.stdout.is_empty(), "{command}: {ran:?}");
    }
    let answer = session.stream(json!({"command": "cat; echo over"}));
    assert_eq!(answer.output("stdout"), b"over\n");
    session.survives();
}

fn given_stdin_comes_whole_and_then_ends(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for text in ["one line\n", "no newline", "a\0b", "\u{1f600}\r\n", "\n"] {
        session.run_with(json!({"command": "cat", "stdin": text})).exits(0).prints(text, "");
        let answer = session.stream(json!({"command": "cat", "stdin": text}));
        assert_eq!(answer.output("stdout"), text.as_bytes());
    }
    session
        .run_with(json!({"command": "read a; read b; echo \"$b $a\"", "stdin": "1\n2\n3\n"}))
        .exits(0)
        .prints("2 1\n", "");
    session.run("echo $a").prints("1\n", "");
    session.run_with(json!({"command": "cat", "stdin": ""})).exits(0).prints("", "");
}

fn a_lot_of_stdin_comes_whole(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let text = String::from_utf8(numbers::text(0, 2_000_000)).unwrap_or_default();
    let ran = session.run_with(json!({"command": "cat >copy; wc -c <copy", "stdin": text})).exits(0);
    assert_eq!(ran.stdout.trim(), "2000000");
    assert_eq!(std::fs::read(daemon.work().join("copy")).unwrap_or_default(), text.as_bytes());
}

fn stdin_that_nobody_reads_does_no_harm(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let text = "x\n".repeat(150_000);
    session.run_with(json!({"command": "true", "stdin": text})).exits(0).prints("", "").quietly();
    session.run_with(json!({"command": "head -n 1", "stdin": text})).exits(0).prints("x\n", "").quietly();
    session.run_with(json!({"command": "exec <&-; sleep 0.1", "stdin": text})).exits(0).prints("", "");
    session.run("cat").exits(0).prints("", "").quietly();
    let ran = session.run_with(json!({"command": "sleep 30", "stdin": text, "timeout_s": 0.3}));
    assert!(ran.timed_out);
    session.survives();
}

fn nothing_a_command_reads_is_the_next_command(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let params = session.params(json!({"command": "sleep 0.2; cat; cat <&0", "wait_s": 20}));
    let first = session.connection.begin(m::ExecRun::NAME, params);
    let params = session.params(json!({"command": "echo second", "wait_s": 20}));
    let second = session.connection.begin(m::ExecRun::NAME, params);
    session.connection.finish(first).ran().exits(0).prints("", "");
    session.connection.finish(second).ran().exits(0).prints("second\n", "");
}

#[track_caller]
fn write(session: &mut Session, params: Value) -> Value {
    session.connection.ok(m::ExecWrite::NAME, params)
}

fn a_running_command_can_be_written_to(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for open in [
        json!({"stdin": "", "stdin_open": true}),
        json!({"stdin_open": true}),
        json!({"stdin": "first\n", "stdin_open": true}),
    ] {
        let mut params = json!({"command": "echo up; cat; echo over"});
        let given = open["stdin"].as_str().unwrap_or_default().to_owned();
        for name in ["stdin", "stdin_open"] {
            if let Some(value) = open.get(name) {
                params[name] = value.clone();
            }
        }
        let params = session.params(params);
        let request = session.connection.begin(m::ExecStream::NAME, params);
        let exec_id = session.connection.event(request).data["exec_id"].clone();
        let mut out = text_of(&session.connection.events_until(request, "stdout", "up\n"));
        let written = write(&mut session, json!({"exec_id": exec_id, "data": "more\n"}));
        assert_eq!((&written["bytes"], &written["eof"]), (&json!(5), &json!(false)), "{written}");
        if !out.contains("more") {
            out += &text_of(&session.connection.events_until(request, "stdout", "more\n"));
        }
        let written = write(&mut session, json!({"exec_id": exec_id, "data": "last", "eof": true}));
        assert_eq!(written["eof"], true);
        let answer = session.connection.finish(request);
        assert_eq!(answer.data()["exit_code"], 0);
        out += &text_of(&answer.events);
        assert_eq!(out, format!("up\n{given}more\nlastover\n"));
    }
}

fn text_of(events: &[trl_testkit::Event]) -> String {
    events
        .iter()
        .filter(|event| event.name == "stdout")
        .filter_map(|event| event.data["text"].as_str())
        .collect()
}

fn a_started_command_has_stdin_open(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for background in [true, false] {
        let exec_id =
            session.start(json!({"command": "read a; echo \"got $a\"; cat", "background": background}));
        write(&mut session, json!({"exec_id": exec_id, "data": "it\nrest"}));
        write(&mut session, json!({"exec_id": exec_id, "eof": true}));
        assert_eq!(session.attach(&exec_id).output("stdout"), b"got it\nrest", "background: {background}");
    }
    let exec_id = session.start(json!({"command": "cat", "stdin": "whole"}));
    assert_eq!(session.attach(&exec_id).output("stdout"), b"whole", "given stdin ends");
}

fn a_repeated_write_counts_once(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = session.start(json!({"command": "cat"}));
    let first = write(&mut session, json!({"exec_id": exec_id, "data": "one\n", "write_id": "w1"}));
    assert!(first.get("duplicate").is_none(), "{first}");
    let again = write(&mut session, json!({"exec_id": exec_id, "data": "one\n", "write_id": "w1"}));
    assert_eq!(again["duplicate"], true, "{again}");
    write(&mut session, json!({"exec_id": exec_id, "data": "two\n", "write_id": "w2"}));
    write(&mut session, json!({"exec_id": exec_id, "data": "two\n"}));
    let last = json!({"exec_id": exec_id, "data": "end\n", "eof": true, "write_id": "w3"});
    write(&mut session, last.clone());
    let again = session.connection.call(m::ExecWrite::NAME, last);
    assert!(
        again.as_ref().is_ok_and(|reply| reply["duplicate"] == true),
        "a retry after the end is answered as one: {again:?}"
    );
    assert_eq!(session.attach(&exec_id).output("stdout"), b"one\ntwo\ntwo\nend\n");
}

fn bytes_can_be_written_too(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let bytes: Vec<u8> = (0..=255).collect();
    let exec_id = session.start(json!({"command": "cat"}));
    write(
        &mut session,
        json!({"exec_id": exec_id, "data": STANDARD.encode(&bytes), "encoding": "base64", "eof": true}),
    );
    assert_eq!(session.attach(&exec_id).output("stdout"), bytes);
    let exec_id = session.start(json!({"command": "cat"}));
    session.connection.fails(
        m::ExecWrite::NAME,
        json!({"exec_id": exec_id, "data": "no base64!", "encoding": "base64"}),
        "INVALID_PARAMS",
    );
    write(&mut session, json!({"exec_id": exec_id, "eof": true}));
    assert_eq!(session.attach(&exec_id).output("stdout"), b"");
}

fn writing_where_nobody_reads_is_an_error(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let over = session.run("true").exec_id;
    let error = session.connection.call(m::ExecWrite::NAME, json!({"exec_id": over, "data": "x"})).err();
    assert!(error.is_some_and(|error| error["code"] != "INTERNAL_ERROR"));
    let (request, exec_id) = session.stream_until(json!({"command": "echo up; sleep 0.5"}), "up\n");
    let error = session.connection.call(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "x"})).err();
    assert!(error.is_some_and(|error| error["code"] != "INTERNAL_ERROR"), "stdin was never open");
    session.connection.finish(request).data();
    let exec_id = session.start(json!({"command": "cat; sleep 0.5"}));
    write(&mut session, json!({"exec_id": exec_id, "eof": true}));
    let error = session.connection.call(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "x"})).err();
    assert!(error.is_some_and(|error| error["code"] != "INTERNAL_ERROR"), "stdin was closed");
    for unknown in ["e-00000000-1", "nonsense", ""] {
        let error =
            session.connection.call(m::ExecWrite::NAME, json!({"exec_id": unknown, "data": "x"})).err();
        assert_eq!(error.unwrap_or_default()["code"], "EXEC_NOT_FOUND", "{unknown:?}");
    }
    session.survives();
}

in_each_shell!(
    without_stdin_there_is_end_of_file_at_once,
    given_stdin_comes_whole_and_then_ends,
    a_lot_of_stdin_comes_whole,
    stdin_that_nobody_reads_does_no_harm,
    nothing_a_command_reads_is_the_next_command,
    a_running_command_can_be_written_to,
    a_started_command_has_stdin_open,
    a_repeated_write_counts_once,
    bytes_can_be_written_too,
    writing_where_nobody_reads_is_an_error,
);

#[test]
fn writes_larger_than_a_pipe_wait_for_their_reader() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let exec_id = session.start(json!({"command": "sleep 0.3; cat"}));
    let text = String::from_utf8(numbers::text(0, 5_000_000)).unwrap();
    for part in 0..5 {
        let data = &text[part * 1_000_000..(part + 1) * 1_000_000];
        write(&mut session, json!({"exec_id": exec_id, "data": data}));
    }
    write(&mut session, json!({"exec_id": exec_id, "eof": true}));
    assert!(session.attach(&exec_id).output("stdout") == text.as_bytes());
}

#[test]
fn input_that_waits_for_its_reader_is_counted() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let command = "until [ -e go ]; do sleep 0.01; done; wc -c";
    let exec_id = session.start(json!({"command": command, "working_dir": daemon.work()}));
    assert_eq!(session.exec_info(&exec_id).get("stdin_waiting_bytes"), None);
    write(&mut session, json!({"exec_id": exec_id, "data": "m".repeat(1_000_000), "eof": true}));
    let waiting = session.exec_info(&exec_id)["stdin_waiting_bytes"].as_u64();
    assert!((1..1_000_000).contains(&waiting.unwrap_or_default()), "{waiting:?}");
    std::fs::write(daemon.work().join("go"), "").unwrap();
    assert_eq!(session.attach(&exec_id).output("stdout"), b"1000000\n");
    assert_eq!(session.exec_info(&exec_id).get("stdin_waiting_bytes"), None);
}

#[test]
fn a_reader_that_never_reads_is_told_of_not_buffered_for_ever() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let exec_id = session.start(json!({"command": "sleep 1000"}));
    let part = "m".repeat(4_000_000);
    let mut write = || session.connection.call(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": part}));
    // 16 MiB may wait; a fifth part would be more.
    let refused = (0..10).find_map(|taken| write().err().map(|error| (taken, error["code"].clone())));
    assert_eq!(refused, Some((4, json!("RESOURCE_PRESSURE"))));
    session.survives();
}

#[test]
fn pagers_and_prompts_are_told_to_keep_quiet() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.run("echo $PAGER $GIT_TERMINAL_PROMPT").exits(0).prints("cat 0\n", "");
    let mut own =
        daemon.session_with(Shell::Bash, json!({"env": {"PAGER": "less -F", "GIT_TERMINAL_PROMPT": "1"}}));
    own.run("echo $PAGER $GIT_TERMINAL_PROMPT").exits(0).prints("less -F 1\n", "");
    session.ok("git init -q repo && cd repo && for i in $(seq 800); do echo \"line $i\"; done >message");
    session.ok("git -c user.name=a -c user.email=a@b commit -q --allow-empty -F message");
    let ran = session.run("git log").exits(0);
    assert!(!ran.timed_out && ran.stdout.contains("line 800"), "{ran:?}");
}

#[test]
fn a_prompt_on_the_terminal_is_told_and_can_be_answered() {
    for shell in [Shell::Bash, Shell::Sh] {
        let daemon = daemon!();
        let mut session = daemon.session(shell);
        let command = "sh -c 'printf \"Password: \" >/dev/tty; read x </dev/tty; echo got $x'";
        let params = session.params(json!({"command": command}));
        let request = session.connection.begin(m::ExecStream::NAME, params);
        let exec_id = session.connection.event(request).data["exec_id"].clone();
        let waiting = session.connection.event(request);
        assert_eq!(waiting.name, "waiting", "{waiting:?}");
        assert!(
            waiting.data["prompt"].as_str().is_some_and(|prompt| prompt.contains("Password:")),
            "{waiting:?}"
        );
        let info = session.connection.ok(m::ExecInfo::NAME, json!({"exec_id": exec_id}));
        assert!(
            info["waiting_for_input"].as_str().is_some_and(|prompt| prompt.contains("Password:")),
            "{info}"
        );
        write(&mut session, json!({"exec_id": exec_id, "data": "secret\n"}));
        let answer = session.connection.finish(request);
        assert_eq!(answer.output("stdout"), b"got secret\n");
        let ran = session.run_with(json!({"command": command, "timeout_s": 1}));
        assert!(ran.timed_out && ran.has_note("Password:"), "the deadline tells why: {ran:?}");
        session.survives();
    }
}
