//! Limits of everything that a session starts.

use std::path::PathBuf;

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, GUARD, Shell, daemon, needs, trl, wait_until};

use super::outside::NOBODY;

/// Root has cgroups on most machines; where it has none, the refusal is the right answer.
pub(crate) fn has_groups(daemon: &Daemon) -> bool {
    let asked = json!({"limits": {"memory": "256M", "pids": 50, "cpu": 1.0}});
    match daemon.connect().call(m::SessionCreate::NAME, asked) {
        Ok(created) => {
            daemon
                .connect()
                .ok(m::SessionDestroy::NAME, json!({"session_id": created["session_id"], "force": true}));
            true
        }
        Err(fault) => {
            assert_eq!(fault["code"], "ISOLATION_UNAVAILABLE", "{fault}");
            needs::skip(&format!("{fault}"));
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
        let hogged =
            daemon.connect().ok(m::ExecRun::NAME, session.params(json!({"command": hog, "timeout_s": 60})));
        assert_ne!(hogged["stdout"], "300000000\n", "{isolation}");
        assert_eq!(hogged["limit"], "memory", "{isolation}: {hogged}");
        let told = session.exec_info(hogged["exec_id"].as_str().unwrap_or_default());
        assert_eq!(told["limit"], "memory", "{told}");
        let ran = daemon.connect().ok(m::ExecRun::NAME, session.params(json!({"command": "echo $x"})));
        assert_eq!((&ran["stdout"], &ran["limit"]), (&json!("kept\n"), &json!(null)), "{ran}");
        let forks = "for i in $(seq 100); do sleep 1000 & done >/dev/null 2>&1; :";
        let forked =
            daemon.connect().ok(m::ExecRun::NAME, session.params(json!({"command": forks, "timeout_s": 60})));
        assert_eq!(forked["limit"], "pids", "{isolation}: {forked}");
        let info = session.info();
        assert!(info["usage"]["cpu_s"].as_f64().is_some_and(|seconds| seconds > 0.0), "{info}");
        assert!(info["usage"]["throttled_s"].is_number(), "{info}");
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
            let ended_by = |command: &str| {
                let params = session.params(json!({"command": command, "timeout_s": 60}));
                let ran = daemon.connect().ok(m::ExecRun::NAME, params);
                assert!(ran["timed_out"] == false && ran["exit_code"] != 0, "{ran}");
                ran["limit"].clone()
            };
            assert_eq!(ended_by("sh -c 'exec head -c 2000000 /dev/zero > big'"), "file_size", "{isolation}");
            assert_eq!(ended_by("sh -c 'while :; do :; done'"), "cpu_time_s", "{isolation}");
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
    let fault = daemon.connect().call(m::SessionCreate::NAME, json!({"limits": {"disk": "1M"}})).unwrap_err();
    assert_eq!(fault["code"], "ISOLATION_UNAVAILABLE", "{fault}");
}

/// With groups or without, a session tells what it has used, and so do the daemon's own reports.
#[test]
fn usage_is_told() {
    for daemon in
        [Daemon::builder(trl!()).http().start(), Daemon::builder(trl!()).as_user(NOBODY).http().start()]
    {
        for isolation in ["none", "workspace"] {
            let mut session = daemon.session_with(Shell::Bash, json!({"isolation": isolation}));
            session.ok("head -c 3000000 /dev/zero > file; sleep 1000 & n=0; while [ $n -lt 20000 ]; do n=$((n+1)); done");
            let info = session.info();
            let usage = &info["usage"];
            let at_least = |field: &str, least: f64| {
                assert!(
                    usage[field].as_f64().is_some_and(|value| value >= least),
                    "{isolation} {field}: {info}"
                );
            };
            at_least("cpu_s", 0.001);
            at_least("memory_peak_bytes", 500_000.0);
            at_least("processes", 2.0);
            at_least("written_bytes", 3_000_000.0);
        }
        let stats = daemon.connect().ok(m::SystemStats::NAME, json!({}));
        assert!(stats["usage"]["processes"].as_u64().is_some_and(|count| count >= 4), "{stats}");
        if daemon.user() == rustix::process::geteuid().as_raw() {
            let top: serde_json::Value =
                serde_json::from_slice(&daemon.trl(&["top", "--json"]).stdout).unwrap();
            assert!(top["sessions"][0]["usage"]["cpu_s"].is_number(), "{top}");
        }
        let page = daemon.http().ask("GET", "/metrics", &[], b"").text();
        assert!(page.contains("trl_sessions_cpu_seconds "), "{page}");
    }
}

/// The kernel keeps groups that nobody removes.
#[test]
fn groups_go_with_their_session_however_it_ends() {
    let daemon = daemon!();
    if !has_groups(&daemon) {
        return;
    }
    for limits in [json!({}), json!({"memory": "256M", "pids": 50, "cpu": 1.0})] {
        for is_killed in [false, true] {
            let mut session = daemon.session_with(Shell::Bash, json!({"limits": limits}));
            session.ok("sleep 1000 & true");
            let groups = groups_of(session.host_pid());
            assert!(!groups.is_empty());
            if is_killed {
                session.kill_host();
            } else {
                session.destroy();
            }
            wait_until("the groups are gone", GUARD, || groups.iter().all(|group| !group.exists()));
        }
    }
}

/// Wherever a hierarchy is mounted, at any depth.
fn groups_of(host: i32) -> Vec<PathBuf> {
    let begins = format!("trl-session-{host}-");
    let (mut found, mut rest) = (Vec::new(), vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(dir) = rest.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&begins) {
                found.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                rest.push(entry.path());
            }
        }
    }
    found
}

