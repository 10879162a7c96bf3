//! How a daemon starts, refuses to start, and ends.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Output;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, GUARD, Shell, daemon, in_each_shell, process, trl, wait_until};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn mode(path: &Path) -> u32 {
    fs::metadata(path).map(|meta| meta.permissions().mode() & 0o7777).unwrap_or_default()
}

fn an_end_leaves_nothing(shell: Shell) {
    for signal in [process::Signal::TERM, process::Signal::INT] {
        let mut daemon = daemon!();
        let mut idle = daemon.session(shell);
        idle.ok("sleep 1000 & (setsid sh -c '(sleep 1000 &)' &) ; nohup sleep 1000 >/dev/null 2>&1 & true");
        let mut busy = daemon.session(shell);
        let (request, _) = busy.stream_until(
            json!({"command": "echo up; sh -c 'trap \"\" TERM INT; sleep 1000; :'", "timeout_s": 0}),
            "up\n",
        );
        process::signal(daemon.pid(), signal);
        let status = daemon.wait_end();
        assert!(status.success(), "{signal:?}: {status}");
        let last = busy.connection.finish_or_end(request);
        assert!(
            last.is_none_or(|answer| answer.result.is_err()),
            "a command that was cut short is no success"
        );
        let left = daemon.leftovers();
        assert!(left.is_empty(), "{signal:?}: {left:#?}");
    }
}

in_each_shell!(an_end_leaves_nothing);

#[test]
fn a_second_daemon_refuses_and_touches_nothing() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let before = fs::metadata(daemon.socket()).map(|meta| meta.ino()).ok();
    let elsewhere = tempfile::tempdir().map(|dir| dir.path().display().to_string()).unwrap_or_default();
    for home in [daemon.home().display().to_string(), elsewhere] {
        let output =
            daemon.trl(&["serve", "--socket", &daemon.socket().display().to_string(), "--home", &home]);
        assert!(!output.status.success());
        assert!(
            text(&output.stderr).contains(&daemon.pid().to_string()),
            "the living one is named: {}",
            text(&output.stderr)
        );
        assert_eq!(text(&output.stdout), "");
    }
    assert_eq!(fs::metadata(daemon.socket()).map(|meta| meta.ino()).ok(), before);
    session.survives();
    daemon.session(Shell::Sh).survives();
}

#[test]
fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let mut daemon = daemon!();
    daemon.session(Shell::Bash).destroy();
    daemon.kill9();
    assert!(process::exists(daemon.socket()), "a killed daemon cannot tidy up");
    daemon.restart();
    daemon.session(Shell::Bash).survives();

    let precious = daemon.work().join("precious");
    assert!(fs::write(&precious, "data").is_ok());
    let output = daemon.trl(&["serve", "--socket", &precious.display().to_string()]);
    assert!(!output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(&precious).unwrap_or_default(), "data");
}

#[test]
fn only_the_owner_may_come_near() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"env": {"SECRET": "x"}}));
    session.ok("echo hi; umask 0");
    session.ok("echo hi");
    assert_eq!(mode(&daemon.socket()), 0o600);
    check_private(&daemon.home());
}

