//! `trl swerex` is a client of the daemon like any other: its files are those of a session, and what it has made ends
//! with it. SWE-ReX's own client is tried in `crates/swerex/tests/client.py`.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, GUARD, Http, HttpAnswer, daemon, process, trl, wait_until};

const TOKEN: &str = "token-of-swerex";

struct Server {
    child: Child,
    http: Http,
}

impl Server {
    fn start(daemon: &Daemon) -> Server {
        let mut command = daemon.client();
        command.args(["swerex", "--host", "127.0.0.1", "--port", "0", "--auth-token", TOKEN]);
        let mut child = command.current_dir(daemon.work()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let address = said.trim().rsplit("http://").next().unwrap().parse().unwrap();
        Server { child, http: Http { address, token: String::new() } }
    }

    fn post(&self, path: &str, kind: &str, body: &[u8]) -> HttpAnswer {
        self.http.ask_bare("POST", path, &[("X-API-Key", TOKEN), ("Content-Type", kind)], body)
    }

    fn ask(&self, path: &str, body: Value) -> HttpAnswer {
        self.post(path, "application/json", body.to_string().as_bytes())
    }

    #[track_caller]
    fn ok(&self, path: &str, body: Value) -> Value {
        let answer = self.ask(path, body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    #[track_caller]
    fn fails(&self, path: &str, body: Value) -> String {
        let answer = self.ask(path, body);
        assert_eq!(answer.status, 511, "{}", answer.text());
        answer.json()["swerexception"]["class_path"].as_str().unwrap().to_owned()
    }

    fn kill9(&mut self) {
        process::signal(self.child.id() as i32, process::Signal::KILL);
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        process::signal(self.child.id() as i32, process::Signal::TERM);
        let _ended = self.child.wait();
    }
}

fn sessions(daemon: &Daemon) -> usize {
    daemon.connect().ok(m::SessionList::NAME, json!({}))["sessions"].as_array().unwrap().len()
}

#[test]
fn files_are_those_of_an_isolated_session() {
    let daemon = Daemon::builder(trl!()).env("TRL_ISOLATION", "strict").start();
    let server = Server::start(&daemon);
    let outside = daemon.user_home().join("outside");
    fs::write(&outside, "secret").unwrap();
    for path in ["/etc/shadow", outside.to_str().unwrap()] {
        assert_eq!(server.fails("/read_file", json!({"path": path})), "builtins.FileNotFoundError");
    }
    // The home directory inside is another.
    server.ok("/write_file", json!({"path": outside, "content": "changed"}));
    assert_eq!(fs::read_to_string(&outside).unwrap(), "secret");
    // The workspace is that of the outside, whatever the size.
    let large = "0123456789abcde\n".repeat(300_000);
    server.ok("/write_file", json!({"path": "deep/er/file", "content": large}));
    assert_eq!(fs::read_to_string(daemon.work().join("deep/er/file")).unwrap(), large);
    assert_eq!(server.ok("/read_file", json!({"path": "deep/er/file"}))["content"], large);
    assert_eq!(server.fails("/read_file", json!({"path": "deep"})), "builtins.IsADirectoryError");
    let body = format!(
        "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n{large}\r\n--x\r\n\
         Content-Disposition: form-data; name=\"target_path\"\r\n\r\ndeep\r\n--x--\r\n"
    );
    let uploaded = server.post("/upload", "multipart/form-data; boundary=x", body.as_bytes());
    assert_eq!(uploaded.status, 200, "{}", uploaded.text());
    assert_eq!(fs::read_to_string(daemon.work().join("deep/f")).unwrap(), large);
}

#[test]
fn sessions_end_with_a_server_that_is_killed() {
    let mut daemon = daemon!();
    for replaced in [false, true] {
        let mut server = Server::start(&daemon);
        server.ok("/create_session", json!({"session": "a"}));
        server.ok("/execute", json!({"command": ["true"]}));
        assert_eq!(sessions(&daemon), 2);
        if replaced {
            daemon.restart();
            server.ok("/run_in_session", json!({"session": "a", "command": "echo x", "check": "silent"}));
            assert_eq!(sessions(&daemon), 2);
        }
        server.kill9();
        wait_until("the sessions have ended", GUARD, || sessions(&daemon) == 0);
    }
}

#[test]
fn a_command_whose_turn_does_not_come_is_a_timeout() {
    let daemon = daemon!();
    let server = Server::start(&daemon);
    server.ok("/create_session", json!({}));
    let run = |command: &str, timeout: f64| {
        server.fails("/run_in_session", json!({"command": command, "timeout": timeout, "check": "silent"}))
    };
    assert_eq!(run("sleep 1000", 0.3), "swerex.exceptions.CommandTimeoutError");
    // The wait for it and its own time end at the same moment.
    for _ in 0..10 {
        assert_eq!(run("echo x", 0.1), "swerex.exceptions.CommandTimeoutError");
    }
    server.ok("/run_in_session", json!({"action_type": "bash_interrupt"}));
    let ran = server.ok("/run_in_session", json!({"command": "echo free", "timeout": 20, "check": "silent"}));
    assert_eq!(ran["output"], "free\n");
}
