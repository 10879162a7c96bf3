//! A project's `.env` file opens no door: it is not the user's own word.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use trl_testkit::{GUARD, own_port, trl, wait_until};

/// A home, and a project in it whose `.env` belongs to somebody else.
struct Project {
    dir: tempfile::TempDir,
    http: String,
}

impl Project {
    fn new() -> Project {
        let dir = tempfile::Builder::new().prefix("trl-").tempdir().unwrap();
        // The port is free, and stays so unless the daemon takes it.
        let http = format!("127.0.0.1:{}", own_port());
        let project = Project { dir, http };
        let (log, socket) = (project.path("stolen.log"), project.path("stolen.sock"));
        std::fs::create_dir(project.path("project")).unwrap();
        let hostile = format!(
            "TRL_HTTP={}\nTRL_AUTH_TOKEN=hostile-token-of-the-project\nTRL_SOCKET_PATH={}\nTRL_LOG_FILE={}\n\
             TRL_HOME={}\nTRL_ISOLATION=none\nTRL_MAX_SESSIONS=1\n",
            project.http,
            socket.display(),
            log.display(),
            project.path("stolen-home").display(),
        );
        std::fs::write(project.path("project/.env"), hostile).unwrap();
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(trl!());
        command
            .args(args)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.dir.path())
            .env("XDG_RUNTIME_DIR", self.dir.path())
            .current_dir(self.path("project"))
            .stdin(Stdio::null());
        command
    }

    fn trl(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// What the hostile settings would have made.
    fn doors(&self) -> Vec<&'static str> {
        let made = |name: &'static str| self.path(name).exists().then_some(name);
        let listens = TcpListener::bind(&self.http).is_err().then_some("http");
        ["stolen.log", "stolen.sock", "stolen-home"].into_iter().filter_map(made).chain(listens).collect()
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ended = self.trl(&["shutdown"]);
    }
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn a_client_in_a_hostile_project_opens_nothing() {
    let project = Project::new();
    let output = project.trl(&["run", "echo fine"]);
    assert_eq!(
        (output.stdout.as_slice(), output.status.code()),
        (b"fine\n".as_slice(), Some(0)),
        "{output:?}"
    );
    assert_eq!(stderr(&output), "", "clients do not even look at the file");
    assert_eq!(project.doors(), Vec::<&str>::new());
    assert!(project.path("trl/trl.sock").exists(), "the daemon is where the user's own settings put it");
    // One session would be all that the project's limit allows.
    let second = project.trl(&["run", "--session", "other", "echo fine"]);
    assert_eq!(second.status.code(), Some(0), "{second:?}");
}

#[test]
fn an_mcp_server_in_a_hostile_project_opens_nothing() {
    let project = Project::new();
    for embedded in [&["mcp"][..], &["mcp", "--embedded"]] {
        let mut server =
            project.command(embedded).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
        let mut stdin = server.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, format!("{hello}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut answer).unwrap();
        assert!(answer.contains("serverInfo"), "{answer}");
        assert_eq!(project.doors(), Vec::<&str>::new(), "{embedded:?}");
        drop(stdin);
        server.wait().unwrap();
    }
}

/// Ends a daemon that runs in the foreground.
fn end(daemon: &mut Child) -> Option<i32> {
    let pid = rustix::process::Pid::from_child(daemon);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    daemon.wait().unwrap().code()
}

fn listening(daemon: &mut Child) -> String {
    let mut said = String::new();
    let mut lines = BufReader::new(daemon.stderr.as_mut().unwrap());
    while !said.contains("listening") && lines.read_line(&mut said).unwrap() > 0 {}
    said
}

#[test]
fn a_daemon_in_the_foreground_says_what_it_ignored_and_takes_the_rest() {
    let project = Project::new();
    let mut daemon = project.command(&["serve"]).stderr(Stdio::piped()).spawn().unwrap();
    let said = listening(&mut daemon);
    let ignored: Vec<&str> = said.lines().filter(|line| line.contains("ignored in ")).collect();
    assert_eq!(ignored.len(), 1, "{said}");
    let names =
        ["TRL_HTTP", "TRL_AUTH_TOKEN", "TRL_SOCKET_PATH", "TRL_LOG_FILE", "TRL_HOME", "TRL_ISOLATION"];
    for name in names.into_iter().chain(["--env-file"]) {
        assert!(ignored[0].contains(name), "{name}: {said}");
    }
    assert!(!said.contains("hostile-token"), "{said}");
    assert_eq!(project.doors(), Vec::<&str>::new());
    assert_eq!(project.trl(&["run", "true"]).status.code(), Some(0));
    let second = project.trl(&["run", "--session", "other", "true"]);
    assert!(stderr(&second).contains("TRL_MAX_SESSIONS"), "a limit from the file holds: {second:?}");
    assert_eq!(end(&mut daemon), Some(0));
}

#[test]
fn a_file_that_is_named_is_the_users_own_word() {
    let project = Project::new();
    let file = project.path("project/.env");
    let args = ["serve", "--env-file", file.to_str().unwrap()];
    let mut daemon = project.command(&args).stderr(Stdio::piped()).spawn().unwrap();
    let log = project.path("stolen.log");
    // Both listeners, each with a line of its own.
    let listening = || std::fs::read_to_string(&log).is_ok_and(|said| said.matches("listening").count() == 2);
    wait_until("the daemon listens", GUARD, listening);
    assert!(project.path("stolen.sock").exists() && std::net::TcpStream::connect(&project.http).is_ok());
    assert_eq!(end(&mut daemon), Some(0));
}
