//! Surroundings that nobody promised: odd limits, closed descriptors, long paths, hosts that stop.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::process::Signal;
use trl_testkit::{Daemon, GUARD, Shell, daemon, in_each_shell, numbers, process, trl, wait_until};

/// A daemon that a shell starts after it has done this.
#[track_caller]
fn after(preparation: &str) -> Daemon {
    let script = format!("{preparation}; exec \"$0\" \"$@\"");
    Daemon::builder(trl!()).launched_by(&["bash", "-c", &script]).start()
}

fn everything_works_after(shell: Shell) {
    for preparation in [
        "exec <&- >&- 2>&-",
        "exec <&-",
        "umask 0",
        "umask 0777",
        "cd /; unset PATH HOME LANG TMPDIR PWD OLDPWD SHLVL _",
        "mkdir gone; cd gone; rmdir ../gone",
        "export HOME=/nonexistent TMPDIR=/nonexistent SHELL=/nonexistent TERM=",
        "ulimit -s 512; ulimit -c unlimited",
        "for fd in 5 6 7 8 9 30; do eval \"exec $fd>/dev/null\"; done",
        "trap '' HUP PIPE USR1",
        "export LC_ALL=POSIX BASH_ENV=/nonexistent ENV=/nonexistent POSIXLY_CORRECT=1 PS1=x PROMPT_COMMAND=false IFS=x CDPATH=/",
    ] {
        let daemon = after(preparation);
        let mut session = daemon.session_with(shell, json!({"env": {"PATH": "/usr/bin:/bin"}}));
        session.ok("umask 022");
        session.put_state();
        session.keeps_state();
        let ran = session.run_with(json!({"command": "echo part; sleep 30", "timeout_s": 0.2}));
        assert!(ran.timed_out && ran.stdout == "part\n", "{preparation}: {ran:?}");
        session.run("kill -9 $$").exits(137);
        session.has_state_back();
        session.survives();
        for entry in fs::read_dir(daemon.home()).into_iter().flatten().flatten() {
            let mode = entry.metadata().map(|meta| meta.permissions().mode() & 0o777).unwrap_or_default();
            assert_eq!(mode, 0o700, "{preparation}: {}", entry.path().display());
        }
    }
}

fn a_host_that_stops_holds_up_nobody_else(shell: Shell) {
    let daemon = daemon!();
    let mut stopped = daemon.session(shell);
    let mut other = daemon.session(shell);
    stopped.put_state();
    let host = stopped.host_pid();
    process::signal(host, Signal::STOP);
    let params = stopped.params(json!({"command": "echo late", "wait_s": 60}));
    let waiting = stopped.connection.begin(m::ExecRun::NAME, params);
    other.survives();
    let mut third = daemon.connect();
    assert_eq!(third.ok(m::SystemStats::NAME, json!({}))["active_sessions"], 2);
    let asked = std::time::Instant::now();
    for _ in 0..5 {
        let list = third.ok(m::SessionList::NAME, json!({}));
        let rows = list["sessions"].as_array().cloned().unwrap_or_default();
        let silent = |row: &&serde_json::Value| row["unresponsive"] == true;
        assert_eq!(rows.iter().filter(silent).count(), 1, "{list}");
    }
    // Far less than a host that is only slow is waited for, even on a loaded machine.
    assert!(asked.elapsed() < std::time::Duration::from_secs(1), "{:?}", asked.elapsed());
    assert_eq!(third.ok(m::SessionList::NAME, json!({}))["sessions"].as_array().map(Vec::len), Some(2));
    daemon.session(shell).destroy();
    process::signal(host, Signal::CONT);
    assert_eq!(stopped.connection.finish(waiting).data()["stdout"], "late\n");
    stopped.keeps_state();
}

