//! Someone else may end a command; the shell and its state stay.

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{GUARD, Shell, daemon, in_each_shell, process, wait_until};

fn a_running_command_is_cancelled_by_session_or_by_id(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let pid = session.pid();
    for by_session in [true, false] {
        let (request, exec_id) =
            session.stream_until(json!({"command": "echo up; sleep 30; touch hit"}), "up\n");
        let params = if by_session { json!({"session_id": session.id}) } else { json!({"exec_id": exec_id}) };
        let cancelled = session.connection.ok(m::ExecCancel::NAME, params);
        assert_eq!(cancelled, json!({"exec_id": exec_id, "cancelled": true}));
        let data = session.connection.finish(request).data();
        assert_eq!(
            (&data["cancelled"], &data["timed_out"], &data["exit_code"]),
            (&json!(true), &json!(false), &json!(130)),
            "{data}"
        );
        session.keeps_state();
    }
    session.survives();
    assert_eq!(session.pid(), pid);
    assert!(!process::exists(daemon.work().join("kept/hit")));
}

/// A cancel that comes while the shell is just starting a program.
fn a_cancel_at_any_moment_leaves_no_stray(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let pid = session.pid();
    for _ in 0..60 {
        let (request, exec_id) =
            session.stream_until(json!({"command": "echo up; sleep 30; touch hit"}), "up\n");
        session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
        assert_eq!(session.connection.finish(request).data()["cancelled"], true);
        let data = session.run("echo $$");
        assert_eq!(data.stdout, format!("{pid}\n"), "another shell: {data:?}");
        assert_eq!(process::children(pid), [0; 0], "a program was left behind");
    }
    assert!(!process::exists(daemon.work().join("hit")));
}

fn every_kind_of_foreground_work_is_cancelled(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for command in [
        "while :; do :; done",
        "sleep 30 | cat",
        "sh -c 'trap \"\" INT; sleep 30; :'",
        "sh -c 'trap \"\" INT TERM; sleep 30; :'",
        "x=$(sleep 30)",
        "cat",
        "read x",
        "sleep 30 & wait",
    ] {
        let (request, exec_id) = session.stream_until(
            json!({"command": format!("echo up; {command}; touch hit"), "stdin_open": true, "timeout_s": 0}),
            "up\n",
        );
        session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
        let data = session.connection.finish(request).data();
        assert_eq!(data["cancelled"], true, "{command}: {data}");
        session.has_state_back();
        assert!(!process::exists(daemon.work().join("kept/hit")), "{command}: the rest ran");
    }
    session.survives();
}

fn a_named_signal_is_all_that_is_sent(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let script = "sh -c 'trap \"echo usr1\" USR1; trap \"echo term; exit 3\" TERM; echo up; while :; do sleep 0.05; done'";
    let (request, exec_id) = session.stream_until(json!({"command": script}), "up\n");
    for (signal, expected) in [(json!("USR1"), "usr1\n"), (json!("SIGUSR1"), "usr1\n"), (json!(10), "usr1\n")]
    {
        session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id, "signal": signal}));
        session.connection.events_until(request, "stdout", expected);
    }
    assert_eq!(session.exec_info(&exec_id)["state"], "running");
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id, "signal": "TERM"}));
    let answer = session.connection.finish(request);
    assert_eq!(
        // `sh` tells on stderr that its `sleep` was hit too.
        (answer.output_from("stdout", "up\nusr1\nusr1\nusr1\n".len() as u64), &answer.data()["exit_code"]),
        (b"term\n".to_vec(), &json!(3))
    );
    session.survives();
}

fn a_command_that_dies_of_the_signal_named_was_cancelled(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let pid = session.pid();
    for (signal, code) in [("KILL", 137), ("TERM", 143), ("INT", 130)] {
        let (request, exec_id) =
            session.stream_until(json!({"command": "echo up; sh -c 'sleep 30; :'"}), "up\n");
        // Before it is `sleep`, it is a copy of the shell that lets INT pass, as it does when Ctrl-C is pressed.
        let sleeps = |pid: i32| process::read(pid).is_some_and(|process| process.name == "sleep");
        wait_until("sleep runs", GUARD, || process::descendants(pid).into_iter().any(sleeps));
        session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id, "signal": signal}));
        let data = session.connection.finish(request).data();
        let told = (&data["exit_code"], &data["signal"], &data["cancelled"]);
        assert_eq!(told, (&json!(code), &json!(format!("SIG{signal}")), &json!(true)), "{data}");
    }
    session.survives();
}

