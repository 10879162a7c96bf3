//! Sessions with very many processes end whole, and in a time that grows with their number only linearly.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::{Shell, daemon, process, wait_until};

/// Children of one process, each in a session of its own, that end only by KILL if `stubborn`.
fn crowd(count: usize, stubborn: bool) -> String {
    let ignore = if stubborn { "signal.signal(signal.SIGTERM, signal.SIG_IGN)" } else { "pass" };
    format!(
        "python3 -c '
import os, signal
for _ in range({count}):
    if os.fork() == 0:
        os.setsid()
        {ignore}
        while True: signal.pause()
while True: signal.pause()
' >/dev/null 2>&1 & :"
    )
}

/// How much processor time a process has used, in seconds.
fn cpu_s(pid: i32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    fields.iter().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn ends(count: usize, stubborn: bool, force: bool) {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let host = session.host_pid();
    session.ok(&crowd(count, stubborn));
    wait_until("everybody is there", Duration::from_secs(120), || process::descendants(host).len() >= count);
    let crowd = process::descendants(host);
    let id = session.info()["session_id"].clone();
    let watch = std::thread::spawn(move || {
        let mut most = 0.0_f64;
        while process::alive(host) {
            most = most.max(cpu_s(host));
            std::thread::park_timeout(Duration::from_millis(5));
        }
        most
    });
    let before = Instant::now();
    daemon.connect().ok(m::SessionDestroy::NAME, json!({"session_id": id, "force": force}));
    let took = before.elapsed();
    let left = crowd.into_iter().filter(|&pid| process::alive(pid)).count();
    assert_eq!(left, 0, "outlived their session");
    let used = watch.join().unwrap_or(f64::MAX);
    assert!(used < 4.0, "the host used {used} s of processor time for {count} processes");
    assert!(took < Duration::from_secs(30), "{took:?}");
}

#[test]
fn a_crowd_that_heeds_its_signals_ends() {
    ends(3000, false, false);
}

#[test]
fn a_crowd_that_ignores_its_signals_ends() {
    ends(3000, true, false);
}

#[test]
fn a_crowd_is_ended_by_force() {
    ends(5000, false, true);
}

/// Each process has a child and ends at once, so that whoever was listed is gone.
#[test]
fn a_storm_that_never_stays_the_same_ends() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let host = session.host_pid();
    session.ok("python3 -c '
import os
for _ in range(60):
    if os.fork() == 0:
        while True:
            if os.fork(): os._exit(0)
' >/dev/null 2>&1 & :");
    wait_until("the storm blows", Duration::from_secs(60), || process::descendants(host).len() >= 50);
    session.destroy();
    assert!(!process::alive(host), "the host is gone");
}
