//! `trl run` as people and scripts use it: its streams, its stdin, its exit status, Ctrl-C.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use trl_testkit::{Daemon, daemon, process};

fn trl(daemon: &Daemon, args: &[&str]) -> Output {
    daemon.client().args(args).output().unwrap()
}

fn fed(daemon: &Daemon, args: &[&str], input: &[u8]) -> Output {
    let mut child = piped(daemon.client().args(args)).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

fn piped(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::piped()).stderr(Stdio::piped())
}

/// A command that has printed its first line.
fn begun(daemon: &Daemon, args: &[&str]) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let mut child = piped(daemon.client().args(args)).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    (child, stdout, line)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn prints(output: &Output, code: i32, stdout: &str, stderr: &str) {
    let got = (output.status.code(), text(&output.stdout), text(&output.stderr));
    assert_eq!(got, (Some(code), stdout, stderr));
}

#[test]
fn streams_are_apart_and_exact_and_the_status_is_the_commands() {
    let daemon = daemon!();
    let output = trl(&daemon, &["run", r"printf 'a\000\377'; printf 'b\200' >&2; (exit 7)"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b"a\0\xff"[..], &b"b\x80"[..]));
}

#[test]
fn a_session_begins_here_with_our_environment_and_keeps_its_place() {
    let daemon = daemon!();
    let mut first = daemon.client();
    let output =
        first.env("MINE", "yes").env("PAGER", "less").args(["run", "echo $MINE $PAGER; pwd"]).output();
    prints(&output.unwrap(), 0, &format!("yes cat\n{}\n", daemon.work().display()), "");
    prints(&trl(&daemon, &["run", "cd /usr; x=5"]), 0, "", "");
    prints(&trl(&daemon, &["run", "echo $x; pwd"]), 0, "5\n/usr\n", "");
    prints(&trl(&daemon, &["run", "-s", "other", "echo [$x]"]), 0, "[]\n", "");
    prints(&trl(&daemon, &["run", "-e", "V=a b", "-C", "/tmp", "echo $V; pwd"]), 0, "a b\n/tmp\n", "");
    prints(&trl(&daemon, &["run", "echo [$V]; pwd"]), 0, "[]\n/usr\n", "");
}

#[test]
fn several_arguments_are_words() {
    let daemon = daemon!();
    let output = trl(&daemon, &["run", "printf", "%s|", "a b", "$HOME", "it's", "-x"]);
    prints(&output, 0, "a b|$HOME|it's|-x|", "");
}

#[test]
fn a_pipe_is_passed_on_and_nothing_is_nothing() {
    let daemon = daemon!();
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    assert!(fed(&daemon, &["run", "cat"], &data).stdout == data);
    prints(&trl(&daemon, &["run", "cat; echo end"]), 0, "end\n", "");
    prints(&fed(&daemon, &["run", "-n", "cat; echo end"], b"unread"), 0, "end\n", "");
    prints(&fed(&daemon, &["run", "head -c 1"], b"abc"), 0, "a", "");
}

#[test]
fn time_over_is_told_and_has_its_status() {
    let daemon = daemon!();
    let output = trl(&daemon, &["run", "--timeout", "200ms", "echo part; sleep 30"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(124), "part\n"));
    assert!(text(&output.stderr).starts_with("trl: the command timed out after "), "{output:?}");
    let output = trl(&daemon, &["run", "--check", "(exit 3)"]);
    prints(&output, 3, "", "trl: the command ended with exit code 3\n");
}

#[test]
fn json_is_the_whole_result_also_of_an_error() {
    let daemon = daemon!();
    let json = |args: &[&str]| {
        let output = trl(&daemon, args);
        assert_eq!(text(&output.stderr), "");
        (output.status.code(), serde_json::from_slice::<Value>(&output.stdout).unwrap())
    };
    let (code, result) = json(&["run", "--json", "echo out; echo err >&2; (exit 4)"]);
    assert_eq!(code, Some(4));
    assert_eq!((&result["stdout"], &result["stderr"]), (&"out\n".into(), &"err\n".into()));
    assert_eq!((&result["exit_code"], &result["timed_out"]), (&4.into(), &false.into()));
    let (_, result) = json(&["run", "--json", "--max-output", "100", "seq 1000"]);
    assert_eq!(result["stdout_truncated"], true);
    assert!(result["stdout"].as_str().unwrap().contains("bytes left out"), "{result}");
    let (code, result) = json(&["run", "--json", "--check", "false"]);
    assert_eq!(
        (code, &result["ok"], &result["error"]["code"]),
        (Some(1), &false.into(), &"COMMAND_FAILED".into())
    );
    let (code, result) = json(&["--json", "run", "-s", "no such name", "true"]);
    assert_eq!((code, &result["error"]["code"]), (Some(64), &"INVALID_PARAMS".into()));
}

