//! The conformance suite: one function per promise, for any world.

use serde_json::{Value, json};
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{GUARD, numbers, own_port, wait_until};

use super::daemon::{Daemon, Home, World};

/// Makes a test of each promise for one world.
macro_rules! conformance {
    ($world:expr) => {
        super::conformance::conformance!($world;
            a_command_runs_and_its_state_stays,
            output_streams_while_the_command_runs,
            a_cancelled_command_ends_and_the_shell_stays,
            a_running_command_survives_the_daemon,
            what_a_command_finished_without_a_daemon_is_told_by_the_next,
            a_lost_host_leaves_its_output_and_can_be_restarted,
            a_host_lost_without_a_daemon_is_found_lost,
            destroying_leaves_nothing,
            the_end_of_the_daemon_ends_its_sessions,
            many_sessions_at_once_are_kept_apart,
            what_cannot_be_started_is_refused_and_leaves_nothing,
            files_are_those_of_the_place,
            a_fork_begins_with_the_state_of_its_origin,
        );
    };
    // A backend that does not keep every promise yet names those that it keeps.
    ($world:expr; $($promise:ident,)*) => {$(
        #[test]
        fn $promise() {
            super::conformance::$promise(&$world);
        }
    )*};
}
pub(crate) use conformance;

#[track_caller]
fn create(daemon: &Daemon, name: &str) -> String {
    let created = daemon.ok(m::SessionCreate::NAME, json!({"name": name}));
    assert_eq!((&created["name"], &created["state"]), (&json!(name), &json!("idle")), "{created}");
    created["session_id"].as_str().unwrap().to_owned()
}

#[track_caller]
fn run(daemon: &Daemon, session: &str, command: &str) -> Value {
    daemon.ok(m::ExecRun::NAME, json!({"session_id": session, "command": command}))
}

#[track_caller]
fn prints(daemon: &Daemon, session: &str, command: &str, expected: &str) {
    let ran = run(daemon, session, command);
    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!(expected), &json!(0)), "{command}: {ran}");
}

#[track_caller]
fn wait_lost(daemon: &Daemon, session: &str) -> Value {
    let mut info = Value::Null;
    wait_until("the session is lost", GUARD, || {
        info = daemon.ok(m::SessionInfo::NAME, json!({"session_id": session}));
        info["state"] == "lost"
    });
    info
}

#[track_caller]
fn finish(daemon: Daemon, world: &dyn World) {
    daemon.end();
    world.assert_no_leftovers();
}

pub(crate) fn a_command_runs_and_its_state_stays(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    create(&daemon, "s");
    prints(&daemon, "s", "cd /; x='a  b'; greet() { echo \"hello $1\"; }", "");
    prints(&daemon, "s", "pwd; echo \"$x\"; greet you", "/\na  b\nhello you\n");
    let ran = run(&daemon, "s", "echo out; echo err >&2; (exit 3)");
    assert_eq!(
        (&ran["stdout"], &ran["stderr"], &ran["exit_code"]),
        (&json!("out\n"), &json!("err\n"), &json!(3))
    );
    let listed = daemon.ok(m::SessionList::NAME, json!({}));
    assert_eq!(listed["sessions"][0]["name"], "s", "{listed}");
    let command = numbers::command(3_000_000);
    let params = json!({"session_id": "s", "command": command, "max_output_bytes": 4_000_000});
    let printed = daemon.ok(m::ExecRun::NAME, params);
    let text = printed["stdout"].as_str().unwrap_or_default();
    assert!(text.as_bytes() == numbers::text(0, 3_000_000), "{} bytes", printed["stdout_bytes"]);
    finish(daemon, world);
}

