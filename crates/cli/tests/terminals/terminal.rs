//! Commands on a terminal: what programs find there, what is typed to them, what is seen.

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{GUARD, Session, Shell, daemon, in_each_shell, wait_until};

/// The screen of a command, one string.
fn look(session: &mut Session, exec_id: &str) -> String {
    lines(&session.connection.ok(m::ExecScreen::NAME, json!({"exec_id": exec_id})))
}

fn lines(screen: &Value) -> String {
    let lines = screen["lines"].as_array().into_iter().flatten();
    lines.map(|line| line.as_str().unwrap_or_default().to_owned() + "\n").collect()
}

#[track_caller]
fn until_seen(session: &mut Session, exec_id: &str, text: &str) {
    let mut last = String::new();
    wait_until(&format!("{text:?} on the screen"), GUARD, || {
        last = look(session, exec_id);
        last.contains(text)
    });
}

#[track_caller]
fn until_waiting(session: &mut Session, exec_id: &str) -> String {
    let mut prompt = None;
    wait_until("the command waits for input", GUARD, || {
        prompt = session.exec_info(exec_id)["waiting_for_input"].as_str().map(str::to_owned);
        prompt.is_some()
    });
    prompt.unwrap_or_default()
}

#[track_caller]
fn type_in(session: &mut Session, exec_id: &str, keys: &str) {
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": keys}));
}

/// Starts a command in the living shell, on a terminal.
#[track_caller]
fn start(session: &mut Session, command: &str) -> String {
    session.start(json!({"command": command, "tty": true, "background": false, "timeout_s": 0}))
}

#[track_caller]
fn exit_code(session: &mut Session, exec_id: &str) -> Value {
    session.attach(exec_id).data()["exit_code"].clone()
}

in_each_shell!(
    stdin_and_stdout_are_a_terminal_and_stderr_is_apart,
    the_state_is_the_living_shells,
    a_prompt_is_seen_and_answered,
    a_password_is_asked_for_without_echo,
    python_is_driven,
    the_size_follows,
    keys_are_signals,
    a_stopped_command_leaves_the_terminal_sound,
    nothing_typed_is_left_for_the_next,
    given_input_is_typed_whole_and_then_ends,
);

fn stdin_and_stdout_are_a_terminal_and_stderr_is_apart(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let command = "test -t 0 && test -t 1 && ! test -t 2 && echo yes $TERM; echo no >&2; (exit 3)";
    let ran = session.run_with(json!({"command": command, "tty": true}));
    ran.exits(3).prints("yes xterm-256color\r\n", "no\n");
    let merged =
        json!({"command": "test -t 2 && echo a; echo b >&2; echo c", "tty": true, "merge_stderr": true});
    session.run_with(merged).exits(0).prints("a\r\nb\r\nc\r\n", "");
    session.run("test -t 1 || echo $TERM").exits(0).prints("dumb\n", "");
    let mut on_terminal = daemon.session_with(shell, json!({"tty": true}));
    on_terminal.run("test -t 1 && echo $TERM").exits(0).prints("xterm-256color\r\n", "");
    on_terminal
        .run_with(json!({"command": "test -t 1 || echo no", "tty": false}))
        .exits(0)
        .prints("no\n", "");
}

fn the_state_is_the_living_shells(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run_with(json!({"command": "here=1; mkdir -p d; cd d", "tty": true})).exits(0);
    session.run_with(json!({"command": "echo $here; pwd", "tty": true, "env": {"A": "b"}})).exits(0);
    let dir = daemon.work().join("d");
    session.run("echo $here$A; pwd").exits(0).prints(&format!("1\n{}\n", dir.display()), "");
}

fn a_prompt_is_seen_and_answered(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let (ask, name) = match shell {
        Shell::Bash => ("read -p 'Enter name: ' n", "read -p"),
        Shell::Zsh => ("read 'n?Enter name: '", "read ?"),
        Shell::Sh => ("printf 'Enter name: '; read n", "printf, read"),
    };
    let params = session.params(json!({"command": format!("{ask} && echo \"Hello $n\""), "tty": true}));
    let request = session.connection.begin(m::ExecStream::NAME, params);
    let exec_id = session.connection.event(request).data["exec_id"].as_str().unwrap_or_default().to_owned();
    let waiting = loop {
        let event = session.connection.event(request);
        if event.name == "waiting" {
            break event;
        }
    };
    assert_eq!(waiting.data["prompt"], "Enter name:", "{name}");
    assert_eq!(until_waiting(&mut session, &exec_id), "Enter name:");
    type_in(&mut session, &exec_id, "Ada\n");
    let answer = session.connection.finish(request);
    assert_eq!(answer.data()["exit_code"], 0);
    let printed = session.output_of(&exec_id, "stdout");
    assert!(String::from_utf8_lossy(&printed).ends_with("Hello Ada\r\n"), "{answer:?}");
    session.run("echo $n").exits(0).prints("Ada\n", "");
}