/// How long it takes is a matter of the benchmark; that everybody is answered is not.
#[test]
fn others_are_answered_while_one_runs_wild() {
    let daemon = daemon!();
    if !has_groups(&daemon) {
        return;
    }
    let mut others: Vec<_> = (0..20).map(|_| daemon.session(Shell::Bash)).collect();
    for (wild, wants) in [
        ("bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1000", "pids"),
        ("while :; do head -c 300000000 /dev/zero | tail >/dev/null 2>&1; done", "memory"),
        ("for i in 1 2 3 4; do sh -c 'while :; do :; done' & done; sleep 1000", "processor"),
        ("while :; do cat /dev/zero > /tmp/full 2>/dev/null; done", "disk"),
    ] {
        let limits = json!({"pids": 60, "memory": "64M", "cpu": 0.3, "disk": "8M"});
        let mut session =
            daemon.session_with(Shell::Bash, json!({"isolation": "workspace", "limits": limits}));
        session.start(json!({"command": wild}));
        wait_until(wants, GUARD, || {
            let usage = session.info()["usage"].clone();
            match wants {
                "pids" => usage["processes"].as_u64().is_some_and(|count| count >= 50),
                // On a busy machine it may get less than its limit, and is not held back.
                "processor" => usage["cpu_s"].as_f64().is_some_and(|seconds| seconds > 0.1),
                _ => usage["memory_peak_bytes"].as_u64().is_some_and(|bytes| bytes > 8 << 20),
            }
        });
        for other in &mut others {
            other.run("echo here").exits(0).prints("here\n", "");
        }
        session.destroy();
    }
}

#[test]
fn limits_that_no_session_can_live_with_are_refused() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    for (field, value) in [
        ("memory", json!("1M")),
        ("pids", json!(3)),
        ("open_files", json!(31)),
        ("disk", json!("1K")),
        ("cpu", json!(0.0)),
        ("cpu_time_s", json!(-1.0)),
    ] {
        let params = json!({"isolation": "workspace", "limits": { field: value }});
        let fault = connection.call(m::SessionCreate::NAME, params).unwrap_err();
        assert_eq!(fault["code"], "INVALID_PARAMS", "{field}: {fault}");
        let named = format!("`limits.{field}`: a session needs at least");
        assert!(fault["message"].as_str().is_some_and(|text| text.contains(&named)), "{fault}");
    }
}