/// Directories are 0700, files and sockets 0600.
#[track_caller]
fn check_private(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let (path, dir) = (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let expected = if dir { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{} is {:o}", path.display(), mode(&path));
        if dir {
            check_private(&path);
        }
    }
}

#[test]
fn ignored_signals_of_the_parent_are_not_passed_on() {
    let daemon = Daemon::builder(trl!())
        .launched_by(&["sh", "-c", "trap '' INT QUIT HUP PIPE TERM CHLD; exec \"$0\" \"$@\""])
        .start();
    for shell in Shell::ALL {
        let mut session = daemon.session(shell);
        session.put_state();
        let ran = session.run_with(json!({"command": "sleep 30", "timeout_s": 0.3})).exits(130);
        assert!(ran.timed_out);
        let ran = session.run_with(json!({"command": "while :; do :; done", "timeout_s": 0.3}));
        assert!(ran.timed_out);
        session.keeps_state();
        assert_eq!(session.info()["restarts"], 0);
        session.run("yes | head -n 1").exits(0).prints("y\n", "");
    }
}

#[test]
fn a_daemon_can_be_asked_to_end() {
    let mut daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let pid = session.pid();
    let answer = session.connection.ok(m::SystemShutdown::NAME, json!({}));
    assert_eq!(answer, json!({"pid": daemon.pid(), "keep_sessions": false}));
    assert!(daemon.wait_end().success());
    assert!(!process::alive(pid));
    assert!(daemon.leftovers().is_empty(), "{:#?}", daemon.leftovers());
}

#[test]
fn sessions_may_be_kept_for_the_next_daemon() {
    for way in ["flag", "environment", "request"] {
        let builder = Daemon::builder(trl!());
        let mut daemon = match way {
            "flag" => builder.arg("--keep-sessions").start(),
            "environment" => builder.env("TRL_KEEP_SESSIONS", "1").start(),
            _ => builder.start(),
        };
        let mut session = daemon.session_with(Shell::Bash, json!({"name": "kept"}));
        session.put_state();
        let pid = session.pid();
        if way == "request" {
            session.connection.ok(m::SystemShutdown::NAME, json!({"keep_sessions": true}));
            assert!(daemon.wait_end().success());
        } else {
            assert!(daemon.terminate().success());
        }
        assert!(process::alive(pid), "{way}: the shell stays");
        assert!(!process::exists(daemon.socket()), "{way}: the socket does not");
        daemon.restart();
        session.connection = daemon.connect();
        assert_eq!(session.pid(), pid);
        session.keeps_state();
        session.destroy();
        daemon.keep_sessions();
    }
}

#[test]
fn the_first_spellings_of_the_flags_still_start_a_daemon() {
    let daemon = Daemon::builder(trl!()).prepare();
    for words in [vec!["--socket"], vec!["--socket-path"], vec!["serve", "--socket-path"]] {
        let socket = daemon.work().join("other.sock");
        let mut child = daemon.command().args(&words).arg(&socket).spawn().ok();
        wait_until("it listens", GUARD, || trl_testkit::Connection::open(&socket).is_ok());
        let mut connection = trl_testkit::Connection::open(&socket).ok();
        let pong = connection.as_mut().map(|connection| connection.ok(m::SystemPing::NAME, json!({})));
        assert!(pong.is_some_and(|pong| pong["version"].is_string()), "{words:?}");
        connection.map(|mut connection| connection.ok(m::SystemShutdown::NAME, json!({})));
        assert!(
            child.as_mut().is_some_and(|child| child.wait().is_ok_and(|status| status.success())),
            "{words:?}"
        );
        assert!(!process::exists(&socket));
    }
}

#[test]
fn flags_win_over_environment_over_dotenv_over_config() {
    let daemon = Daemon::builder(trl!()).prepare();
    let config = daemon.home().join("config");
    assert!(fs::create_dir_all(&config).is_ok());
    let max_sessions = |words: &[&str], environment: Option<&str>| -> Value {
        let socket = daemon.work().join("s.sock");
        let mut command = daemon.command();
        command.args(["serve", "--socket"]).arg(&socket).args(words);
        if let Some(value) = environment {
            command.env("TRL_MAX_SESSIONS", value);
        }
        let mut child = command.spawn().ok();
        wait_until("it listens", GUARD, || trl_testkit::Connection::open(&socket).is_ok());
        let connection = trl_testkit::Connection::open(&socket).ok();
        let told = connection.map(|mut connection| {
            let info = connection.ok(m::SystemInfo::NAME, json!({}));
            connection.ok(m::SystemShutdown::NAME, json!({}));
            info["limits"]["max_sessions"].clone()
        });
        assert!(child.as_mut().is_some_and(|child| child.wait().is_ok()));
        told.unwrap_or_default()
    };
    assert_eq!(max_sessions(&[], None), 64);
    assert!(fs::write(config.join("config.toml"), "max_sessions = 5\n").is_ok());
    assert_eq!(max_sessions(&[], None), 5, "the config file");
    assert!(fs::write(daemon.work().join(".env"), "TRL_MAX_SESSIONS=6\n").is_ok());
    assert_eq!(max_sessions(&[], None), 6, ".env");
    assert_eq!(max_sessions(&[], Some("7")), 7, "the environment");
    assert_eq!(max_sessions(&["--max-sessions", "8"], Some("7")), 8, "a flag");
}

#[test]
fn settings_that_make_no_sense_are_named() {
    let daemon = Daemon::builder(trl!()).prepare();
    let check = |output: Output, word: &str| {
        assert!(!output.status.success(), "{word}");
        assert!(text(&output.stderr).contains(word), "{word}: {}", text(&output.stderr));
        assert_eq!(text(&output.stdout), "", "{word}");
    };
    check(daemon.trl(&["serve", "--max-sessions", "many"]), "many");
    check(daemon.trl(&["serve", "--no-such-flag"]), "--no-such-flag");
    check(daemon.trl(&["serve", "--default-timeout", "-5"]), "-5");
    let long = format!("/tmp/{}", "x".repeat(200));
    check(daemon.trl(&["serve", "--socket", &long]), &long);
}

#[test]
fn the_line_protocol_is_spoken_on_stdin_and_stdout() {
    let daemon = Daemon::builder(trl!()).prepare();
    let lines = [
        json!({"id": 1, "method": m::SystemPing::NAME}),
        json!({"id": 2, "method": m::SessionCreate::NAME, "params": {"shell": "bash", "name": "io"}}),
    ];
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    for words in [&["--stdin"][..], &["serve", "--stdin"]] {
        let output = daemon.trl_reading(words, format!("{input}garbage\n").as_bytes());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let answers: Vec<Value> =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap_or_default()).collect();
        assert_eq!(answers.len(), 3, "nothing else is printed: {}", text(&output.stdout));
        assert!(answers.iter().any(|answer| answer["id"] == 1 && answer["ok"] == true));
        assert!(answers.iter().any(|answer| answer["id"] == 2 && answer["data"]["name"] == "io"));
        assert!(
            answers.iter().any(|answer| answer["id"].is_null() && answer["error"]["code"] == "PARSE_ERROR")
        );
        wait_until("its sessions end with it", GUARD, || daemon.processes().is_empty());
    }
}

