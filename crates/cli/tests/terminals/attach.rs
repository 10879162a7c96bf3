//! People at a session: what they see, what they type, how they leave.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::process::Signal;
use trl_testkit::{Daemon, Person, Session, Shell, daemon, in_each_shell};

fn attach(daemon: &Daemon, arguments: &[&str]) -> Person {
    let mut command = daemon.client();
    command.args(arguments);
    Person::at(command)
}

fn named(daemon: &Daemon, shell: Shell) -> Session {
    daemon.session_with(shell, json!({"name": "work"}))
}

const KEY: &str = "\x1d";

in_each_shell!(a_person_and_an_agent_share_one_shell);

fn a_person_and_an_agent_share_one_shell(shell: Shell) {
    let daemon = daemon!();
    let mut session = named(&daemon, shell);
    session.ok("agent=here; echo earlier words");
    let mut person = attach(&daemon, &["attach", "work"]);
    person.sees("Ctrl-] leaves");
    // What was before, then the prompt.
    person.sees("earlier words\nwork ");
    person.types("echo \"$agent is $((20 + 3))\"; mine=too; test -t 1 && echo terminal\r");
    person.sees("here is 23\nterminal\nwork ");
    session.run("echo \"agent says $mine\"").exits(0).prints("agent says too\n", "");
    person.sees("agent says too\nwork ");
    person.types("(exit 7)\r");
    person.sees("[7] $");
    person.types("no\x15echo \"erased\"x\x7f\r");
    person.sees("\nerased\n");
    // A program of the person's own, with keys of its own.
    person.types("cat\r");
    session.connection.ok(m::SessionInfo::NAME, json!({"session_id": "work"}));
    person.types("to cat\r");
    person.sees("to cat\nto cat");
    person.types("\x03");
    person.sees("[130] $");
    person.types(KEY);
    assert_eq!(person.ends().code(), Some(0));
    person.sees("detached from work");
    assert!(person.terminal_is_sound(), "{}", person.screen());
    session.run("echo $mine").exits(0).prints("too\n", "");
}

/// Who only looks and thinks is there all the same.
#[test]
fn a_session_does_not_end_as_idle_while_a_person_is_attached() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"name": "work", "idle_timeout_s": 0.6}));
    session.ok("mkfifo go");
    // A command that runs until the person is there.
    let waiting = session.start(json!({"command": "read x <go"}));
    let mut person = attach(&daemon, &["attach", "work"]);
    person.sees("Ctrl-] leaves");
    std::fs::write(daemon.work().join("go"), "\n").unwrap();
    session.attach(&waiting);
    daemon.session(Shell::Bash).ok("sleep .9");
    session.survives();
    person.types(KEY);
    assert_eq!(person.ends().code(), Some(0));
}

#[test]
fn the_window_gives_the_size_and_a_full_screen_program_comes_back() {
    let daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    session.ok("seq 100 >numbers");
    let mut person = attach(&daemon, &["attach", "work"]);
    person.sees("$");
    person.resizes(30, 90);
    person.types("while [ \"$(stty size)\" != '30 90' ]; do :; done; echo fits\r");
    person.sees("\nfits\n");
    person.types("vim -u NONE -N numbers\r");
    person.sees("\"numbers\"");
    assert!(person.is_on_other_screen());
    person.types(KEY);
    person.ends();
    assert!(person.terminal_is_sound(), "{}", person.screen());

    let mut person = attach(&daemon, &["attach", "work"]);
    person.resizes(30, 90);
    person.sees("\n25\n");
    assert!(person.is_on_other_screen(), "vim is where it was:\n{}", person.screen());
    person.types(":q\r");
    person.sees("work ");
    assert!(!person.is_on_other_screen());
    person.types(KEY);
    person.ends();
}

