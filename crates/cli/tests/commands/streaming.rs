//! Output as it comes, from any offset, for any number of watchers, living or finished.

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Shell, daemon, event_bytes, in_each_shell, numbers};

fn events_come_in_order_and_the_response_last(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let answer = session.stream(json!({"command": "i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done; (exit 3)"}));
    assert_eq!(answer.events[0].name, "started");
    assert_eq!(answer.events.iter().filter(|event| event.name == "started").count(), 1);
    let expected = |letter: char| (0..300).map(|number| format!("{letter}{number}\n")).collect::<String>();
    assert_eq!(answer.output("stdout"), expected('o').as_bytes());
    assert_eq!(answer.output("stderr"), expected('e').as_bytes());
    let data = answer.data();
    assert_eq!(
        (&data["exit_code"], &data["timed_out"], &data["cancelled"]),
        (&json!(3), &json!(false), &json!(false)),
        "{data}"
    );
    assert_eq!(data["exec_id"], answer.events[0].data["exec_id"]);
    assert_eq!(answer.events[0].data["pid"], session.created["pid"], "the shell runs it");
    assert_eq!(data["stdout_bytes"], expected('o').len());
    assert!(data.get("stdout").is_none() && data.get("stderr").is_none(), "no texts in the response: {data}");
}

fn output_is_sent_while_the_command_runs(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let command = "echo one; read a; printf two; read b; echo three >&2; read c";
    let (request, exec_id) = session.stream_until(json!({"command": command, "stdin_open": true}), "one\n");
    // The command waits for each answer, so each part must have been sent before its end.
    for (stream, text) in [("stdout", "two"), ("stderr", "three\n")] {
        session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "go\n"}));
        session.connection.events_until(request, stream, text);
    }
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "go\n"}));
    assert_eq!(session.connection.finish(request).data()["exit_code"], 0);
}

fn a_streamed_command_changes_the_shell(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.stream(json!({"command": "mkdir -p kept; cd kept; plain='a  b'; EXPORTED=out; export EXPORTED; umask 027"})).data();
    session.stream(json!({"command": "greet() { echo \"hello $1\"; }"})).data();
    session.keeps_state();
    let answer = session.stream(json!({"command": "greet you; pwd"}));
    let expected = format!("hello you\n{}\n", daemon.work().join("kept").display());
    assert_eq!(String::from_utf8_lossy(&answer.output("stdout")), expected);
}

fn silence_and_failure_stream_too(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for (command, code) in [("", 0), (":", 0), ("false", 1), ("echo 'x", shell.syntax_error())] {
        let answer = session.stream(json!({"command": command}));
        assert_eq!(answer.events[0].name, "started");
        assert!(answer.output("stdout").is_empty());
        assert_eq!(answer.data()["exit_code"], code, "{command:?}");
    }
    let answer = session.stream(json!({"command": "echo part; sleep 30", "timeout_s": 0.3}));
    assert_eq!(answer.output("stdout"), b"part\n");
    assert_eq!(answer.data()["timed_out"], true);
    let params = session.params(json!({"command": "true", "working_dir": "/no/such"}));
    let answer = session.connection.stream(m::ExecStream::NAME, params);
    answer.failed("INVALID_PARAMS");
    assert!(answer.events.is_empty());
}

fn a_character_is_never_torn(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let command = "printf 'a\\303'; sleep 0.1; printf '\\251b\\360\\237'; sleep 0.1; printf '\\230'; sleep 0.1; printf '\\200'; printf '\\303' >&2; sleep 0.1; printf '\\251' >&2";
    let answer = session.stream(json!({"command": command}));
    let text = |stream: &str| -> String {
        let events = answer.events.iter().filter(|event| event.name == stream);
        events.filter_map(|event| event.data["text"].as_str()).collect()
    };
    assert_eq!((text("stdout").as_str(), text("stderr").as_str()), ("aéb😀", "é"));
    assert_eq!(answer.output("stdout"), "aéb😀".as_bytes(), "offsets count bytes");
    let answer = session.stream(json!({"command": "printf 'x\\303'; sleep 0.1; printf 'y\\360\\237'"}));
    let text: String = answer.events.iter().filter_map(|event| event.data["text"].as_str()).collect();
    assert_eq!(text, "x\u{fffd}y\u{fffd}", "what never becomes a character is told as none");
    assert_eq!(answer.data()["stdout_bytes"], 5);
}