fn a_password_is_asked_for_without_echo(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let script = "import getpass; print('got', len(getpass.getpass('Password: ')))";
    let exec_id = start(&mut session, &format!("python3 -c \"{script}\""));
    assert_eq!(until_waiting(&mut session, &exec_id), "Password:");
    type_in(&mut session, &exec_id, "hunter2\n");
    assert_eq!(exit_code(&mut session, &exec_id), 0);
    let seen = look(&mut session, &exec_id);
    assert!(seen.contains("got 7") && !seen.contains("hunter2"), "{seen}");
}

fn python_is_driven(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for background in [false, true] {
        let params =
            json!({"command": "python3 -q", "tty": true, "background": background, "merge_stderr": true});
        let exec_id = session.start(params);
        until_seen(&mut session, &exec_id, ">>>");
        assert!(until_waiting(&mut session, &exec_id).ends_with(">>>"));
        type_in(&mut session, &exec_id, "print(6 * 7, 'x')\n");
        until_seen(&mut session, &exec_id, "42 x");
        type_in(&mut session, &exec_id, "import sys; sys.exit(5)\n");
        assert_eq!(exit_code(&mut session, &exec_id), 5, "background: {background}");
    }
    session.survives();
}

fn the_size_follows(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run_with(json!({"command": "stty size", "tty": true})).exits(0).prints("24 80\r\n", "");
    let exec_id = start(&mut session, "sh -c 'trap \"stty size\" WINCH; echo on; while :; do read x; done'");
    until_seen(&mut session, &exec_id, "on");
    let resized =
        session.connection.ok(m::ExecResize::NAME, json!({"exec_id": exec_id, "rows": 40, "cols": 120}));
    assert_eq!((&resized["rows"], &resized["cols"]), (&json!(40), &json!(120)));
    type_in(&mut session, &exec_id, "\n");
    until_seen(&mut session, &exec_id, "40 120");
    let screen = session.connection.ok(m::ExecScreen::NAME, json!({"exec_id": exec_id}));
    assert_eq!((&screen["rows"], &screen["cols"]), (&json!(40), &json!(120)));
    assert_eq!(screen["lines"].as_array().map(Vec::len), Some(40));
    for (rows, cols) in [(0, 0), (0, 80), (24, 0), (1001, 80), (24, 70000), (-1, 80)] {
        let params = json!({"exec_id": exec_id, "rows": rows, "cols": cols});
        session.connection.fails(m::ExecResize::NAME, params, "INVALID_PARAMS");
    }
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
    session.attach(&exec_id);
    // Before its first output, and kept for the commands after it.
    let exec_id = start(&mut session, "read go; stty size");
    session.connection.ok(m::ExecResize::NAME, json!({"exec_id": exec_id, "rows": 30, "cols": 100}));
    type_in(&mut session, &exec_id, "\n");
    session.attach(&exec_id);
    assert!(look(&mut session, &exec_id).contains("30 100"));
    session.run_with(json!({"command": "stty size", "tty": true})).exits(0).prints("30 100\r\n", "");
    session.connection.fails(
        m::ExecResize::NAME,
        json!({"exec_id": exec_id, "rows": 3, "cols": 10}),
        "INVALID_PARAMS",
    );
}

fn keys_are_signals(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    // The shell itself may be hit before its program has started: then it says how that ended.
    for command in ["sh -c 'echo on; exec sleep 1000'", "echo on; while :; do :; done"] {
        let exec_id = start(&mut session, command);
        until_seen(&mut session, &exec_id, "on");
        type_in(&mut session, &exec_id, "\x03");
        let code = exit_code(&mut session, &exec_id);
        let own_word = shell == Shell::Zsh && command.contains("while") && code != 0;
        assert!(code == 130 || own_word, "{command}: {code}");
    }
    let exec_id = start(&mut session, "cat");
    type_in(&mut session, &exec_id, "line\n");
    until_seen(&mut session, &exec_id, "line\nline");
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "rest", "eof": true}));
    assert_eq!(exit_code(&mut session, &exec_id), 0);
    session.keeps_state();
}

