//! A daemon may die at any moment: sessions and their commands go on, and the next daemon takes them over.

use std::time::Duration;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, GUARD, Session, Shell, daemon, in_each_shell, process, wait_until};

/// Kills the daemon, starts the next one and gives the session a new connection.
#[track_caller]
fn crash(daemon: &mut Daemon, session: &mut Session) {
    daemon.kill9();
    daemon.restart();
    session.connection = daemon.connect();
}

fn an_idle_session_is_adopted_as_it_was(shell: Shell) {
    let mut daemon = daemon!();
    let mut session =
        daemon.session_with(shell, json!({"name": "here", "env": {"KEY": "v"}, "timeout_s": 33}));
    session.put_state();
    let before = session.info();
    for _ in 0..3 {
        crash(&mut daemon, &mut session);
        let after = session.info();
        for same in [
            "session_id",
            "name",
            "shell",
            "working_dir",
            "state",
            "created_at",
            "pid",
            "host_pid",
            "restarts",
            "timeout_s",
            "command_count",
            "env_keys",
            "idle_timeout_s",
        ] {
            assert_eq!(after[same], before[same], "{same}");
        }
    }
    session.keeps_state();
    session.connection.fails(m::SessionCreate::NAME, json!({"name": "here"}), "NAME_TAKEN");
    assert_eq!(
        session.connection.ok(m::SessionList::NAME, json!({}))["sessions"].as_array().map(Vec::len),
        Some(1)
    );
}

fn a_running_command_goes_on(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let pid = session.pid();
    let command = "echo before; read line; echo \"after $line\"; plain='a  b'; (exit 7)";
    let (_, exec_id) =
        session.stream_until(json!({"command": command, "stdin_open": true, "timeout_s": 0}), "before\n");
    daemon.kill9();
    assert!(process::alive(pid));
    daemon.restart();
    session.connection = daemon.connect();
    assert_eq!(
        (session.pid(), &session.info()["state"], &session.info()["running"]),
        (pid, &json!("running"), &json!(exec_id))
    );
    let info = session.exec_info(&exec_id);
    assert_eq!((&info["state"], &info["command"]), (&json!("running"), &json!(command)), "{info}");
    session.refused(json!({"command": "true"}), "SESSION_BUSY");
    let watch =
        session.connection.begin(m::ExecAttach::NAME, json!({"exec_id": exec_id, "stdout_offset": 7}));
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "crash\n", "eof": true}));
    let answer = session.connection.finish(watch);
    assert_eq!(answer.output_from("stdout", 7), b"after crash\n", "no gap, no repeat");
    assert_eq!(answer.data()["exit_code"], 7);
    assert_eq!(session.output_of(&exec_id, "stdout"), b"before\nafter crash\n");
    session.keeps_state();
}

fn a_command_that_ends_without_a_daemon_is_not_lost(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    let (_, exec_id) = session.stream_until(
        json!({"command": "echo up; sleep 0.3; echo end; echo err >&2; touch done; (exit 5)"}),
        "up\n",
    );
    daemon.kill9();
    wait_until("the command ends by itself", GUARD, || process::exists(daemon.work().join("done")));
    daemon.restart();
    session.connection = daemon.connect();
    let answer = session.attach(&exec_id);
    assert_eq!(
        (answer.output("stdout"), answer.output("stderr")),
        (b"up\nend\n".to_vec(), b"err\n".to_vec())
    );
    let info = session.exec_info(&exec_id);
    assert_eq!(
        (&answer.data()["exit_code"], &info["exit_code"], &info["state"]),
        (&json!(5), &json!(5), &json!("finished"))
    );
    session.survives();
}

fn a_deadline_holds_without_a_daemon(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let pid = session.pid();
    let (_, exec_id) =
        session.stream_until(json!({"command": "echo up; sleep 1000; touch hit", "timeout_s": 0.6}), "up\n");
    let mut sleeper = Vec::new();
    wait_until("the program has begun", GUARD, || {
        sleeper = process::descendants(pid);
        !sleeper.is_empty()
    });
    daemon.kill9();
    for pid in sleeper {
        process::assert_ends("a command past its deadline", pid);
    }
    daemon.restart();
    session.connection = daemon.connect();
    let data = session.attach(&exec_id).data();
    assert_eq!(data["timed_out"], true, "{data}");
    session.keeps_state();
    assert_eq!(session.pid(), pid);
    assert!(!process::exists(daemon.work().join("kept/hit")));
}