fn bytes_can_be_streamed(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("head -c 300000 /dev/urandom >noise");
    let noise = std::fs::read(daemon.work().join("noise")).unwrap_or_default();
    let answer = session.stream(json!({"command": "cat noise; cat noise >&2", "encoding": "base64"}));
    assert!(answer.output("stdout") == noise && answer.output("stderr") == noise);
}

fn a_finished_command_can_be_replayed_from_anywhere(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let ran = session.run("printf 0123456789; printf abcde >&2; (exit 9)").exits(9);
    for (out, err) in [(0, 0), (3, 0), (10, 5), (0, 2), (9, 4)] {
        let params = json!({"exec_id": ran.exec_id, "stdout_offset": out, "stderr_offset": err});
        let answer = session.connection.stream(m::ExecAttach::NAME, params);
        assert_eq!(answer.output_from("stdout", out), &b"0123456789"[out as usize..]);
        assert_eq!(answer.output_from("stderr", err), &b"abcde"[err as usize..]);
        assert_eq!(answer.data()["exit_code"], 9);
    }
    let params = json!({"exec_id": ran.exec_id, "stdout_offset": 1_000_000, "stderr_offset": 1_000_000});
    let answer = session.connection.stream(m::ExecAttach::NAME, params);
    assert!(
        answer.output_from("stdout", 1_000_000).is_empty()
            && answer.output_from("stderr", 1_000_000).is_empty()
    );
    assert_eq!(answer.data()["exit_code"], 9);
}

fn a_living_command_can_be_joined_at_an_offset(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let (request, exec_id) = session.stream_until(
        json!({"command": "printf before; echo; cat; echo after", "stdin_open": true}),
        "before\n",
    );
    let mut others: Vec<_> = [0_u64, 3, 7]
        .into_iter()
        .map(|offset| {
            let mut connection = daemon.connect();
            let params = json!({"exec_id": exec_id, "stdout_offset": offset});
            let request = connection.begin(m::ExecAttach::NAME, params);
            (connection, request, offset)
        })
        .collect();
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "middle\n", "eof": true}));
    assert_eq!(session.connection.finish(request).data()["exit_code"], 0);
    let whole = b"before\nmiddle\nafter\n";
    for (connection, request, offset) in &mut others {
        let answer = connection.finish(*request);
        assert_eq!(answer.output_from("stdout", *offset), &whole[*offset as usize..]);
        assert_eq!(answer.data()["exit_code"], 0);
    }
}

fn a_client_that_leaves_does_not_end_its_command(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for method in [m::ExecRun::NAME, m::ExecStream::NAME] {
        let mut client = daemon.connect();
        let params = session.params(json!({"command": format!("echo {method}; sleep 0.5; echo over; x={method}; (exit 6)"), "wait_s": 20}));
        client.begin(method, params);
        let mut found = Value::Null;
        trl_testkit::wait_until("the command runs", trl_testkit::GUARD, || {
            let list = session.connection.ok(m::ExecList::NAME, json!({"session_id": session.id}));
            let rows = list["execs"].as_array().cloned().unwrap_or_default();
            found = rows
                .into_iter()
                .find(|row| row["state"] == "running" && row["stdout_bytes"] != 0)
                .unwrap_or_default();
            !found.is_null()
        });
        drop(client);
        let exec_id = found["exec_id"].as_str().unwrap_or_default().to_owned();
        let answer = session.attach(&exec_id);
        assert_eq!(answer.output("stdout"), format!("{method}\nover\n").as_bytes());
        assert_eq!(answer.data()["exit_code"], 6);
        assert_eq!(session.exec_info(&exec_id)["exit_code"], 6);
        session.run("echo $x").exits(0).prints(&format!("{method}\n"), "").quietly();
    }
}