fn a_host_that_is_stopped_when_a_daemon_starts_is_reached_later(shell: Shell) {
    let mut daemon = daemon!();
    let mut stopped = daemon.session_with(shell, json!({"name": "stopped"}));
    let mut other = daemon.session(shell);
    stopped.put_state();
    other.put_state();
    let (host, before) = (stopped.host_pid(), stopped.info());
    process::signal(host, Signal::STOP);
    daemon.restart();
    other.connection = daemon.connect();
    other.keeps_state();
    let list = other.connection.ok(m::SessionList::NAME, json!({}));
    let rows = list["sessions"].as_array().cloned().unwrap_or_default();
    let row = rows.into_iter().find(|row| row["name"] == "stopped").unwrap_or_default();
    assert_eq!(row["unresponsive"], true, "{row}");
    for same in ["session_id", "working_dir", "env_keys", "created_at", "pid", "host_pid", "shell"] {
        assert_eq!(row[same], before[same], "{same}");
    }
    stopped.connection = daemon.connect();
    let params = stopped.params(json!({"command": "echo late", "wait_s": 60}));
    let waiting = stopped.connection.begin(m::ExecRun::NAME, params);
    other.survives();
    process::signal(host, Signal::CONT);
    assert_eq!(stopped.connection.finish(waiting).data()["stdout"], "late\n");
    stopped.keeps_state();
    assert_eq!(stopped.info()["unresponsive"], json!(null));
    assert_eq!(stopped.host_pid(), host);
}

fn a_stopped_host_that_is_killed_before_it_answers_is_lost(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    // Its state is on disk when the shell has told it; that is before the next command runs.
    session.ok(":");
    let host = session.host_pid();
    process::signal(host, Signal::STOP);
    daemon.restart();
    session.connection = daemon.connect();
    let params = session.params(json!({"command": "echo never"}));
    let waiting = session.connection.begin(m::ExecRun::NAME, params);
    process::signal(host, Signal::KILL);
    session.connection.finish(waiting).failed("SESSION_TERMINATED");
    let params = session.params(json!({}));
    session.connection.ok(m::SessionRestart::NAME, params);
    session.run("true").exits(0).tells_of_the_shell();
    session.has_state_back();
}

fn a_stopped_daemon_goes_on_where_it_was(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let (request, exec_id) =
        session.stream_until(json!({"command": "echo up; sleep 0.2; echo down; touch done"}), "up\n");
    process::signal(daemon.pid(), Signal::STOP);
    wait_until("the command goes on", GUARD, || process::exists(daemon.work().join("kept/done")));
    process::signal(daemon.pid(), Signal::CONT);
    let answer = session.connection.finish(request);
    assert_eq!(answer.output_from("stdout", 3), b"down\n");
    assert_eq!(session.output_of(&exec_id, "stdout"), b"up\ndown\n");
    session.keeps_state();
}

fn a_stopped_host_can_be_ended(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("sleep 1000 &");
    let (host, pid) = (session.host_pid(), session.pid());
    process::signal(host, Signal::STOP);
    let params = session.params(json!({"force": true}));
    session.connection.ok(m::SessionDestroy::NAME, params);
    process::assert_ends("a stopped host", host);
    process::assert_ends("its shell", pid);
    wait_until("nothing is left of it", GUARD, || daemon.processes() == [daemon.pid()]);
}

fn a_host_that_is_told_to_end_takes_its_session_along(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("sleep 1000 & (setsid sleep 1000 &)");
    let host = session.host_pid();
    let everyone = process::descendants(host);
    process::signal(host, Signal::TERM);
    process::assert_ends("the host", host);
    for pid in everyone {
        process::assert_ends("a process of its session", pid);
    }
    wait_until("the session is gone or lost", GUARD, || {
        let list = session.connection.ok(m::SessionList::NAME, json!({}));
        list["sessions"].as_array().is_some_and(|rows| rows.iter().all(|row| row["state"] == "lost"))
    });
}

in_each_shell!(
    everything_works_after,
    a_host_that_stops_holds_up_nobody_else,
    a_host_that_is_stopped_when_a_daemon_starts_is_reached_later,
    a_stopped_host_that_is_killed_before_it_answers_is_lost,
    a_stopped_daemon_goes_on_where_it_was,
    a_stopped_host_can_be_ended,
    a_host_that_is_told_to_end_takes_its_session_along,
);