fn the_queue_and_background_commands_go_on(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    let beside = session.start(json!({"command": "read line; echo \"beside $line\""}));
    let (_, held) = session
        .stream_until(json!({"command": "echo up; read line", "stdin_open": true, "timeout_s": 0}), "up\n");
    let queued: Vec<String> = (0..3)
        .map(|number| {
            session.start(json!({"command": format!("echo {number}"), "background": false, "wait_s": 60}))
        })
        .collect();
    crash(&mut daemon, &mut session);
    assert_eq!(session.info()["queued"], 3);
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": held, "data": "go\n", "eof": true}));
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": beside, "data": "go\n", "eof": true}));
    for (number, exec_id) in queued.iter().enumerate() {
        assert_eq!(session.attach(exec_id).output("stdout"), format!("{number}\n").as_bytes());
    }
    assert_eq!(session.attach(&beside).output("stdout"), b"beside go\n");
    session.survives();
}

fn a_repeated_write_counts_once_across_daemons(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = session.start(json!({"command": "cat"}));
    let write = json!({"exec_id": exec_id, "data": "once\n", "write_id": "w"});
    session.connection.ok(m::ExecWrite::NAME, write.clone());
    crash(&mut daemon, &mut session);
    assert_eq!(session.connection.ok(m::ExecWrite::NAME, write)["duplicate"], true);
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "eof": true}));
    assert_eq!(session.attach(&exec_id).output("stdout"), b"once\n");
}

fn a_shell_that_dies_without_a_daemon_is_replaced(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    // What a command changed is written down after its reply, at the latest before the next one.
    session.ok(":");
    let pid = session.pid();
    daemon.kill9();
    process::signal(pid, process::Signal::KILL);
    process::assert_ends("the shell", pid);
    daemon.restart();
    session.connection = daemon.connect();
    session.run("true").exits(0).tells_of_the_shell();
    session.has_state_back();
    session.survives();
}

fn hosts_that_died_with_their_daemon_are_cleared_away(shell: Shell) {
    let mut daemon = daemon!();
    let mut lost = daemon.session_with(shell, json!({"name": "lost"}));
    lost.ok("echo kept somewhere");
    let mut living = daemon.session(shell);
    living.put_state();
    let (host, pid) = (lost.host_pid(), lost.pid());
    daemon.kill9();
    process::signal(host, process::Signal::KILL);
    process::assert_ends("the host", host);
    process::assert_ends("its shell", pid);
    daemon.restart();
    living.connection = daemon.connect();
    living.keeps_state();
    let list = living.connection.ok(m::SessionList::NAME, json!({}));
    let rows = list["sessions"].as_array().cloned().unwrap_or_default();
    assert!(
        rows.iter().all(|row| row["session_id"] == living.id.as_str() || row["state"] == "lost"),
        "{list}"
    );
    let error = living
        .connection
        .call(m::ExecRun::NAME, json!({"session_id": lost.id, "command": "true"}))
        .err()
        .unwrap_or_default();
    let code = error["code"].as_str().unwrap_or_default();
    assert!(["SESSION_NOT_FOUND", "SESSION_TERMINATED"].contains(&code), "{error}");
    let left = daemon.leftovers().endpoints;
    assert!(left.iter().all(|path| !path.display().to_string().contains(&lost.id)), "{left:?}");
    living.connection.ok(m::SessionCreate::NAME, json!({"name": "lost", "shell": shell.name()}));
}

in_each_shell!(
    an_idle_session_is_adopted_as_it_was,
    a_running_command_goes_on,
    a_command_that_ends_without_a_daemon_is_not_lost,
    a_deadline_holds_without_a_daemon,
    the_queue_and_background_commands_go_on,
    a_repeated_write_counts_once_across_daemons,
    a_shell_that_dies_without_a_daemon_is_replaced,
    hosts_that_died_with_their_daemon_are_cleared_away,
);

#[test]
fn output_across_a_crash_has_no_gap_and_no_repeat() {
    let mut daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.connection.set_guard(Duration::from_secs(60));
    let command = "for ((i=0; i<200000; i++)); do echo $i; done";
    let params = session.params(json!({"command": command, "timeout_s": 0, "encoding": "base64"}));
    let mut request = session.connection.begin(m::ExecStream::NAME, params);
    let exec_id = session.connection.event(request).data["exec_id"].clone();
    let mut bytes: Vec<u8> = Vec::new();
    for _ in 0..3 {
        let goal = bytes.len() + 100_000;
        while bytes.len() < goal {
            let event = session.connection.event(request);
            if event.name == "stdout" {
                assert_eq!(event.data["offset"], bytes.len());
                bytes.extend(trl_testkit::event_bytes(&event.data));
            }
        }
        crash(&mut daemon, &mut session);
        session.connection.set_guard(Duration::from_secs(60));
        let params = json!({"exec_id": exec_id, "stdout_offset": bytes.len(), "encoding": "base64"});
        request = session.connection.begin(m::ExecAttach::NAME, params);
    }
    let answer = session.connection.finish(request);
    bytes.extend(answer.output_from("stdout", bytes.len() as u64));
    let expected: String = (0..200_000).map(|number| format!("{number}\n")).collect();
    assert!(bytes == expected.as_bytes(), "{} of {} bytes", bytes.len(), expected.len());
    assert_eq!(answer.data()["exit_code"], 0);
}