in_each_shell!(
    events_come_in_order_and_the_response_last,
    output_is_sent_while_the_command_runs,
    a_streamed_command_changes_the_shell,
    silence_and_failure_stream_too,
    a_character_is_never_torn,
    bytes_can_be_streamed,
    a_finished_command_can_be_replayed_from_anywhere,
    a_living_command_can_be_joined_at_an_offset,
    a_client_that_leaves_does_not_end_its_command,
);

#[test]
fn unknown_commands_are_told_as_such() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let hex = session.id.trim_start_matches("s-").to_owned();
    for unknown in
        [format!("e-{hex}-999"), "e-00000000-1".into(), "nonsense".into(), String::new(), session.id.clone()]
    {
        let params = json!({"exec_id": unknown});
        session.connection.stream(m::ExecAttach::NAME, params.clone()).failed("EXEC_NOT_FOUND");
        session.connection.fails(m::ExecInfo::NAME, params, "EXEC_NOT_FOUND");
        session.connection.fails(
            m::ExecOutput::NAME,
            json!({"exec_id": unknown, "stream": "stdout"}),
            "EXEC_NOT_FOUND",
        );
    }
}

#[test]
fn commands_are_listed_oldest_first_with_what_became_of_them() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let first = session.run("echo one; (exit 2)");
    let second = session.run_with(json!({"command": "sleep 30", "timeout_s": 0.1}));
    let third = session.start(json!({"command": "cat"}));
    let list = session.connection.ok(m::ExecList::NAME, json!({"session_id": session.id}));
    let rows = list["execs"].as_array().cloned().unwrap_or_default();
    let ids: Vec<&str> = rows.iter().filter_map(|row| row["exec_id"].as_str()).collect();
    assert_eq!(ids, [first.exec_id.as_str(), &second.exec_id, &third]);
    let hex = session.id.trim_start_matches("s-");
    assert_eq!(first.exec_id, format!("e-{hex}-1"));
    assert_eq!(
        (&rows[0]["command"], &rows[0]["exit_code"], &rows[0]["stdout_bytes"]),
        (&json!("echo one; (exit 2)"), &json!(2), &json!(4))
    );
    assert_eq!(
        (&rows[1]["timed_out"], &rows[2]["state"], &rows[2]["background"]),
        (&json!(true), &json!("running"), &json!(true))
    );
    let everything = session.connection.ok(m::ExecList::NAME, json!({}));
    assert_eq!(everything["execs"].as_array().map(Vec::len), Some(3));
    session.connection.fails(m::ExecList::NAME, json!({"session_id": "s-00000000"}), "SESSION_NOT_FOUND");
}

#[test]
fn output_of_a_fast_command_is_never_lost() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    for number in 0..200 {
        let answer = session.stream(json!({"command": format!("echo {number}; echo {number} >&2")}));
        let expected = format!("{number}\n").into_bytes();
        assert_eq!((answer.output("stdout"), answer.output("stderr")), (expected.clone(), expected));
    }
}

#[test]
fn events_are_of_reasonable_size() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let answer = session.stream(json!({"command": numbers::command(10_000_000)}));
    let largest = answer
        .events
        .iter()
        .filter(|event| event.name == "stdout")
        .map(|event| event_bytes(&event.data).len())
        .max();
    assert!(largest.is_some_and(|bytes| bytes <= 2 * 1024 * 1024), "{largest:?}");
    assert!(answer.output("stdout") == numbers::text(0, 10_000_000));
}