#[test]
fn a_limit_on_file_sizes_costs_only_kept_output() {
    const LIMIT: u64 = 256 * 1024;
    const WRITTEN: u64 = 4 * 1024 * 1024;
    let daemon = after(&format!("ulimit -f {}", LIMIT / 1024));
    let mut session = daemon.session(Shell::Bash);
    session.put_state();
    let ran = session.run(&numbers::command(WRITTEN)).exits(0);
    assert_eq!(ran.stdout_bytes, WRITTEN);
    // As much as the limit leaves room for, however large the pieces were that came.
    let mut kept = Vec::new();
    let next = loop {
        let params =
            json!({"exec_id": ran.exec_id, "stream": "stdout", "offset": kept.len(), "encoding": "base64"});
        let range = session.connection.ok(m::ExecOutput::NAME, params);
        if range["offset"] != json!(kept.len()) {
            break range;
        }
        kept.extend(trl_testkit::event_bytes(&range));
    };
    assert!(kept.len() as u64 >= LIMIT, "only {} bytes are kept", kept.len());
    numbers::assert_at(0, &kept);
    assert_eq!(next["offset"], WRITTEN, "{next}");
    let dropped = &session.exec_info(&ran.exec_id)["stdout_dropped_bytes"];
    assert_eq!(*dropped, json!(WRITTEN - kept.len() as u64));
    session.keeps_state();
    session.survives();
}

#[test]
fn too_few_descriptors_are_told_and_survived() {
    let daemon = after("ulimit -n 40");
    let mut connection = daemon.connect();
    let mut ids = Vec::new();
    let error = loop {
        match connection.call(m::SessionCreate::NAME, json!({"shell": "sh"})) {
            Ok(created) => ids.push(created["session_id"].clone()),
            Err(error) => break error,
        }
        assert!(ids.len() < 64, "forty descriptors cannot serve so many sessions");
    };
    assert!(
        ["RESOURCE_PRESSURE", "INTERNAL_ERROR"].contains(&error["code"].as_str().unwrap_or_default()),
        "{error}"
    );
    for id in &ids {
        let ran = connection.ok(m::ExecRun::NAME, json!({"session_id": id, "command": "echo ok"}));
        assert_eq!(ran["stdout"], "ok\n");
    }
    connection.ok(m::SessionDestroy::NAME, json!({"session_id": ids.pop()}));
    connection.ok(m::SessionDestroy::NAME, json!({"session_id": ids.pop()}));
    let created = connection.ok(m::SessionCreate::NAME, json!({"shell": "sh"}));
    let ran =
        connection.ok(m::ExecRun::NAME, json!({"session_id": created["session_id"], "command": "echo ok"}));
    assert_eq!(ran["stdout"], "ok\n");
}

#[test]
fn a_daemon_takes_the_descriptors_it_may_have_and_its_sessions_the_usual() {
    let daemon = after("ulimit -Sn 48");
    let mut sessions: Vec<_> = (0..20).map(|_| daemon.session(Shell::Sh)).collect();
    for session in &mut sessions {
        assert_eq!(session.ok("ulimit -Sn; ulimit -Hn | grep -v '^48$' | wc -l"), "48\n1\n");
    }
}

#[test]
fn a_crowd_beyond_the_descriptors_does_not_stop_the_daemon() {
    let daemon = after("ulimit -n 48");
    let mut session = daemon.session(Shell::Bash);
    let crowd: Vec<_> =
        (0..100).map_while(|_| trl_testkit::Connection::open(&daemon.socket()).ok()).collect();
    session.survives();
    drop(crowd);
    wait_until("new clients are served again", GUARD, || {
        let mut connection = daemon.connect();
        connection.begin(m::SystemPing::NAME, json!({}));
        connection.next_line().is_some()
    });
    session.survives();
}

#[test]
fn homes_with_long_or_odd_names_work_or_are_refused_clearly() {
    let daemon = Daemon::builder(trl!()).prepare();
    for name in ["with space", "quo'te\"s", "uml\u{e4}ut", "$(touch hit)", "new\nline", &"long".repeat(30)] {
        let home = daemon.work().join(name);
        let home = home.display().to_string();
        let output = daemon.trl(&[
            "--home",
            &home,
            "--socket",
            &daemon.socket().display().to_string(),
            "run",
            "-s",
            "x",
            "echo hi",
        ]);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.success() {
            assert_eq!(out, "hi\n", "{name:?}: {err}");
        } else {
            assert!(err.contains("long"), "{name:?}: {err}");
        }
        let _daemon_may_not_run = daemon.trl(&["--home", &home, "--no-start", "shutdown"]);
        wait_until("everything has ended", GUARD, || daemon.processes().is_empty());
    }
    assert!(!process::exists(daemon.work().join("hit")));
}