pub(crate) fn output_streams_while_the_command_runs(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    create(&daemon, "s");
    let command = "echo one; read line; echo got $line";
    let exec =
        daemon.ok(m::ExecStart::NAME, json!({"session_id": "s", "command": command}))["exec_id"].clone();
    let attached = daemon.begin(m::ExecAttach::NAME, json!({"exec_id": exec}));
    attached.hears("stdout", b"one\n");
    daemon.ok(m::ExecWrite::NAME, json!({"exec_id": exec, "data": "this\n"}));
    attached.hears("stdout", b"got this\n");
    assert_eq!(attached.answer().unwrap()["exit_code"], 0);
    let streamed = daemon.begin(m::ExecStream::NAME, json!({"session_id": "s", "command": "seq 100000"}));
    let expected: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    streamed.hears("stdout", expected.as_bytes());
    assert_eq!(streamed.answer().unwrap()["stdout_bytes"], expected.len());
    finish(daemon, world);
}

pub(crate) fn a_cancelled_command_ends_and_the_shell_stays(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    create(&daemon, "s");
    prints(&daemon, "s", "x=kept", "");
    let stream = json!({"session_id": "s", "command": "echo begun; sleep 1000"});
    let running = daemon.begin(m::ExecStream::NAME, stream);
    running.hears("stdout", b"begun\n");
    assert_eq!(daemon.ok(m::ExecCancel::NAME, json!({"session_id": "s"}))["cancelled"], true);
    let ended = running.answer().unwrap();
    assert_eq!(ended["cancelled"], true, "{ended}");
    let params = json!({"session_id": "s", "command": "sleep 1000", "timeout_s": 0.2});
    assert_eq!(daemon.ok(m::ExecRun::NAME, params)["timed_out"], true);
    prints(&daemon, "s", "echo $x", "kept\n");
    finish(daemon, world);
}

pub(crate) fn a_running_command_survives_the_daemon(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    create(&daemon, "s");
    prints(&daemon, "s", "x=kept", "");
    let command =
        json!({"session_id": "s", "command": "echo begun; read line; echo $line $x", "background": false});
    let started = daemon.ok(m::ExecStart::NAME, command);
    let exec = started["exec_id"].clone();
    let attached = daemon.begin(m::ExecAttach::NAME, json!({"exec_id": exec}));
    attached.hears("stdout", b"begun\n");
    daemon.kill();

    let daemon = Daemon::start(&home, world);
    let info = daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"}));
    assert_eq!((&info["state"], &info["running"]), (&json!("running"), &exec), "{info}");
    let attached = daemon.begin(m::ExecAttach::NAME, json!({"exec_id": exec, "stdout_offset": 6}));
    daemon.ok(m::ExecWrite::NAME, json!({"exec_id": exec, "data": "later\n"}));
    attached.hears("stdout", b"later kept\n");
    assert_eq!(attached.answer().unwrap()["exit_code"], 0);
    prints(&daemon, "s", "echo $x", "kept\n");
    finish(daemon, world);
}

pub(crate) fn what_a_command_finished_without_a_daemon_is_told_by_the_next(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    create(&daemon, "s");
    let command = "read line; echo done; (exit 7)";
    let started = daemon.ok(m::ExecStart::NAME, json!({"session_id": "s", "command": command}));
    let exec = started["exec_id"].clone();
    daemon.ok(m::ExecWrite::NAME, json!({"exec_id": exec, "data": "go\n", "eof": true}));
    daemon.kill();
    let daemon = Daemon::start(&home, world);
    let waited = daemon.ok(m::ExecWait::NAME, json!({"exec_id": exec, "timeout_s": 20}));
    assert_eq!(waited["exit_code"], 7, "{waited}");
    let output = daemon.ok(m::ExecOutput::NAME, json!({"exec_id": exec, "stream": "stdout", "offset": 0}));
    assert_eq!(output["text"], "done\n");
    finish(daemon, world);
}

