//! The daemon that clients start, replace and end, and what is told when that cannot be.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use trl_testkit::{GUARD, needs, process, trl};

/// A home in which no daemon runs yet. What is started there ends with it.
struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::Builder::new().prefix("trl-").tempdir().unwrap())
    }

    fn command(&self) -> Command {
        let mut command = Command::new(trl!());
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.0.path())
            .env("TRL_HOME", self.0.path().join("trl"))
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }

    fn trl(&self, args: &[&str]) -> Output {
        self.command().args(args).output().unwrap()
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_slice(&self.trl(args).stdout).unwrap()
    }

    fn daemon_pid(&self) -> Option<i32> {
        self.json(&["--json", "version"])["daemon"]["pid"].as_i64().map(|pid| pid as i32)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ended = self.trl(&["shutdown"]);
    }
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn the_first_command_starts_a_daemon_that_holds_nothing_of_ours() {
    let home = Home::new();
    assert_eq!(home.daemon_pid(), None);
    // Reading to the end of its pipes returns only if the daemon does not hold them, nor the
    // one that its parent left open.
    let script = format!("exec 9>&1; {} run 'echo hi'", trl!().display());
    let output = home.command_in_shell(&script);
    assert_eq!((stdout(&output), output.status.code()), ("hi\n", Some(0)), "{output:?}");
    let pid = home.daemon_pid().unwrap();
    let session_of = |pid: i32| rustix::process::getsid(rustix::process::Pid::from_raw(pid)).unwrap();
    assert_eq!(session_of(pid).as_raw_nonzero().get(), pid);
    if !needs::root("look into the daemon") {
        return;
    }
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    // One that is closed meanwhile, such as a connection, is held no more.
    let places: Vec<String> =
        fds.filter_map(|fd| Some(std::fs::read_link(fd.ok()?.path()).ok()?.display().to_string())).collect();
    assert!(!places.is_empty());
    assert!(!places.iter().any(|place| place.starts_with("pipe:")), "{places:?}");
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap(), Path::new("/"));
}

impl Home {
    fn command_in_shell(&self, script: &str) -> Output {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).env("TRL_HOME", self.0.path().join("trl")).env("HOME", self.0.path());
        shell.stdin(Stdio::null()).output().unwrap()
    }
}