fn nothing_to_cancel_is_no_error(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let nothing = session.connection.ok(m::ExecCancel::NAME, json!({"session_id": session.id}));
    assert_eq!(nothing, json!({"exec_id": null, "cancelled": false}));
    let over = session.run("true").exec_id;
    assert_eq!(session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": over}))["cancelled"], false);
    let info = session.exec_info(&over);
    assert_eq!((&info["cancelled"], &info["exit_code"]), (&json!(false), &json!(0)), "{info}");
    session.survives();
}

/// The shell is printing a large state: nothing runs, and one command waits.
fn a_command_that_waits_for_the_shell_alone_is_cancelled(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("x=$(head -c 3000000 /dev/zero | tr '\\0' a)");
    for _ in 0..5 {
        session.ok("y=$x");
        let exec_id = session.start(json!({"command": "touch ran", "background": false, "wait_s": 60}));
        let cancelled = session.connection.ok(m::ExecCancel::NAME, json!({"session_id": session.id}));
        // It may have been too late; then both say so. A program may end by itself before the signal reaches it.
        let result = session.attach(&exec_id).data();
        let exit_code = result["exit_code"].clone();
        let finished = exit_code == json!(0);
        assert_eq!(cancelled["cancelled"], result["cancelled"], "{cancelled} {result}");
        assert!(finished || cancelled["cancelled"] == true, "{cancelled} {result}");
        // A status other than 0 is that of a command that was interrupted while it ran.
        if finished || exit_code.is_null() {
            assert_eq!(process::exists(daemon.work().join("ran")), finished);
        }
        session.ok("rm -f ran");
    }
}

fn cancels_that_make_no_sense_are_refused(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let mut fails = |params: Value, code: &str| session.connection.fails(m::ExecCancel::NAME, params, code);
    fails(json!({}), "INVALID_PARAMS");
    fails(json!({"exec_id": "e-00000000-1"}), "EXEC_NOT_FOUND");
    fails(json!({"exec_id": "nonsense"}), "EXEC_NOT_FOUND");
    fails(json!({"session_id": "s-00000000"}), "SESSION_NOT_FOUND");
    let id = session.id.clone();
    for signal in [json!("NOPE"), json!(0), json!(-9), json!(1000), json!(""), json!(1.5)] {
        session.connection.fails(
            m::ExecCancel::NAME,
            json!({"session_id": id, "signal": signal}),
            "INVALID_PARAMS",
        );
    }
}

fn a_background_command_is_cancelled_with_its_children(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = session.start(json!({"command": "echo $$; sh -c 'echo $$; exec sleep 1000' & sleep 1000"}));
    let watch = session.connection.begin(m::ExecAttach::NAME, json!({"exec_id": exec_id}));
    session.connection.event(watch);
    let mut text = String::new();
    while text.lines().count() < 2 || !text.ends_with('\n') {
        text += session.connection.event(watch).data["text"].as_str().unwrap_or_default();
    }
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
    let data = session.connection.finish(watch).data();
    assert_eq!(data["cancelled"], true, "{data}");
    for pid in text.lines().filter_map(|line| line.parse().ok()) {
        process::assert_ends("a child of a cancelled command", pid);
    }
    session.survives();
}

fn cancelling_twice_is_cancelling_once(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let (request, exec_id) =
        session.stream_until(json!({"command": "echo up; sh -c 'trap \"\" INT; sleep 30; :'"}), "up\n");
    let cancels: Vec<u64> =
        (0..5).map(|_| session.connection.begin(m::ExecCancel::NAME, json!({"exec_id": exec_id}))).collect();
    for cancel in cancels {
        session.connection.finish(cancel).data();
    }
    assert_eq!(session.connection.finish(request).data()["cancelled"], true);
    session.keeps_state();
    session.survives();
}

fn signals_without_a_name_are_sent_too(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for number in [34, 40, 64] {
        let command = format!(
            "python3 -c 'import signal, sys, time\nsignal.signal({number}, lambda *_: sys.exit(7))\nprint(\"up\", flush=True)\nwhile True: time.sleep(0.05)'"
        );
        let (held, exec_id) = session.stream_until(json!({"command": command}), "up\n");
        session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id, "signal": number}));
        assert_eq!(session.connection.finish(held).data()["exit_code"], 7, "{number}");
    }
    let (held, exec_id) = session.stream_until(json!({"command": "echo up; sleep 1000"}), "up\n");
    session.connection.fails(
        m::ExecCancel::NAME,
        json!({"exec_id": exec_id, "signal": 33}),
        "INVALID_PARAMS",
    );
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
    session.connection.finish(held).data();
    session.survives();
}

/// Many programs take a second INT for an order to leave everything as it is.
fn a_program_that_catches_an_interrupt_gets_one(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let program = "perl -e '$| = 1; $SIG{INT} = sub { $n++ }; $SIG{TERM} = sub { print \"$n\\n\"; exit 3 }; print \"up\\n\"; sleep 1 while 1'";
    for background in [false, true] {
        let params = json!({"command": program, "background": background});
        let (request, exec_id) = session.stream_until(params, "up\n");
        session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
        let answer = session.connection.finish(request);
        assert_eq!(answer.output_from("stdout", "up\n".len() as u64), b"1\n", "{background}: {answer:?}");
    }
    session.survives();
}

in_each_shell!(
    a_program_that_catches_an_interrupt_gets_one,
    signals_without_a_name_are_sent_too,
    a_running_command_is_cancelled_by_session_or_by_id,
    a_cancel_at_any_moment_leaves_no_stray,
    every_kind_of_foreground_work_is_cancelled,
    a_named_signal_is_all_that_is_sent,
    nothing_to_cancel_is_no_error,
    a_command_that_dies_of_the_signal_named_was_cancelled,
    a_command_that_waits_for_the_shell_alone_is_cancelled,
    cancels_that_make_no_sense_are_refused,
    a_background_command_is_cancelled_with_its_children,
    cancelling_twice_is_cancelling_once,
);