#[test]
fn events_are_lines_of_json() {
    let daemon = daemon!();
    let output = trl(&daemon, &["run", "--json-stream", "echo hi"]);
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["event"], "started");
    assert_eq!((&lines[1]["event"], &lines[1]["data"]["text"]), (&"stdout".into(), &"hi\n".into()));
    assert_eq!((&lines[2]["ok"], &lines[2]["data"]["exit_code"]), (&true.into(), &0.into()));
}

#[test]
fn ctrl_c_ends_the_command_and_not_the_session() {
    let daemon = daemon!();
    prints(&trl(&daemon, &["run", "x=kept"]), 0, "", "");
    let (mut child, _stdout, line) = begun(&daemon, &["run", "echo up; sleep 30; echo never"]);
    assert_eq!(line, "up\n");
    process::signal(child.id() as i32, Signal::INT);
    // INT or, where that came between two programs, TERM.
    let status = child.wait().unwrap();
    assert!(matches!(status.code(), Some(130 | 143)), "{status}");
    prints(&trl(&daemon, &["run", "echo $x"]), 0, "kept\n", "");
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let daemon = daemon!();
    let (mut child, stdout, line) = begun(&daemon, &["run", "yes"]);
    assert_eq!(line, "y\n");
    drop(stdout);
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(141), ""));
    prints(&trl(&daemon, &["run", "echo free"]), 0, "free\n", "");
}

/// Names of directories and files are anybody's: nothing in them is for the terminal.
#[test]
fn what_is_told_of_a_session_is_harmless() {
    let daemon = daemon!();
    let odd = "d\u{1b}]0;title\u{7}\nState  idle";
    prints(&trl(&daemon, &["run", "--", "sh", "-c", "mkdir \"$1\"", "sh", odd]), 0, "", "");
    assert_eq!(trl(&daemon, &["run", "cd d*"]).status.code(), Some(0));
    for args in [&["info", "default"][..], &["ls"], &["run", "--config", odd, "true"]] {
        let output = trl(&daemon, args);
        let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(
            told.contains("]0;title") && !told.contains('\u{1b}') && !told.contains("\nState  idle"),
            "{told:?}"
        );
    }
}

#[test]
fn a_busy_session_is_waited_for_unless_told_otherwise() {
    let daemon = daemon!();
    let (mut child, _stdout, _) = begun(&daemon, &["run", "echo up; sleep 0.3; x=first"]);
    let output = trl(&daemon, &["run", "--no-wait", "true"]);
    assert_eq!(output.status.code(), Some(75), "{output:?}");
    prints(&trl(&daemon, &["run", "echo $x"]), 0, "first\n", "");
    child.wait().unwrap();
}

#[test]
fn a_session_of_its_own_is_gone_afterwards() {
    let daemon = daemon!();
    prints(&trl(&daemon, &["run", "--new", "(sleep 1000 &); echo hi"]), 0, "hi\n", "");
    prints(&trl(&daemon, &["ls", "-q"]), 0, "", "");
}

#[test]
fn a_command_cannot_wait_for_itself() {
    let daemon = daemon!();
    let again = format!("{} run true", trl_testkit::trl!().display());
    let output = trl(&daemon, &["run", &again]);
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("use --new"), "{output:?}");
}

#[test]
fn a_detached_command_is_fed_watched_and_cancelled_by_its_id() {
    let daemon = daemon!();
    let exec = |command: &str| text(&trl(&daemon, &["run", "-d", command]).stdout).trim().to_owned();
    let id = exec("read x; echo got $x; echo err >&2");
    prints(&trl(&daemon, &["send-input", &id, "line"]), 0, "", "");
    let followed = trl(&daemon, &["logs", "-f", "--stdout", &id]);
    assert_eq!(text(&followed.stdout), "got line\n");
    assert!(text(&followed.stderr).contains("exit code 0"), "{followed:?}");
    prints(&trl(&daemon, &["logs", &id]), 0, "got line\n", "err\n");
    prints(&trl(&daemon, &["logs", "--stderr", &id]), 0, "err\n", "");
    prints(&trl(&daemon, &["logs", "--stdout", "--offset", "4", &id]), 0, "line\n", "");
    let id = exec("sleep 1000");
    prints(&trl(&daemon, &["cancel", &id]), 0, &format!("{id}\n"), "");
    prints(&trl(&daemon, &["cancel", "default"]), 0, "", "trl: nothing runs in default\n");
}

#[test]
fn a_prompt_without_a_terminal_runs_line_by_line() {
    let daemon = daemon!();
    let output = fed(&daemon, &["sh"], b"cd /usr\n\npwd\nfalse\necho $?\nexit\necho never\n");
    prints(&output, 0, "/usr\n1\n", "");
    let output = fed(&daemon, &["sh"], b"pwd\n(exit 9)");
    prints(&output, 9, "/usr\n", "");
}