#[test]
fn clients_that_race_start_one_daemon_between_them() {
    let home = Home::new();
    let start = |index: usize| {
        let name = format!("n{index}");
        let mut command = home.command();
        command.args(["run", "-s", &name, "echo ok"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let racers: Vec<_> = (0..8).map(start).collect();
    for racer in racers {
        let output = racer.wait_with_output().unwrap();
        assert_eq!((stdout(&output), stderr(&output)), ("ok\n", ""));
    }
    assert_eq!(home.json(&["--json", "ls"])["sessions"].as_array().unwrap().len(), 8);
}

/// A loop that takes long enough to be cut in the middle, and its whole output.
const LOOP: &str = "i=0; while [ $i -lt 30 ]; do echo line $i; i=$((i+1)); sleep 0.03; done";

fn survives(cut: impl Fn(&Home)) {
    let home = Home::new();
    let mut child =
        home.command().args(["run", LOOP]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut heard = String::new();
    lines.read_line(&mut heard).unwrap();
    let before = home.daemon_pid().unwrap();
    cut(&home);
    lines.read_to_string(&mut heard).unwrap();
    let expected: String = (0..30).map(|n| format!("line {n}\n")).collect();
    assert_eq!(heard, expected);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_ne!(home.daemon_pid().unwrap(), before);
}

#[test]
fn a_running_command_is_heard_whole_across_a_restart() {
    survives(|home| {
        let output = home.trl(&["restart"]);
        assert!(stderr(&output).contains("1 sessions live on"), "{output:?}");
    });
}

#[test]
fn a_running_command_is_heard_whole_across_a_crash() {
    survives(|home| {
        let pid = home.daemon_pid().unwrap();
        process::signal(pid, Signal::KILL);
        assert!(process::ended_within(pid, GUARD));
    });
}

#[test]
fn shutdown_ends_the_sessions_unless_they_are_kept() {
    let home = Home::new();
    assert!(home.trl(&["run", "x=5"]).status.success());
    assert!(home.trl(&["shutdown", "--keep-sessions"]).status.success());
    assert_eq!(stdout(&home.trl(&["run", "echo $x"])), "5\n");
    assert!(home.trl(&["shutdown"]).status.success());
    assert_eq!(stdout(&home.trl(&["run", "echo [$x]"])), "[]\n");
    assert!(home.trl(&["shutdown"]).status.success());
    let none = home.trl(&["shutdown"]);
    assert!(none.status.success() && stderr(&none).contains("nothing to end"), "{none:?}");
}

#[test]
fn without_a_daemon_what_needs_one_says_so() {
    let home = Home::new();
    for args in [&["--no-start", "ls"][..], &["restart"]] {
        let output = home.trl(args);
        assert_eq!(output.status.code(), Some(69), "{output:?}");
        assert!(stderr(&output).contains("no daemon listens at "), "{output:?}");
    }
    assert_eq!(home.json(&["--json", "--no-start", "ls"])["error"]["code"], "UNAVAILABLE");
    assert!(stdout(&home.trl(&["version"])).contains("not running"));
}

#[test]
fn a_daemon_that_cannot_start_tells_its_client_why() {
    let home = Home::new();
    std::fs::write(home.0.path().join("trl"), "in the way").unwrap();
    let output = home.trl(&["ls"]);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    std::fs::remove_file(home.0.path().join("trl")).unwrap();
    std::fs::create_dir_all(home.0.path().join("trl/run")).unwrap();
    std::fs::write(home.0.path().join("trl/run/trl.sock"), "in the way").unwrap();
    let output = home.trl(&["ls"]);
    assert!(stderr(&output).contains("trl.sock"), "{output:?}");
    std::fs::remove_file(home.0.path().join("trl/run/trl.sock")).unwrap();
}

#[test]
fn bad_settings_name_the_place_and_the_remedy() {
    let home = Home::new();
    let long = format!("/tmp/{}", "x".repeat(120));
    for (name, value, code, expected) in [
        ("TRL_MAX_SESSIONS", "many", 78, "TRL_MAX_SESSIONS is \"many\""),
        ("TRL_SOCKET_PATH", long.as_str(), 69, "more than the 107"),
    ] {
        let output = home.command().env(name, value).arg("ls").output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(stderr(&output).contains(expected), "{output:?}");
    }
    for flag in ["--home", "--socket"] {
        let output = home.trl(&[flag, "", "ls"]);
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        assert!(stderr(&output).contains(flag), "{output:?}");
    }
    let output = home.trl(&["--http", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(stderr(&output).contains("TRL_AUTH_TOKEN"), "{output:?}");
}

#[test]
fn bare_transport_flags_serve_and_a_second_daemon_is_refused() {
    let home = Home::new();
    let socket = home.0.path().join("bare.sock");
    let mut first = home.command().arg("--socket-path").arg(&socket).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(first.stderr.take().unwrap()).lines();
    assert!(log.any(|line| line.unwrap().contains("listening")));
    let second = home.command().arg("--socket").arg(&socket).output().unwrap();
    assert_eq!(second.status.code(), Some(69));
    assert!(stderr(&second).contains(&format!("pid {}", first.id())), "{second:?}");
    process::signal(first.id() as i32, Signal::TERM);
    assert_eq!(first.wait().unwrap().code(), Some(0));
    assert!(!process::exists(&socket));
}

#[test]
fn doctor_reports_and_fails_where_something_fails() {
    let home = Home::new();
    let report = home.json(&["--json", "doctor"]);
    assert_eq!(report["ok"], true, "{report}");
    let output = home.command().env("TRL_MAX_SESSION", "3").arg("doctor").output().unwrap();
    assert!(stdout(&output).contains("Did you mean TRL_MAX_SESSIONS?"), "{output:?}");
    assert_eq!(output.status.code(), Some(0));
    std::fs::create_dir_all(home.0.path().join("trl/config")).unwrap();
    std::fs::write(home.0.path().join("trl/config/config.toml"), "max_session = 3\n").unwrap();
    let output = home.trl(&["doctor"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stdout(&output).contains("did you mean `max_sessions`"), "{output:?}");
    std::fs::remove_file(home.0.path().join("trl/config/config.toml")).unwrap();
}