#[test]
fn one_types_and_many_look() {
    let daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    let mut first = attach(&daemon, &["attach", "work"]);
    first.sees("$");
    let mut refused = attach(&daemon, &["attach", "work"]);
    assert_ne!(refused.ends().code(), Some(0));
    assert!(refused.screen().contains("read-only"), "{}", refused.screen());
    let mut looking = attach(&daemon, &["watch", "work"]);
    looking.sees("$");
    let mut another = attach(&daemon, &["attach", "--read-only", "work"]);
    another.sees("$");
    first.types("echo seen by $((1 + 1))\r");
    for person in [&mut first, &mut looking, &mut another] {
        person.sees("seen by 2");
    }
    looking.types("echo no\r");
    let mut second = attach(&daemon, &["attach", "--take-over", "work"]);
    second.sees("seen by 2");
    assert_eq!(first.ends().code(), Some(3));
    first.sees("took work over");
    assert!(first.terminal_is_sound());
    second.types("echo mine now\r");
    another.sees("\nmine now\n");
    looking.types("q");
    assert_eq!(looking.ends().code(), Some(0));
    assert!(looking.terminal_is_sound());
    session.run("echo still").exits(0).prints("still\n", "");
}

#[test]
fn what_scrolled_by_is_there_again() {
    let daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    session.ok("echo the very first; seq 60");
    let mut person = attach(&daemon, &["attach", "work"]);
    person.sees("\n59\n60\nwork ");
    person.types("\x1d");
    person.ends();
    assert!(person.all_lines().contains("the very first\n1\n2\n"), "{}", person.all_lines());

    // Also while a program has the other screen, which hides it.
    let command = "printf '\\033[?1049hon %s' top; read -r _; printf '\\033[?1049l'";
    session.start(json!({"command": command, "tty": true, "background": false}));
    let mut person = attach(&daemon, &["attach", "work"]);
    person.sees("on top");
    assert!(person.is_on_other_screen());
    person.types("\r");
    person.sees("\n59\n60\nwork ");
    assert!(person.all_lines().contains("the very first\n1\n2\n"), "{}", person.all_lines());
}

#[test]
fn a_line_is_edited_as_hands_know_it() {
    let daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    session.ok("cd /; echo recalled");
    let mut person = attach(&daemon, &["attach", "work"]);
    person.sees("work / $");
    // Longer than a row, with the cursor in the middle of it.
    let words = "word ".repeat(20);
    person.types(&format!("echo {words}last\x01\x1b[C\x1b[C\x1b[C\x1b[C nEw\x7f\x7few\r"));
    person.looks("for two rows of words", |screen| {
        screen.replace('\n', "").contains(&format!("$ echo new {words}lastnew {words}lastwork /"))
    });
    person.types("\x1b[A\x1b[A\r");
    person.sees("work / $ cd /; echo recalled\nrecalled\nwork / $");
    // The agent's command comes between: the line begun is there again behind it.
    person.types("echo be");
    person.sees("$ echo be");
    session.ok("echo from the agent");
    person.sees("work / $ echo from the agent\nfrom the agent\nwork / $ echo be");
    person.types("gun\r");
    person.sees("$ echo begun\nbegun\n");
}

#[test]
fn what_is_typed_ahead_is_for_the_prompt_unless_somebody_reads_it() {
    let daemon = daemon!();
    let _session = named(&daemon, Shell::Bash);
    let mut person = attach(&daemon, &["attach", "work"]);
    person.sees("$");
    person.types("echo waits; until [ -e go ]; do :; done\r");
    person.sees("\nwaits");
    person.types("echo after it\recho half");
    person.sees("echo half");
    std::fs::write(daemon.work().join("go"), "").unwrap();
    // As it was typed, at the prompt, and what it printed, wherever the terminal's own echo came.
    person.looks("for both lines at the prompt", |screen| {
        screen.ends_with("$ echo half") && screen.matches("after it").count() == 3
    });
    person.types(" done\r");
    person.sees("\nhalf done\nwork ");
    person.types("read -r line\rtaken\recho \"it was $line\"\r");
    person.sees("\nit was taken\n");
}

