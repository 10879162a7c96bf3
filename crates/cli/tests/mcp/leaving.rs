//! What an agent started ends with it, and nothing else does: whatever became of the daemon meanwhile.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what the tests share is test code too")]

use std::fs;

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, GUARD, daemon, process, wait_until};

use super::client::Mcp;

/// Starts a command in the background; its pid.
fn start(mcp: &mut Mcp, more: Value) -> i32 {
    let mut arguments =
        json!({"command": "echo $BASHPID; exec sleep 1000", "background": true, "wait_s": 0.3});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let shown = mcp.fields("run", arguments)["stdout"].clone();
    shown.as_str().unwrap().trim().parse().expect("a pid")
}

fn assert_ends(pids: &[i32]) {
    for pid in pids {
        assert!(process::ended_within(*pid, GUARD), "{pid} lives on");
    }
}

/// A client whose log says when it has bound everything again.
fn logging(daemon: &Daemon) -> (Mcp, std::path::PathBuf) {
    let log = daemon.temporary().join("mcp.log");
    let mut command = daemon.client();
    command.args(["mcp", "--structured"]).env("TRL_LOG", "trl_mcp=info").env("TRL_LOG_FILE", &log);
    let mut mcp = Mcp::start(command);
    mcp.hello("tester");
    (mcp, log)
}

#[test]
fn a_client_that_is_killed_after_its_daemon_leaves_nothing() {
    let mut daemon = daemon!();
    let (mut mcp, log) = logging(&daemon);
    let lost = [start(&mut mcp, json!({})), start(&mut mcp, json!({"session": "named"}))];
    let kept = start(&mut mcp, json!({"session": "named", "keep": true}));
    daemon.restart();
    // No call comes: it binds by itself.
    wait_until("the client is bound to the next daemon", GUARD, || {
        fs::read_to_string(&log).is_ok_and(|log| log.contains("bound to the next daemon"))
    });
    mcp.kill();
    assert_ends(&lost);
    assert!(process::alive(kept));
}

#[test]
fn a_client_that_leaves_right_after_its_daemon_was_replaced_leaves_nothing() {
    let mut daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let lost = [start(&mut mcp, json!({})), start(&mut mcp, json!({"session": "named"}))];
    let kept = start(&mut mcp, json!({"session": "named", "keep": true}));
    daemon.restart();
    mcp.close();
    assert_ends(&lost);
    assert!(process::alive(kept));
}

#[test]
fn a_client_that_leaves_while_there_is_no_daemon_leaves_nothing() {
    let mut daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let lost = [start(&mut mcp, json!({})), start(&mut mcp, json!({"session": "named"}))];
    daemon.kill9();
    mcp.close();
    assert_ends(&lost);
    daemon.trl(&["shutdown"]);
}

#[test]
fn only_what_is_to_be_kept_is_kept() {
    let daemon = daemon!();
    let mut mcp = Mcp::of(&daemon, &[]);
    let before = start(&mut mcp, json!({}));
    let kept = start(&mut mcp, json!({"keep": true}));
    let after = start(&mut mcp, json!({}));
    // One in the foreground, too.
    let front = mcp.fields("run", json!({"command": "echo $BASHPID; sleep 1002", "wait_s": 0.3}));
    assert_eq!(front["state"], "running");
    let also_kept = start(&mut mcp, json!({"keep": true}));
    mcp.close();
    assert_ends(&[before, after]);
    assert!(process::alive(kept) && process::alive(also_kept));
    wait_until("the end of the command in the foreground", GUARD, || {
        let listed = daemon.connect().ok(m::ExecList::NAME, json!({}));
        listed["execs"].as_array().unwrap().iter().filter(|exec| exec["state"] == "running").count() == 2
    });
}