#[test]
fn secrets_show_nowhere_but_in_the_session() {
    let daemon = Daemon::builder(trl!()).env("TRL_LOG", "trace").start();
    let secret = "s3cr3t-f00d-value";
    let mut session = daemon.session_with(Shell::Bash, json!({"env": {"API_KEY": secret}}));
    session.run("echo ${#API_KEY}").exits(0).prints("17\n", "");
    session
        .run_with(json!({"command": "echo ${#TOKEN}", "env": {"TOKEN": secret}}))
        .exits(0)
        .prints("17\n", "");
    session
        .run_with(json!({"command": "read -r line; echo ${#line}", "stdin": format!("{secret}\n")}))
        .exits(0)
        .prints("17\n", "");
    session.start(json!({"command": "sleep 1000", "env": {"TOKEN": secret}}));
    session.run("kill -9 $$").exits(137);
    session.run("echo ${#API_KEY}").exits(0).prints("17\n", "");
    for pid in daemon.processes() {
        let arguments = process::arguments(pid).join(" ");
        assert!(!arguments.contains(secret), "ps shows it: {arguments}");
    }
    assert!(!daemon.log().contains(secret), "the log shows it");
    let answers =
        session.info().to_string() + &session.connection.ok(m::ExecList::NAME, json!({})).to_string();
    assert!(!answers.contains(secret));
    no_public_file_holds(&daemon.home(), secret);
    no_public_file_holds(&daemon.temporary(), secret);
}

fn no_public_file_holds(dir: &Path, secret: &str) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            no_public_file_holds(&path, secret);
        } else if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let holds = fs::read(&path).is_ok_and(|bytes| text(&bytes).contains(secret));
            assert!(!holds || mode(&path) & 0o077 == 0, "{} shows it to others", path.display());
        }
    }
}