#[test]
fn the_terminal_is_left_clean_however_it_ends() {
    let daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    // In a program that has switched much on, which is there again each time.
    let mut vim = attach(&daemon, &["attach", "work"]);
    vim.sees("$");
    vim.types("vim -u NONE -N --cmd 'set mouse=a' file\r");
    vim.sees("\"file\"");
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130), (Signal::QUIT, 131)]
    {
        let mut person = attach(&daemon, &["attach", "--take-over", "work"]);
        person.sees("~\n~\n~");
        assert!(person.is_on_other_screen());
        person.signals(signal);
        assert_eq!(person.ends().code(), Some(status));
        assert!(person.terminal_is_sound(), "{signal:?}: {}", person.screen());
    }
    let mut person = attach(&daemon, &["attach", "work"]);
    person.sees("~\n~\n~");
    person.types(":q!\r");
    person.looks("for the prompt", |screen| screen.ends_with('$'));
    person.types("\x04");
    assert_eq!(person.ends().code(), Some(0));
    person.sees("left work");
    assert!(person.terminal_is_sound());

    let mut person = attach(&daemon, &["attach", "work"]);
    person.sees("$");
    session.destroy();
    assert_ne!(person.ends().code(), Some(0));
    person.sees("ended");
    assert!(person.terminal_is_sound());

    let mut person = attach(&daemon, &["attach", "nowhere"]);
    assert_ne!(person.ends().code(), Some(0));
    person.sees("no session");
    assert!(person.terminal_is_sound());
}

#[test]
fn a_host_and_a_daemon_that_are_killed_leave_a_clean_terminal() {
    let mut daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    let mut person = attach(&daemon, &["--no-start", "attach", "work"]);
    person.sees("$");
    session.kill_host();
    assert_ne!(person.ends().code(), Some(0));
    assert!(person.terminal_is_sound(), "{}", person.screen());

    let other = daemon.session_with(Shell::Bash, json!({"name": "other"}));
    let mut person = attach(&daemon, &["--no-start", "attach", "other"]);
    person.sees("$");
    daemon.kill9();
    assert_ne!(person.ends().code(), Some(0));
    assert!(person.terminal_is_sound(), "{}", person.screen());
    drop(other);
    assert!(daemon.trl(&["shutdown"]).status.success());
}

#[test]
fn a_daemon_that_is_killed_is_replaced_under_ones_hands() {
    let mut daemon = daemon!();
    let _session = named(&daemon, Shell::Bash);
    let mut person = attach(&daemon, &["attach", "work"]);
    person.sees("$");
    person.resizes(30, 90);
    person.types("while [ \"$(stty size)\" != '30 90' ]; do :; done; kept=1; clear\r");
    person.looks("for an empty screen", |screen| {
        screen.trim().starts_with("work ") && screen.lines().count() == 1
    });
    daemon.kill9();
    // The view comes back by itself, with a daemon of its own, and so does a key that came too early.
    person.types("echo $((kept + 1)) of two, $(stty size)\r");
    person.sees("2 of two, 30 90");
    person.types(KEY);
    assert_eq!(person.ends().code(), Some(0));
    assert!(person.terminal_is_sound());
    assert!(daemon.trl(&["shutdown"]).status.success());
}

#[test]
fn keys_need_a_command_or_a_prompt() {
    let daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    let refused =
        session.connection.call(m::SessionInput::NAME, json!({"session_id": "work", "data": "echo\r"}));
    let fault = refused.unwrap_err();
    assert_eq!(
        (&fault["code"], &fault["details"]["reason"]),
        (&json!("INVALID_PARAMS"), &json!("nobody_attached"))
    );
    session.connection.ok(m::SessionResize::NAME, json!({"session_id": "work", "rows": 33, "cols": 99}));
    session.run_with(json!({"command": "stty size", "tty": true})).exits(0).prints("33 99\r\n", "");
    let exec_id =
        session.start(json!({"command": "read -rsp 'Secret: ' x", "tty": true, "background": false}));
    let asks = json!({"exec_id": exec_id, "until": {"log": {"pattern": "Secret: "}}});
    session.connection.ok(m::ExecWait::NAME, asks);
    session.connection.ok(m::SessionInput::NAME, json!({"session_id": "work", "data": "hidden\r"}));
    let over = session.connection.ok(m::ExecWait::NAME, json!({"exec_id": exec_id}));
    assert_eq!(over["exit_code"], 0);
    session.run("echo $x").exits(0).prints("hidden\n", "");
}

