//! A command that is sent again under the same `run_id` runs once, whatever became of the daemon.

use std::collections::BTreeMap;
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::{Daemon, Dice, GUARD, Session, Shell, daemon, in_each_shell, process, trl, wait_until};

fn lines(session: &Session, file: &str) -> Vec<String> {
    std::fs::read_to_string(session.dir.join(file)).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn a_repetition_hears_what_the_first_did(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let params = json!({"command": "echo ran >> log; echo out; (exit 3)", "run_id": "one"});
    let first = session.run_with(params.clone()).exits(3).prints("out\n", "");
    let again = session.run_with(params.clone()).exits(3).prints("out\n", "");
    assert_eq!(first.exec_id, again.exec_id);
    let streamed = session.stream(params.clone());
    assert_eq!((streamed.output("stdout"), &streamed.data()["exit_code"]), (b"out\n".to_vec(), &json!(3)));
    let mut background = params.clone();
    background["background"] = json!(false);
    assert_eq!(session.start(background), first.exec_id);
    assert_eq!(lines(&session, "log"), ["ran"]);
    let message = session.refused(json!({"command": "true", "run_id": "one"}), "INVALID_PARAMS");
    assert!(message.contains(&first.exec_id), "{message}");
    assert_ne!(session.run_with(json!({"command": "true", "run_id": "two"})).exec_id, first.exec_id);
    session.refused(json!({"command": "true", "run_id": "x".repeat(300)}), "INVALID_PARAMS");
}

fn repetitions_of_a_running_command_are_all_answered(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let run = session.params(
        json!({"command": "echo ran >> log; while [ ! -e go ]; do sleep 0.02; done; echo done", "run_id": "r", "timeout_s": 0}),
    );
    let mut requests = vec![session.connection.begin(m::ExecRun::NAME, run.clone())];
    wait_until("it runs", GUARD, || lines(&session, "log").len() == 1);
    let mut other = daemon.connect();
    let elsewhere = other.begin(m::ExecRun::NAME, run.clone());
    requests.extend((0..3).map(|_| session.connection.begin(m::ExecRun::NAME, run.clone())));
    let streamed = session.connection.begin(m::ExecStream::NAME, run);
    std::fs::write(session.dir.join("go"), "").unwrap_or_default();
    for request in requests {
        assert_eq!(session.connection.finish(request).data()["stdout"], "done\n");
    }
    assert_eq!(other.finish(elsewhere).data()["stdout"], "done\n");
    assert_eq!(session.connection.finish(streamed).output("stdout"), b"done\n");
    assert_eq!(lines(&session, "log"), ["ran"]);
}

in_each_shell!(a_repetition_hears_what_the_first_did, repetitions_of_a_running_command_are_all_answered);

#[test]
fn without_a_session_it_runs_once_too() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    let (log, go) = (daemon.work().join("log"), daemon.work().join("go"));
    let command = format!(
        "echo ran >> {0}; while [ ! -e {1} ]; do sleep 0.02; done; echo out; seq 100",
        log.display(),
        go.display()
    );
    let params = json!({"command": command, "run_id": "once"});
    let mut soft = params.clone();
    soft["soft_timeout_s"] = json!(0.1);
    // At the same time, while it runs, and when it is over.
    let requests: Vec<_> = (0..3).map(|_| connection.begin(m::ExecRun::NAME, soft.clone())).collect();
    let firsts: Vec<_> = requests.into_iter().map(|request| connection.finish(request).data()).collect();
    assert!(firsts.iter().all(|first| first["still_running"] == true), "{firsts:?}");
    let request = connection.begin(m::ExecRun::NAME, params.clone());
    std::fs::write(go, "").unwrap_or_default();
    let second = connection.finish(request).data();
    let third = connection.ok(m::ExecRun::NAME, params.clone());
    let streamed = connection.stream(m::ExecStream::NAME, params.clone());
    for told in [&firsts[1], &firsts[2], &second, &third, &streamed.data()] {
        assert_eq!(told["exec_id"], firsts[0]["exec_id"], "{told}");
    }
    assert_eq!((&second["stdout"], &third["exit_code"]), (&third["stdout"], &json!(0)));
    assert_eq!(std::fs::read_to_string(log).unwrap_or_default(), "ran\n");
    let other = json!({"command": "true", "run_id": "once"});
    connection.fails(m::ExecRun::NAME, other, "INVALID_PARAMS");
    // The last few are kept, not all.
    for number in 0..20 {
        connection.ok(m::ExecRun::NAME, json!({"command": "true", "run_id": format!("r{number}")}));
    }
    let listed = connection.ok(m::SessionList::NAME, json!({}));
    assert_eq!(listed["sessions"].as_array().map(Vec::len), Some(16));
}

