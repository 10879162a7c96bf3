//! No process can be started any more: what needs one is refused or fails by itself, everything
//! else goes on, and all is well when there is room again.
//!
//! The limit does not apply to root, so the daemon runs as a user that nobody else is.

use std::process::Command;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, GUARD, Session, Shell, in_each_shell, needs, process, trl, wait_until};

const MANY: &str = "1000";

/// The user that this test's daemon runs as.
fn user() -> [String; 5] {
    let uid = (2_000_000_000 + std::process::id()).to_string();
    ["--reuid".to_owned(), uid.clone(), "--regid".to_owned(), uid, "--clear-groups".to_owned()]
}

/// None where this user may not become another.
fn as_nobody_else() -> Option<Daemon> {
    let user = user();
    if !Command::new("setpriv").args(&user).arg("true").status().is_ok_and(|status| status.success()) {
        needs::skip("this user may not become another (setpriv)");
        return None;
    }
    // The program, too, may lie where only its builder can reach it.
    let script = format!(
        "cp \"$0\" \"$TMPDIR/trl\" && chown -R {} \"$TRL_HOME/..\" && exec setpriv {} \"$TMPDIR/trl\" \"$@\"",
        user[1],
        user.join(" ")
    );
    Some(Daemon::builder(trl!()).launched_by(&["bash", "-c", &script]).start())
}

/// How many processes and threads the user may have, as far as these start new ones.
#[track_caller]
fn limit(pids: &[i32], most: &str) {
    for pid in pids {
        let mut set = Command::new("setpriv");
        set.args(user()).args(["prlimit", "--pid", &pid.to_string()]).arg(format!("--nproc={most}:"));
        assert!(set.status().is_ok_and(|status| status.success()), "{set:?}");
    }
}

#[track_caller]
fn is_pressure(error: Value) {
    assert_eq!(error["code"], "RESOURCE_PRESSURE", "{error}");
    let message = error["message"].as_str().unwrap_or_default();
    assert!(message.contains("processes") && message.contains("ulimit -u"), "{message}");
}

/// How many processes and threads a user has.
fn tasks_of(user: &str) -> usize {
    let tasks = |pid: i32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let field =
            |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        (field("Uid:") == Some(user)).then(|| field("Threads:")?.parse::<usize>().ok()).flatten()
    };
    process::all().into_iter().filter_map(|process| tasks(process.pid)).sum()
}

/// Whichever is the first of a session's processes that there is no room for.
#[test]
fn one_process_too_few_is_told_as_such() {
    for room in 0..4 {
        let Some(daemon) = as_nobody_else() else { return };
        let mut session = daemon.session(Shell::Bash);
        limit(&process::children(daemon.pid()), &(tasks_of(&user()[1]) + room).to_string());
        let mut refusals = 0;
        for _ in 0..4 {
            if let Err(error) = session.connection.call(m::SessionCreate::NAME, json!({})) {
                is_pressure(error);
                refusals += 1;
            }
        }
        assert!(refusals > 0, "room for {room}");
    }
}

fn a_daemon_that_can_start_nothing_refuses_new_sessions_only(shell: Shell) {
    let Some(daemon) = as_nobody_else() else { return };
    let mut session = daemon.session(shell);
    session.put_state();
    let mut lost = daemon.session(shell);
    let before = lost.run("echo before").exec_id;
    limit(&[daemon.pid()], "1");
    // What was started before may still be used up.
    let mut refusals = 0;
    for _ in 0..4 {
        if let Err(error) = session.connection.call(m::SessionCreate::NAME, json!({"shell": shell.name()})) {
            is_pressure(error);
            refusals += 1;
        }
        session.keeps_state();
    }
    assert!(refusals >= 3, "{refusals} of 4");
    // What needs a thread is refused, too, and the daemon lives on.
    lost.kill_host();
    wait_until("the session is lost", GUARD, || lost.info()["state"] == "lost");
    let range = lost.connection.call(m::ExecOutput::NAME, json!({"exec_id": before, "stream": "stdout"}));
    if let Err(error) = range {
        is_pressure(error);
    }
    if let Err(error) = session.connection.call(m::AgentList::NAME, json!({})) {
        assert_ne!(error["code"], "INTERNAL_ERROR", "{error}");
    }
    session.keeps_state();
    limit(&[daemon.pid()], MANY);
    assert_eq!(lost.output_of(&before, "stdout"), b"before\n");
    daemon.session(shell).survives();
    session.keeps_state();
}

fn a_session_that_can_start_nothing_keeps_its_shell(shell: Shell) {
    let Some(daemon) = as_nobody_else() else { return };
    let mut session = daemon.session(shell);
    let mut other = daemon.session(shell);
    session.put_state();
    session.ok(":");
    let everyone = [session.host_pid(), session.pid()];
    limit(&everyone, "1");
    // bash tries for fifteen seconds before it gives up; nobody has to wait for that.
    let ran = session.run_with(json!({"command": "/bin/echo never", "timeout_s": 1}));
    assert!(ran.exit_code != Some(0) && ran.stdout.is_empty(), "{ran:?}");
    session.run("echo \"$plain\"").exits(0).prints("a  b\n", "");
    let params = session.params(json!({"command": "echo beside", "background": true}));
    is_pressure(session.connection.call(m::ExecStart::NAME, params).err().unwrap_or_default());
    other.survives();
    limit(&everyone, MANY);
    session.keeps_state();
    assert_eq!(session.pid(), everyone[1], "the same shell");
}

fn a_shell_that_cannot_be_replaced_is_told_and_comes_back(shell: Shell) {
    let Some(daemon) = as_nobody_else() else { return };
    let mut session = daemon.session(shell);
    session.put_state();
    session.ok(":");
    let host = session.host_pid();
    limit(&[host], "1");
    session.run("kill -9 $$").exits(137);
    for _ in 0..2 {
        let message = session.refused(json!({"command": "echo never > ran"}), "RESOURCE_PRESSURE");
        assert!(message.contains("shell"), "{message}");
    }
    limit(&[host], MANY);
    session.run("true").exits(0).tells_of_the_shell();
    session.has_state_back();
    assert!(!process::exists(session.dir.join("kept/ran")));
    only_this_session(&mut session);
}

#[track_caller]
fn only_this_session(session: &mut Session) {
    let list = session.connection.ok(m::SessionList::NAME, json!({}));
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(1), "{list}");
}

in_each_shell!(
    a_daemon_that_can_start_nothing_refuses_new_sessions_only,
    a_session_that_can_start_nothing_keeps_its_shell,
    a_shell_that_cannot_be_replaced_is_told_and_comes_back,
);