#[test]
fn watching_in_a_pipe_gives_lines_until_the_session_ends() {
    let daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    session.ok("cd /; echo before");
    let mut watch = daemon.client();
    let watch =
        watch.args(["watch", "work"]).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    let mut watch = watch.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap());
    let mut text = String::new();
    while !text.ends_with("before\n") {
        assert_ne!(lines.read_line(&mut text).unwrap(), 0, "{text}");
    }
    session.ok("printf '\\033[32mgreen\\033[0m\\n'; echo aside >&2");
    session.destroy();
    lines.read_to_string(&mut text).unwrap();
    let output = watch.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(!text.contains('\x1b') && text.contains("\ngreen\n") && text.contains("aside\n"), "{text:?}");
    assert!(text.contains("work / $ printf"), "{text:?}");
}

#[test]
fn a_slow_watcher_holds_nobody_up() {
    let daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    let mut lazy = daemon.connect();
    lazy.begin(m::SessionAttach::NAME, json!({"session_id": "work", "read_only": true}));
    let ran = session.run("yes a line of output | head -c 20000000");
    assert_eq!((ran.exit_code, ran.stdout_bytes), (Some(0), 20_000_000));
    session.run("echo on").exits(0).prints("on\n", "");
}

#[test]
fn screen_and_top_in_a_pipe() {
    let daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    session.run_with(json!({"command": "echo on the screen", "tty": true})).exits(0);
    let exec_id = session.start(json!({"command": "sleep 1000"}));
    let shown = daemon.trl(&["screen", "work"]);
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "on the screen\n");
    let shown = daemon.trl(&["screen", "--json", "work"]);
    let screen: Value = serde_json::from_slice(&shown.stdout).unwrap_or_default();
    assert_eq!(screen["lines"][0], "on the screen", "{shown:?}");
    let top = daemon.trl(&["top", "--json"]);
    let top: Value = serde_json::from_slice(&top.stdout).unwrap_or_default();
    assert_eq!((&top["sessions"][0]["name"], &top["execs"][0]["exec_id"]), (&json!("work"), &json!(exec_id)));
    let top = daemon.trl(&["top"]);
    assert!(String::from_utf8_lossy(&top.stdout).contains("sleep 1000"), "{top:?}");
}

#[test]
fn top_is_live_and_leaves_no_trace() {
    let daemon = daemon!();
    let mut session = named(&daemon, Shell::Bash);
    let mut person = attach(&daemon, &["top", "--delay", "0.1"]);
    person.sees("1 session, 0 running commands");
    session.start(json!({"command": "read -rp 'Name? ' name", "tty": true, "background": false}));
    person.sees("waits: Name?");
    assert!(person.sees_colours() && person.is_on_other_screen());
    person.resizes(5, 60);
    let rows = |screen: &str, third: &str| {
        let lines: Vec<&str> = screen.lines().collect();
        lines.len() == 5
            && lines[1].starts_with("SESSION")
            && lines[2].starts_with(third)
            && lines[4] == "q leaves"
    };
    person.looks("for five rows", |screen| rows(screen, "work "));
    person.types("\x1b[B");
    person.looks("to have scrolled", |screen| rows(screen, "  e-"));
    person.types("q");
    assert_eq!(person.ends().code(), Some(0));
    assert!(person.terminal_is_sound());

    let mut command = daemon.client();
    command.arg("top").env("NO_COLOR", "1");
    let mut person = Person::at(command);
    person.sees("waits: Name?");
    assert!(!person.sees_colours());
    person.signals(Signal::TERM);
    assert_eq!(person.ends().code(), Some(143));
    assert!(person.terminal_is_sound());
}