fn a_stopped_command_leaves_the_terminal_sound(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let before = session.run_with(json!({"command": "stty -g", "tty": true})).exits(0).stdout;
    let command = "sh -c 'stty raw -echo; trap \"\" INT TERM; echo on; sleep 1000'";
    let ran = session.run_with(json!({"command": command, "tty": true, "timeout_s": 0.5}));
    assert!(ran.timed_out, "{ran:?}");
    session.run_with(json!({"command": "stty -g", "tty": true})).exits(0).prints(&before, "");
}

fn nothing_typed_is_left_for_the_next(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = start(&mut session, "stty -echo; echo on; head -c 1 >/dev/null; stty echo");
    until_seen(&mut session, &exec_id, "on");
    type_in(&mut session, &exec_id, "a\nstray\n");
    session.attach(&exec_id);
    let exec_id = start(&mut session, "cat");
    type_in(&mut session, &exec_id, "mine\n");
    until_seen(&mut session, &exec_id, "mine\nmine");
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "eof": true}));
    session.attach(&exec_id);
    assert!(!look(&mut session, &exec_id).contains("stray"));
}

fn given_input_is_typed_whole_and_then_ends(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for text in ["", "x\n", "x", "a\nb"] {
        for background in [false, true] {
            let params = json!({
                "command": "cat; echo over", "tty": true, "stdin": text, "background": background, "timeout_s": 20,
            });
            let printed = format!("{}over\r\n", text.replace('\n', "\r\n"));
            let ran = session.run_with(params.clone()).exits(0);
            assert!(ran.stdout.ends_with(&printed), "{text:?} {ran:?}");
            let streamed = session.stream(params).output("stdout");
            assert!(streamed.ends_with(printed.as_bytes()), "{text:?} {streamed:?}");
        }
    }
    let long = "y".repeat(10_000) + "\n";
    let params = json!({"command": "cat >copy", "tty": true, "stdin": long, "timeout_s": 20});
    session.run_with(params).exits(0);
    assert_eq!(std::fs::read_to_string(daemon.work().join("copy")).unwrap_or_default(), long);
    let closed = json!({"command": "cat", "tty": true, "stdin": "", "stdin_open": false, "timeout_s": 20});
    let exec_id = session.start(closed);
    assert_eq!(exit_code(&mut session, &exec_id), 0);
    session.survives();
}

#[test]
fn vim_less_and_top_are_seen() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("seq 500 >numbers");

    let exec_id = start(&mut session, "echo before; vim -u NONE -N numbers; echo after");
    until_seen(&mut session, &exec_id, "\"numbers\"");
    // The text comes after the line that names the file.
    until_seen(&mut session, &exec_id, "1\n2\n3\n");
    let screen = session.connection.ok(m::ExecScreen::NAME, json!({"session_id": session.id}));
    assert_eq!((screen["alternate"].as_bool(), screen["lines"][0].as_str()), (Some(true), Some("1")));
    type_in(&mut session, &exec_id, "ihello \x1b:");
    until_seen(&mut session, &exec_id, "hello 1");
    until_waiting(&mut session, &exec_id);
    type_in(&mut session, &exec_id, "wq\r");
    assert_eq!(exit_code(&mut session, &exec_id), 0);
    let screen = session.connection.ok(m::ExecScreen::NAME, json!({"exec_id": exec_id}));
    assert_eq!(screen["alternate"], false, "{screen}");
    assert!(lines(&screen).starts_with("before\nafter\n"), "{screen}");
    assert_eq!(session.ok("head -1 numbers"), "hello 1\n");

    let exec_id = start(&mut session, "less numbers");
    until_seen(&mut session, &exec_id, "\n23\n");
    type_in(&mut session, &exec_id, "G");
    until_seen(&mut session, &exec_id, "\n500\n");
    type_in(&mut session, &exec_id, "q");
    assert_eq!(exit_code(&mut session, &exec_id), 0);

    let exec_id = session.start(json!({"command": "top", "tty": true}));
    until_seen(&mut session, &exec_id, "PID");
    type_in(&mut session, &exec_id, "q");
    assert_eq!(exit_code(&mut session, &exec_id), 0);
}