pub(crate) fn a_lost_host_leaves_its_output_and_can_be_restarted(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    create(&daemon, "s");
    prints(&daemon, "s", "cd /; x=kept", "");
    let ran = run(&daemon, "s", "echo out; (exit 4)");
    prints(&daemon, "s", ":", "");
    let running = daemon.begin(m::ExecRun::NAME, json!({"session_id": "s", "command": "sleep 1000"}));
    wait_until("it runs", GUARD, || {
        daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"}))["state"] == "running"
    });
    world.kill_host(&daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"})));
    assert_eq!(running.answer().unwrap_err()["code"], "SESSION_TERMINATED");
    wait_lost(&daemon, "s");
    let message =
        daemon.fails(m::ExecRun::NAME, json!({"session_id": "s", "command": "true"}), "SESSION_TERMINATED");
    assert!(message.contains("session.restart"), "{message}");
    let told = daemon.ok(m::ExecInfo::NAME, json!({"exec_id": ran["exec_id"]}));
    assert_eq!(told["exit_code"], 4, "{told}");
    let output =
        daemon.ok(m::ExecOutput::NAME, json!({"exec_id": ran["exec_id"], "stream": "stdout", "offset": 0}));
    assert_eq!(output["text"], "out\n");

    let restarted = daemon.ok(m::SessionRestart::NAME, json!({"session_id": "s"}));
    assert_eq!(
        (&restarted["state"], &restarted["working_dir"]),
        (&json!("idle"), &json!("/")),
        "{restarted}"
    );
    let ran = run(&daemon, "s", "echo $x; pwd");
    assert_eq!(ran["stdout"], "kept\n/\n", "{ran}");
    finish(daemon, world);
}

pub(crate) fn a_host_lost_without_a_daemon_is_found_lost(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    create(&daemon, "s");
    prints(&daemon, "s", "x=kept", "");
    let ran = run(&daemon, "s", "echo out");
    prints(&daemon, "s", ":", "");
    let info = daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"}));
    daemon.kill();
    world.kill_host(&info);
    let daemon = Daemon::start(&home, world);
    let info = daemon.ok(m::SessionInfo::NAME, json!({"session_id": "s"}));
    assert_eq!(info["state"], "lost", "{info}");
    let output =
        daemon.ok(m::ExecOutput::NAME, json!({"exec_id": ran["exec_id"], "stream": "stdout", "offset": 0}));
    assert_eq!(output["text"], "out\n");
    daemon.ok(m::SessionRestart::NAME, json!({"session_id": "s"}));
    let ran = run(&daemon, "s", "echo $x");
    assert_eq!(ran["stdout"], "kept\n", "{ran}");
    finish(daemon, world);
}

pub(crate) fn destroying_leaves_nothing(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    let living = create(&daemon, "living");
    prints(&daemon, "living", "sleep 1000 & (setsid sleep 1000 &)", "");
    create(&daemon, "lost");
    world.kill_host(&daemon.ok(m::SessionInfo::NAME, json!({"session_id": "lost"})));
    wait_lost(&daemon, "lost");
    for session in ["living", "lost"] {
        let destroyed = daemon.ok(m::SessionDestroy::NAME, json!({"session_id": session}));
        assert_eq!(destroyed["state"], "terminated");
    }
    assert_eq!(daemon.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    world.assert_no_leftovers();
    daemon.fails(m::ExecRun::NAME, json!({"session_id": living, "command": "true"}), "SESSION_TERMINATED");
    finish(daemon, world);
}

pub(crate) fn the_end_of_the_daemon_ends_its_sessions(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    create(&daemon, "idle");
    create(&daemon, "busy");
    daemon.ok(m::ExecStart::NAME, json!({"session_id": "busy", "command": "sleep 1000"}));
    finish(daemon, world);
    let daemon = Daemon::start(&home, world);
    assert_eq!(daemon.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    finish(daemon, world);
}

pub(crate) fn many_sessions_at_once_are_kept_apart(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    let asked: Vec<_> = (0..4)
        .map(|number| daemon.begin(m::SessionCreate::NAME, json!({"name": format!("s{number}")})))
        .collect();
    for asked in asked {
        asked.answer().unwrap();
    }
    for number in 0..4 {
        prints(&daemon, &format!("s{number}"), &format!("x={number}"), "");
    }
    let daemon = {
        daemon.kill();
        Daemon::start(&home, world)
    };
    for number in 0..4 {
        prints(&daemon, &format!("s{number}"), "echo $x", &format!("{number}\n"));
    }
    finish(daemon, world);
}

pub(crate) fn what_cannot_be_started_is_refused_and_leaves_nothing(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    let message = daemon.fails(m::SessionCreate::NAME, json!({"shell": "no-such-shell"}), "INVALID_PARAMS");
    assert!(message.contains("no-such-shell"), "{message}");
    let message =
        daemon.fails(m::SessionCreate::NAME, json!({"working_dir": "/no/such/dir"}), "INVALID_PARAMS");
    assert!(message.contains("/no/such/dir"), "{message}");
    assert_eq!(daemon.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    finish(daemon, world);
}

pub(crate) fn files_are_those_of_the_place(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    create(&daemon, "s");
    prints(&daemon, "s", "d=/tmp/trl-files-$$; mkdir -p $d; cd $d; echo from the shell > f", "");
    prints(&daemon, "s", ":", "");
    let read = daemon.ok(m::FileRead::NAME, json!({"session_id": "s", "path": "f"}));
    assert_eq!(read["text"], "from the shell\n", "{read}");
    daemon.ok(m::FileWrite::NAME, json!({"session_id": "s", "path": "g", "content": "from outside\n"}));
    prints(&daemon, "s", "cat g; cd /; rm -r $d", "from outside\n");
    daemon.fails(m::FileStat::NAME, json!({"session_id": "s", "path": "/no/such"}), "FILE_NOT_FOUND");
    finish(daemon, world);
}

pub(crate) fn a_fork_begins_with_the_state_of_its_origin(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    let origin = create(&daemon, "s");
    // Not every shell tells its functions.
    prints(&daemon, "s", "cd /; x='a  b'; set -f", "");
    let forked = daemon.ok(m::SessionFork::NAME, json!({"session_id": "s", "name": "fork"}));
    assert_eq!((&forked["name"], &forked["working_dir"]), (&json!("fork"), &json!("/")), "{forked}");
    assert_ne!(forked["session_id"], origin);
    prints(&daemon, "fork", "pwd; echo \"$x\" *; x=other", "/\na  b *\n");
    prints(&daemon, "s", "echo \"$x\"", "a  b\n");
    let infos = ["s", "fork"].map(|name| daemon.ok(m::SessionInfo::NAME, json!({"session_id": name})));
    assert_eq!(infos[0]["runtime"], infos[1]["runtime"]);
    finish(daemon, world);
}

/// The world has busybox.
pub(crate) fn a_port_is_waited_for_where_the_session_runs(world: &dyn World) {
    let home = Home::new();
    let daemon = Daemon::start(&home, world);
    create(&daemon, "s");
    let port = own_port();
    prints(&daemon, "s", "mkdir -p /tmp/trl-port; echo it >/tmp/trl-port/index.html", "");
    let serve = format!("exec busybox httpd -f -p 127.0.0.1:{port} -h /tmp/trl-port");
    let server = daemon.ok(m::ExecStart::NAME, json!({"session_id": "s", "command": serve}));
    let wait = |until: Value| {
        let until = json!({"exec_id": server["exec_id"], "until": {"port": until}, "timeout_s": 20});
        daemon.ok(m::ExecWait::NAME, until)["matched"]["port"].clone()
    };
    assert_eq!(wait(json!({"port": port})), json!({"port": port, "host": "127.0.0.1"}));
    let answered = wait(json!({"port": port, "http_path": "/", "host": "localhost"}));
    assert_eq!(answered, json!({"port": port, "host": "localhost", "http_status": 200}));
    daemon.ok(m::ExecCancel::NAME, json!({"exec_id": server["exec_id"]}));
    prints(&daemon, "s", "rm -r /tmp/trl-port", "");
    finish(daemon, world);
}