#[test]
fn crashes_while_sessions_are_made_leave_no_stray() {
    let mut daemon = daemon!();
    for round in 0..8_u32 {
        let mut connection = daemon.connect();
        for shell in Shell::ALL {
            connection.begin(m::SessionCreate::NAME, json!({"shell": shell.name()}));
        }
        // Each round cuts at another moment of the creation.
        wait_until("some hosts are there", GUARD, || daemon.processes().len() as u32 > round / 2);
        daemon.restart();
    }
    let mut connection = daemon.connect();
    let known = |connection: &mut trl_testkit::Connection| -> Vec<i64> {
        let list = connection.ok(m::SessionList::NAME, json!({}));
        let rows = list["sessions"].as_array().cloned().unwrap_or_default();
        rows.iter().filter_map(|row| row["host_pid"].as_i64()).collect()
    };
    wait_until("every host is known to the daemon or gone", GUARD, || {
        let hosts: Vec<i64> = daemon
            .processes()
            .into_iter()
            .filter(|&pid| process::arguments(pid).iter().any(|word| word == "host"))
            .map(i64::from)
            .collect();
        let known = known(&mut connection);
        let keeps_a_known_one =
            |pid: i64| process::children(pid as i32).iter().any(|&child| known.contains(&i64::from(child)));
        hosts.iter().all(|&host| known.contains(&host) || keeps_a_known_one(host))
    });
    let list = connection.ok(m::SessionList::NAME, json!({}));
    for row in list["sessions"].as_array().cloned().unwrap_or_default() {
        let ran =
            connection.ok(m::ExecRun::NAME, json!({"session_id": row["session_id"], "command": "echo ok"}));
        assert_eq!(ran["stdout"], "ok\n", "{row}");
    }
}

#[test]
fn crashes_while_sessions_end_leave_no_stray() {
    let mut daemon = daemon!();
    for _ in 0..5 {
        let mut connection = daemon.connect();
        let ids: Vec<Value> = Shell::ALL
            .map(|shell| {
                connection.ok(m::SessionCreate::NAME, json!({"shell": shell.name()}))["session_id"].clone()
            })
            .to_vec();
        for id in &ids {
            connection.begin(m::SessionDestroy::NAME, json!({"session_id": id}));
        }
        daemon.restart();
    }
    let mut connection = daemon.connect();
    let list = connection.ok(m::SessionList::NAME, json!({}));
    for row in list["sessions"].as_array().cloned().unwrap_or_default() {
        connection.ok(m::SessionDestroy::NAME, json!({"session_id": row["session_id"]}));
    }
    wait_until("only the daemon is left", GUARD, || daemon.processes() == [daemon.pid()]);
    let left = daemon.leftovers().session_files;
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_daemon_is_replaced_while_commands_run() {
    let mut daemon = Daemon::builder(trl_testkit::trl!()).prepare();
    let started = daemon.trl(&["run", "-s", "work", "x=kept; echo ready"]);
    assert_eq!(String::from_utf8_lossy(&started.stdout), "ready\n", "{started:?}");
    let mut connection = daemon.connect();
    let first = connection.ok(m::SystemInfo::NAME, json!({}))["pid"].clone();
    let params = json!({"session_id": "work", "command": "echo up; read line; echo \"$x $line\"", "background": false, "timeout_s": 0});
    let exec_id = connection.ok(m::ExecStart::NAME, params)["exec_id"].clone();
    let replaced = daemon.trl(&["restart"]);
    assert!(replaced.status.success(), "{replaced:?}");
    let mut connection = daemon.connect();
    let second = connection.ok(m::SystemInfo::NAME, json!({}))["pid"].clone();
    assert_ne!(first, second);
    connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "over\n", "eof": true}));
    let answer = connection.stream(m::ExecAttach::NAME, json!({"exec_id": exec_id}));
    assert_eq!(answer.output("stdout"), b"up\nkept over\n");
    let ended = daemon.trl(&["shutdown"]);
    assert!(ended.status.success(), "{ended:?}");
    wait_until("everything has ended", GUARD, || daemon.processes().is_empty());
    assert!(daemon.leftovers().is_empty(), "{:#?}", daemon.leftovers());
    daemon.keep_sessions();
}