#[test]
fn a_screen_has_its_title_and_cursor_and_outlives_the_daemon() {
    let mut daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let command = "printf '\\033]2;a title\\007\\033[2J\\033[3;5Hmark'; read x; echo \"end $x\"";
    let exec_id = start(&mut session, command);
    until_seen(&mut session, &exec_id, "mark");
    daemon.kill9();
    daemon.restart();
    session.connection = daemon.connect();
    let screen = session.connection.ok(m::ExecScreen::NAME, json!({"exec_id": exec_id}));
    assert_eq!(screen["title"], "a title");
    assert_eq!(screen["cursor"], json!({"row": 2, "col": 8, "visible": true}));
    assert_eq!(screen["lines"][2], "    mark");
    type_in(&mut session, &exec_id, "well\n");
    assert_eq!(exit_code(&mut session, &exec_id), 0);
    assert!(look(&mut session, &exec_id).contains("end well"));
}

#[test]
fn what_has_no_terminal_has_no_screen() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let asked = session.params(json!({}));
    let message = session.connection.fails(m::ExecScreen::NAME, asked, "INVALID_PARAMS");
    assert!(message.contains("tty:true"), "{message}");
    let exec_id = session.start(json!({"command": "sleep 1000"}));
    for method in [m::ExecScreen::NAME, m::ExecResize::NAME] {
        let mut params = json!({"exec_id": exec_id});
        if method == m::ExecResize::NAME {
            params["rows"] = json!(3);
            params["cols"] = json!(3);
        }
        let message = session.connection.fails(method, params, "INVALID_PARAMS");
        assert!(message.contains("tty:true"), "{message}");
    }
    session.connection.fails(m::ExecScreen::NAME, json!({"exec_id": "e-00000000-1"}), "EXEC_NOT_FOUND");
    session.connection.fails(m::ExecScreen::NAME, json!({}), "INVALID_PARAMS");
}

#[test]
fn questions_to_the_terminal_are_answered() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let command = "stty raw -echo; printf 'ab\\033[6n'; answer=$(dd bs=1 count=6 2>/dev/null); stty sane; \
                   printf %s \"$answer\" | od -c | head -1";
    let ran = session.run_with(json!({"command": command, "tty": true})).exits(0);
    assert!(ran.stdout.contains("033   [   1   ;   3   R"), "{ran:?}");
}

#[test]
fn waiting_is_seen_without_a_prompt_and_without_a_terminal() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let exec_id = session.start(json!({"command": "cat /dev/tty", "background": false}));
    assert_eq!(until_waiting(&mut session, &exec_id), "");
    type_in(&mut session, &exec_id, "x\n");
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
    session.attach(&exec_id);
    for background in [false, true] {
        let exec_id = session.start(json!({"command": "cat", "background": background, "stdin_open": true}));
        until_waiting(&mut session, &exec_id);
        session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "eof": true}));
        session.attach(&exec_id);
        assert_eq!(session.exec_info(&exec_id).get("waiting_for_input"), None);
    }
    let exec_id = session
        .start(json!({"command": "echo -n 'no prompt: '; sleep 1000", "background": false, "tty": true}));
    until_seen(&mut session, &exec_id, "no prompt:");
    assert_eq!(session.exec_info(&exec_id).get("waiting_for_input"), None, "it only works");
}

#[test]
fn a_flood_that_nobody_watches_costs_no_memory() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.run_with(json!({"command": "echo", "tty": true})).exits(0);
    let host = session.host_pid();
    let rss = || {
        let status = std::fs::read_to_string(format!("/proc/{host}/status")).expect("the host lives");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default().to_owned();
        line.split_ascii_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number")
    };
    let before = rss();
    let ran = session.run_with(json!({"command": "yes flood | head -c 3000000; echo the end", "tty": true}));
    assert!(ran.stdout.ends_with("the end\r\n"), "all of it was heard");
    assert_eq!(ran.stdout_bytes, 3_000_000 + 500_000 + "the end\r\n".len() as u64);
    let grown = rss().saturating_sub(before);
    assert!(grown < 4 * 1024, "{grown} kB");
}
