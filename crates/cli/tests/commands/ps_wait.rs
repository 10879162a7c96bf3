//! `trl ps` and `trl wait`: what runs, and its end, as a person asks for them.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use serde_json::Value;
use trl_testkit::daemon;

#[test]
fn what_runs_is_listed_and_waited_for() {
    let daemon = daemon!();
    let out = |args: &[&str]| {
        let output = daemon.trl(args);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(out(&["ps"]).1, "");
    let (_, exec, _) = out(&["run", "--background", "echo ready; sleep 0.3; exit 5"]);
    assert!(exec.starts_with("e-"), "{exec}");
    let (status, table, _) = out(&["ps"]);
    assert_eq!(status, Some(0));
    assert!(table.contains(&exec) && table.contains("background") && table.contains("echo ready"), "{table}");
    assert_eq!(out(&["wait", &exec]).0, Some(5));
    assert_eq!(out(&["wait", &exec, "--log", "ready"]), (Some(0), "ready".to_owned(), String::new()));
    assert_eq!(out(&["wait", &exec, "--regex", "re.dy$"]).1, "ready");
    let (status, _, error) = out(&["wait", &exec, "--log", "never"]);
    assert_eq!(status, Some(1), "{error}");
    let (_, sleeping, _) = out(&["run", "-d", "sleep 1000"]);
    assert_eq!(out(&["wait", &sleeping, "--timeout", "0.05"]).0, Some(124));
    assert_eq!(out(&["ps", "-q"]).1, sleeping);
    let listed: Value = serde_json::from_str(&out(&["ps", "--all", "--json"]).1).unwrap();
    assert_eq!(listed["execs"].as_array().map(Vec::len), Some(2), "{listed}");
    assert_eq!(out(&["cancel", &sleeping]).0, Some(0));
    assert_eq!(out(&["wait", "e-00000000-1"]).0, Some(66));
}
