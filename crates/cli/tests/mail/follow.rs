//! `trl inbox --follow`: a line for each message, once, whatever becomes of the daemon.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Connection, Daemon, GUARD, daemon, process, wait_until};

/// One that follows, in a terminal of its own.
struct Follower {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Follower {
    fn new(daemon: &Daemon, args: &[&str], env: &[(&str, &str)]) -> Follower {
        let client = daemon.client();
        let mut command = Command::new("setsid");
        command.arg(client.get_program()).args(["inbox", "--follow"]).args(args).env_clear();
        command.envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.envs(env.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Follower { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _waited = self.child.wait();
    }
}

fn ann_writes(daemon: &Daemon) -> Connection {
    let mut ann = daemon.connect();
    ann.ok(m::AgentUse::NAME, json!({"agent": "ann", "harness_session_id": "desk"}));
    ann
}

fn sent(ann: &mut Connection, text: &str) -> String {
    let sent = ann.ok(m::MailSend::NAME, json!({"to": "bob", "text": text}));
    sent["message_id"].as_str().unwrap().to_owned()
}

fn with_agents() -> Daemon {
    let daemon = daemon!();
    for name in ["ann", "bob"] {
        daemon.connect().ok(m::AgentCreate::NAME, json!({ "name": name }));
    }
    daemon
}

#[test]
fn a_line_for_each_message_also_across_killed_daemons() {
    let mut daemon = with_agents();
    let first = sent(&mut ann_writes(&daemon), "a secret");
    let mut follower = Follower::new(&daemon, &["--as", "bob"], &[]);
    assert_eq!(follower.line(), format!("1 new message from ann/claude:1: {first}"));
    for round in 0..3 {
        daemon.kill9();
        daemon.restart();
        let id = sent(&mut ann_writes(&daemon), &format!("secret {round}"));
        // The next line is the next message: nothing is told again, and nothing of what it says.
        assert_eq!(follower.line(), format!("1 new message from ann/claude:1: {id}"));
    }
    let unread = daemon.connect().ok(m::AgentList::NAME, json!({}));
    assert_eq!(unread["agents"][1]["live_sessions"], json!(["cli:1"]), "{unread}");
}

#[test]
fn as_json_and_until_nobody_reads() {
    let daemon = with_agents();
    let mut follower = Follower::new(&daemon, &["--as", "bob", "--json"], &[]);
    let id = sent(&mut ann_writes(&daemon), "a secret");
    let line: Value = serde_json::from_str(&follower.line()).unwrap();
    assert_eq!(line, json!({"message_id": id, "from": "ann", "from_session": "claude:1"}));
    let pid = follower.child.id() as i32;
    // As `… | head -1` does.
    drop(std::mem::replace(&mut follower.lines, BufReader::new(empty())));
    wait_until("its end", GUARD, || follower.child.try_wait().unwrap().is_some());
    assert!(!process::alive(pid));
}

/// The stdout of a program that prints nothing.
fn empty() -> ChildStdout {
    let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
    child.wait().unwrap();
    child.stdout.take().unwrap()
}

#[test]
fn inside_a_harness_it_follows_the_session_of_the_harness() {
    let daemon = with_agents();
    let mut bob = daemon.connect();
    bob.ok(m::AgentUse::NAME, json!({"agent": "bob", "harness_session_id": "the-harness"}));
    let mut follower = Follower::new(&daemon, &[], &[("CLAUDE_CODE_SESSION_ID", "the-harness")]);
    let id = sent(&mut ann_writes(&daemon), "x");
    assert_eq!(follower.line(), format!("1 new message from ann/claude:1: {id}"));
    // And has announced it: nobody else wakes the session for it.
    wait_until("it counts as announced", GUARD, || {
        bob.ok(m::MailNotices::NAME, json!({}))["new"] == json!([])
    });
}