#[test]
fn a_command_that_is_refused_leaves_no_session_behind() {
    let daemon = daemon!();
    let mut connection = daemon.connect();
    for number in 0..3 {
        let params =
            json!({"command": "true", "run_id": format!("r{number}"), "working_dir": "/nonexistent/x"});
        connection.fails(m::ExecRun::NAME, params, "INVALID_PARAMS");
    }
    assert_eq!(connection.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
}

/// The daemon is killed at any moment of a request; the client sends it again until it is answered.
#[test]
fn never_twice_and_never_gone_whenever_the_daemon_dies() {
    let mut daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let mut dice = Dice::from_environment();
    let seed = dice.seed();
    for number in 0..60 {
        let run = session.params(
            json!({"command": format!("echo {number} >> log; echo {number}"), "run_id": format!("run-{number}"), "wait_s": 20}),
        );
        let request = session.connection.begin(m::ExecRun::NAME, run.clone());
        if number % 3 > 0 {
            let answer = session.connection.finish(request).data();
            assert_eq!(answer["stdout"], format!("{number}\n"));
            continue;
        }
        // From before the daemon has read it to after it has answered.
        std::thread::park_timeout(std::time::Duration::from_micros(dice.roll(1500) as u64));
        daemon.restart();
        session.connection = daemon.connect();
        let answer = session.connection.ok(m::ExecRun::NAME, run);
        assert_eq!(answer["stdout"], format!("{number}\n"), "TESTKIT_SEED={seed}");
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines(&session, "log") {
        *counts.entry(line).or_default() += 1;
    }
    assert_eq!(counts.len(), 60, "TESTKIT_SEED={seed}: none is gone");
    assert!(counts.values().all(|count| *count == 1), "TESTKIT_SEED={seed}: {counts:?}");
}

/// `trl run` and a daemon that dies before it has said a word: the user notices nothing.
#[test]
fn the_command_line_sends_it_again_by_itself() {
    let daemon = Daemon::builder(trl!()).prepare();
    let begun = daemon.trl(&["run", "-s", "s", "true"]);
    assert!(begun.status.success(), "{begun:?}");
    for number in 0..8 {
        let mut command = daemon.client();
        command.args(["run", "-s", "s", &format!("echo {number} >> log; sleep 0.05; echo {number}")]);
        let pid = daemon.connect().ok(m::SystemInfo::NAME, json!({}))["pid"].as_i64().unwrap_or_default();
        let running = std::thread::spawn(move || command.output());
        // From before the client has connected to while the command runs.
        std::thread::park_timeout(std::time::Duration::from_millis(4 * number));
        process::signal(pid as i32, process::Signal::KILL);
        let output = running.join().expect("a thread").expect("trl run ends");
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{number}\n"), "{output:?}");
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
    let log = std::fs::read_to_string(daemon.work().join("log")).unwrap_or_default();
    assert_eq!(log, "0\n1\n2\n3\n4\n5\n6\n7\n");
    let ended = daemon.trl(&["shutdown"]);
    assert!(ended.status.success(), "{ended:?}");
    wait_until("everything has ended", GUARD, || daemon.processes().is_empty());
}
