//! Limits of everything that a session starts.

#![expect(clippy::print_stdout, reason = "a test that cannot run says so")]

use serde_json::json;
use trl_testkit::{Daemon, Shell, daemon, trl};

use super::outside::NOBODY;

/// Root has cgroups on most machines; where it has none, the refusal is the right answer.
pub(crate) fn has_groups(daemon: &Daemon) -> bool {
    let asked = json!({"limits": {"memory": "256M", "pids": 50, "cpu": 1.0}});
    match daemon.connect().call("session.create", asked) {
        Ok(created) => {
            daemon
                .connect()
                .ok("session.destroy", json!({"session_id": created["session_id"], "force": true}));
            true
        }
        Err(fault) => {
            assert_eq!(fault["code"], "ISOLATION_UNAVAILABLE", "{fault}");
            println!("skipped: {fault}");
            false
        }
    }
}

#[test]
fn memory_and_processes_are_bounded_for_all_together() {
    let daemon = daemon!();
    if !has_groups(&daemon) {
        return;
    }
    for isolation in ["none", "workspace"] {
        let limits = json!({"memory": "64M", "pids": 40, "cpu": 0.5});
        let mut session = daemon.session_with(Shell::Bash, json!({"isolation": isolation, "limits": limits}));
        session.ok("x=kept");
        let hog = "head -c 300000000 /dev/zero | tail | wc -c";
        assert_ne!(
            session.run_with(json!({"command": hog, "timeout_s": 60})).stdout,
            "300000000\n",
            "{isolation}"
        );
        session.run("echo $x").exits(0).prints("kept\n", "");
        let forks = "for i in $(seq 100); do sleep 1000 & done >/dev/null 2>&1; :";
        session.run_with(json!({"command": forks, "timeout_s": 60}));
        let info = session.info();
        assert!(info["usage"]["processes"].as_u64().is_some_and(|count| count <= 40), "{info}");
        assert!(info["usage"]["memory_peak_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), "{info}");
        assert_eq!(info["limits"]["pids"], 40);
        session.destroy();
    }
}

#[test]
fn a_fork_bomb_within_its_limit_ends_with_its_session() {
    let daemon = daemon!();
    if !has_groups(&daemon) {
        return;
    }
    let mut session = daemon.session_with(Shell::Bash, json!({"limits": {"pids": 200}}));
    session.run_with(json!({"command": "bomb() { bomb | bomb & }; bomb 2>/dev/null; :", "timeout_s": 5}));
    session.destroy();
}

#[test]
fn each_process_is_bounded() {
    for daemon in [daemon!(), Daemon::builder(trl!()).as_user(NOBODY).start()] {
        for isolation in ["none", "strict"] {
            let limits = json!({"open_files": 64, "file_size": "1M", "cpu_time_s": 1});
            let mut session =
                daemon.session_with(Shell::Bash, json!({"isolation": isolation, "limits": limits}));
            session.run("ulimit -n; ulimit -f; ulimit -t").exits(0).prints("64\n1024\n1\n", "");
            assert_ne!(session.run("head -c 2000000 /dev/zero > big").exit_code, Some(0));
            let ran = session.run_with(json!({"command": "sh -c 'while :; do :; done'", "timeout_s": 60}));
            assert!(!ran.timed_out && ran.exit_code != Some(0), "{ran:?}");
        }
    }
}

#[test]
fn an_ordinary_users_cage_bounds_its_processes() {
    let daemon = Daemon::builder(trl!()).as_user(NOBODY).start();
    let mut session = daemon.session_with(
        Shell::Bash,
        json!({"isolation": {"profile": "workspace", "best_effort": true}, "limits": {"pids": 20}}),
    );
    let forks = "sh -c 'for i in $(seq 60); do sleep 1000 & done' >/dev/null 2>&1";
    session.run_with(json!({"command": forks, "timeout_s": 30}));
    let ran = session.run("set -- /proc/[0-9]*; echo $#");
    let count: u64 = ran.stdout.trim().parse().unwrap_or(0);
    assert!(count <= 24, "{ran:?}");
}

#[test]
fn private_directories_are_bounded() {
    let daemon = daemon!();
    let mut session =
        daemon.session_with(Shell::Bash, json!({"isolation": "workspace", "limits": {"disk": "1M"}}));
    assert_ne!(session.run("head -c 3000000 /dev/zero > /tmp/big").exit_code, Some(0));
    session.ok("rm /tmp/big; head -c 300000 /dev/zero > /tmp/small");
    let fault = daemon.connect().call("session.create", json!({"limits": {"disk": "1M"}})).unwrap_err();
    assert_eq!(fault["code"], "ISOLATION_UNAVAILABLE", "{fault}");
}
