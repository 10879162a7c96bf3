//! The host of a session is killed: only that session is lost, nothing of it runs on, what it
//! wrote can still be read, and it can be begun again where it was.

use std::os::unix::fs::PermissionsExt as _;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{Daemon, GUARD, Session, Shell, daemon, in_each_shell, numbers, process, wait_until};

/// Kills the host and waits until the daemon tells so.
#[track_caller]
///
/// What the last command changed is on disk when the shell has told it, moments after the reply;
/// one more command makes sure of it.
fn lose(session: &mut Session) -> Value {
    session.kill_host();
    wait_until("the session is told as lost", GUARD, || session.info()["state"] == "lost");
    session.info()
}

#[track_caller]
fn restart(session: &mut Session) -> Value {
    let params = session.params(json!({}));
    session.connection.ok(m::SessionRestart::NAME, params)
}

fn nothing_of_it_runs_on(shell: Shell) {
    let daemon = daemon!();
    let mut other = daemon.session(shell);
    other.put_state();
    let mut session = daemon.session(shell);
    session.ok("sleep 1001 & (setsid sleep 1002 &) ; (setsid env -i sleep 1003 &)");
    session.ok("nohup sh -c 'trap \"\" TERM HUP INT; sleep 1004; :' >/dev/null 2>&1 &");
    session.ok("(setsid sh -c '(env -i sleep 1005 &)' &)");
    session.start(json!({"command": "sleep 1006"}));
    let host = session.host_pid();
    let mut everyone = Vec::new();
    wait_until("all six sleep", GUARD, || {
        everyone = process::descendants(host);
        let sleeps = |pid: &&i32| process::arguments(**pid).first().is_some_and(|word| word == "sleep");
        everyone.iter().filter(sleeps).count() == 6
    });
    lose(&mut session);
    let alive: Vec<_> = everyone.into_iter().filter(|pid| process::alive(*pid)).collect();
    assert!(alive.is_empty(), "{:?}", alive.into_iter().map(process::arguments).collect::<Vec<_>>());
    other.keeps_state();
}

fn nothing_of_it_runs_on_without_a_daemon(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("sleep 1001 & (setsid env -i sleep 1003 &)");
    let host = session.host_pid();
    let everyone = process::descendants(host);
    daemon.kill9();
    process::signal(host, process::Signal::KILL);
    for pid in everyone {
        process::assert_ends("a process of a lost session", pid);
    }
    daemon.restart();
    session.connection = daemon.connect();
    assert_eq!(session.info()["state"], "lost");
}

/// Who kills the keeper too leaves only what says whose it is.
fn nothing_of_it_runs_on_without_its_keeper(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("sleep 1001 & (setsid sleep 1002 &)");
    let host = session.host_pid();
    let everyone = process::descendants(host);
    let keeper = process::read(host).map(|host| host.parent).unwrap_or_default();
    assert_ne!(keeper, daemon.pid());
    process::signal(keeper, process::Signal::KILL);
    process::assert_ends("the keeper", keeper);
    session.survives();
    lose(&mut session);
    for pid in everyone {
        process::assert_ends("a process of a lost session", pid);
    }
}

fn it_is_told_with_its_last_state_and_its_output(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session_with(shell, json!({"name": "gone", "env": {"GIVEN": "secret"}}));
    session.put_state();
    let small = session.run("echo out; echo err >&2; (exit 3)").exec_id;
    let large = session.run(&numbers::command(200_000)).exec_id;
    let running = session.start(json!({"command": "echo begun; sleep 1000", "background": false}));
    let never = session.start(json!({"command": "echo never", "background": false, "wait_s": 100}));
    wait_until("it runs", GUARD, || session.exec_info(&running)["stdout_bytes"] == 6);
    let before = session.info();
    let lost = lose(&mut session);
    for round in 0..2 {
        let info = session.info();
        assert_eq!(info["state"], "lost", "{round}");
        for same in ["session_id", "name", "shell", "working_dir", "env_keys", "created_at", "timeout_s"] {
            assert_eq!(info[same], before[same], "{same}");
        }
        assert_eq!((&info["pid"], &info["queued"]), (&json!(null), &json!(0)));
        assert!(!info.to_string().contains("secret"));
        let list = session.connection.ok(m::SessionList::NAME, json!({}));
        assert_eq!(list["sessions"], json!([lost]));
        let message = session.refused(json!({"command": "true"}), "SESSION_TERMINATED");
        assert!(message.contains("session.restart"), "{message}");

        let told = session.exec_info(&small);
        assert_eq!((&told["exit_code"], &told["state"]), (&json!(3), &json!("finished")), "{told}");
        assert_eq!(session.output_of(&small, "stdout"), b"out\n");
        assert_eq!(session.output_of(&small, "stderr"), b"err\n");
        assert!(session.output_of(&large, "stdout") == numbers::text(0, 200_000));
        let answer = session.attach(&large);
        assert!(answer.output("stdout") == numbers::text(0, 200_000));
        assert_eq!(answer.data()["exit_code"], 0);
        assert_eq!(session.output_of(&running, "stdout"), b"begun\n");
        for (exec, word) in [(&running, "is unknown"), (&never, "did not run")] {
            let told = session.exec_info(exec);
            assert_eq!((&told["state"], &told["exit_code"]), (&json!("finished"), &json!(null)));
            assert!(told["notes"].to_string().contains(word), "{told}");
        }
        let params = session.params(json!({}));
        let execs = session.connection.ok(m::ExecList::NAME, params);
        assert!(execs["execs"].as_array().is_some_and(|execs| execs.len() >= 4), "{execs}");
        daemon.restart();
        session.connection = daemon.connect();
    }
    check_private(&daemon, &session.id);
}

#[track_caller]
fn check_private(daemon: &Daemon, id: &str) {
    let state = daemon.home().join("state");
    // Each socket's daemon has a directory of its own.
    let below = std::fs::read_dir(&state).into_iter().flatten().flatten().map(|entry| entry.path());
    let dirs = below.chain([state.clone()]).map(|dir| dir.join("sessions").join(id));
    let entries: Vec<_> = dirs.flat_map(std::fs::read_dir).flatten().flatten().collect();
    assert!(!entries.is_empty(), "{} has no files of {id}", state.display());
    for entry in entries {
        let mode = entry.metadata().map(|meta| meta.permissions().mode() & 0o777).unwrap_or_default();
        assert_eq!(mode, 0o600, "{}", entry.path().display());
    }
}

fn it_begins_again_where_it_was(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session_with(shell, json!({"name": "again", "env": {"GIVEN": "here"}}));
    session.put_state();
    let old = session.run("echo old; (exit 4)").exec_id;
    for round in 1..=2 {
        lose(&mut session);
        if round == 2 {
            daemon.restart();
            session.connection = daemon.connect();
        }
        let restarted = restart(&mut session);
        assert_eq!((&restarted["restarts"], &restarted["state"]), (&json!(round), &json!("idle")));
        assert_eq!(restarted["working_dir"], session.dir.join("kept").display().to_string());
        session.run("echo $GIVEN").exits(0).prints("here\n", "").tells_of_the_shell();
        session.has_state_back();
        session.survives();
        assert_eq!(session.output_of(&old, "stdout"), b"old\n");
        assert_eq!(session.exec_info(&old)["exit_code"], 4);
        assert_eq!(session.info()["name"], "again");
    }
    let ids: Vec<String> = (0..3).map(|_| session.run(":").exec_id).collect();
    assert!(!ids.contains(&old), "a number is not used again: {ids:?}");
    session.destroy();
    assert!(!process::exists(daemon.home().join("state/sessions").join(&session.id)));
}

fn every_kind_of_state_comes_back(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let odd = "line one\nit's \"two\" $HOME `x` \\ end ";
    session.run_with(json!({"command": "odd=$ODD", "env": {"ODD": odd}})).exits(0);
    session.ok("export OUT='a  b'; unset LANG; set -u; umask 027; cd /");
    session.ok("alias hi='echo aliased'");
    session.ok(":");
    lose(&mut session);
    restart(&mut session);
    session.run("true");
    session.run("printf %s \"$odd\"").exits(0).prints(odd, "");
    assert_eq!(session.ok("sh -c 'printf %s \"$OUT\"'"), "a  b");
    assert_eq!(session.ok("echo ${LANG-unset}"), "unset\n");
    assert_eq!(session.ok("umask | sed 's/^0*/0/'"), "027\n");
    assert_eq!(session.ok("pwd"), "/\n");
    assert_ne!(session.run("echo $no_such_variable").exit_code, Some(0), "set -u is back");
    if shell != Shell::Sh {
        session.ok("hi");
    }
}

/// New shells are counted over all hosts of the session.
fn new_shells_are_counted_on(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for count in 1..=2 {
        assert_eq!(restart(&mut session)["restarts"], count);
    }
    lose(&mut session);
    assert_eq!(restart(&mut session)["restarts"], 3);
}

/// A limit on file sizes keeps the shell from writing its state; nobody is told that it was restored.
fn a_state_that_was_not_saved_is_not_told_as_restored(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session_with(shell, json!({"limits": {"file_size": "4M"}}));
    session.ok("kept=no");
    let told =
        |session: &mut Session| session.run("echo \"<$kept>\"").exits(0).prints("<>\n", "").notes.concat();
    restart(&mut session);
    let note = told(&mut session);
    assert!(note.contains("had not been saved") && !note.contains("restored"), "{note}");
    lose(&mut session);
    restart(&mut session);
    let note = told(&mut session);
    assert!(note.contains("had not been saved") && !note.contains("restored"), "{note}");
}

in_each_shell!(
    new_shells_are_counted_on,
    a_state_that_was_not_saved_is_not_told_as_restored,
    nothing_of_it_runs_on,
    nothing_of_it_runs_on_without_a_daemon,
    nothing_of_it_runs_on_without_its_keeper,
    it_is_told_with_its_last_state_and_its_output,
    it_begins_again_where_it_was,
    every_kind_of_state_comes_back,
);

/// Nobody was there to end what was left, so the next daemon does.
#[test]
fn nothing_of_it_runs_on_when_keeper_host_and_daemon_were_killed() {
    let mut daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("sleep 1001 & (setsid sleep 1002 &)");
    let host = session.host_pid();
    let everyone = process::descendants(host);
    let keeper = process::read(host).map(|host| host.parent).unwrap_or_default();
    daemon.kill9();
    for (what, pid) in [("the keeper", keeper), ("the host", host)] {
        process::signal(pid, process::Signal::KILL);
        process::assert_ends(what, pid);
    }
    daemon.restart();
    for pid in everyone {
        process::assert_ends("a process of a lost session", pid);
    }
}

/// Who remembers the id of a command must not be told about another one.
#[test]
fn no_number_of_a_command_is_given_out_again() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("x=1");
    let mut before: Vec<String> = (0..3).map(|_| session.run(":").exec_id).collect();
    for _ in 0..2 {
        lose(&mut session);
        restart(&mut session);
        let next = session.run(":").exec_id;
        assert!(!before.contains(&next), "{next} of {before:?}");
        before.push(next);
    }
}

#[test]
fn a_lost_session_can_be_forgotten() {
    let mut daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    lose(&mut session);
    session.destroy();
    let params = session.params(json!({}));
    session.connection.fails(m::SessionRestart::NAME, params, "SESSION_TERMINATED");
    daemon.restart();
    let params = session.params(json!({}));
    daemon.connect().fails(m::SessionInfo::NAME, params, "SESSION_NOT_FOUND");
}

/// A daemon that a client inside a session has started serves everybody: it outlives that session.
#[test]
fn a_daemon_started_from_inside_a_session_outlives_it() {
    let daemon = Daemon::builder(trl_testkit::trl!()).prepare();
    let pid =
        || daemon.connect().ok(m::SystemInfo::NAME, json!({}))["pid"].as_i64().unwrap_or_default() as i32;
    let trl = format!("TRL_HOME='{}' '{}'", daemon.home().display(), trl_testkit::trl!().display());
    assert!(daemon.trl(&["run", "-s", "outer", "true"]).status.success());
    for kill_host in [false, true] {
        let first = pid();
        let gate = daemon.work().join("gate");
        let inside = format!("while [ ! -e gate ]; do sleep 0.01; done; {trl} run -s inner 'x=1'; rm gate");
        let params = json!({"session_id": "outer", "command": inside, "timeout_s": 0});
        daemon.connect().ok(m::ExecStart::NAME, params);
        process::signal(first, process::Signal::KILL);
        process::assert_ends("the first daemon", first);
        std::fs::write(&gate, "").unwrap_or_default();
        wait_until("a client inside has started a daemon", GUARD, || !process::exists(&gate));
        let second = pid();
        assert_ne!(first, second);
        let mut connection = daemon.connect();
        let outer = connection.ok(m::SessionInfo::NAME, json!({"session_id": "outer"}));
        assert!(
            process::descendants(outer["host_pid"].as_i64().unwrap_or_default() as i32).contains(&second)
        );
        if kill_host {
            process::signal(outer["host_pid"].as_i64().unwrap_or_default() as i32, process::Signal::KILL);
            wait_until("it is lost", GUARD, || {
                connection.ok(m::SessionInfo::NAME, json!({"session_id": "outer"}))["state"] == "lost"
            });
        } else {
            connection.ok(m::SessionDestroy::NAME, json!({"session_id": "outer"}));
        }
        assert_eq!(pid(), second);
        let kept = daemon.trl(&["run", "-s", "inner", "echo $x"]);
        assert_eq!(String::from_utf8_lossy(&kept.stdout), "1\n", "{kept:?}");
        assert!(daemon.trl(&["run", "-s", "outer", "true"]).status.success() || kill_host);
    }
    assert!(daemon.trl(&["shutdown"]).status.success());
    wait_until("everything has ended", GUARD, || daemon.processes().is_empty());
}

/// The next command of the command line goes on where the lost session was, and says so once.
#[test]
fn the_command_line_brings_it_back() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"name": "s"}));
    session.ok("x=kept");
    session.ok(":");
    lose(&mut session);
    for told in [true, false] {
        let output = daemon.trl(&["run", "-s", "s", "echo $x"]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "kept\n", "{output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr).contains("lost"), told, "{output:?}");
    }
}

#[test]
fn its_name_may_be_taken_meanwhile() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"name": "mine"}));
    lose(&mut session);
    let mut taker = daemon.session_with(Shell::Bash, json!({"name": "mine"}));
    let params = session.params(json!({}));
    let message = session.connection.fails(m::SessionRestart::NAME, params.clone(), "NAME_TAKEN");
    assert!(message.contains(&taker.id), "{message}");
    taker.destroy();
    session.connection.ok(m::SessionRestart::NAME, params);
    session.run("echo ok").exits(0);
}

#[test]
fn many_restarts_at_once_make_one_session() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.put_state();
    session.ok(":");
    lose(&mut session);
    let requests: Vec<u64> = (0..8)
        .map(|_| {
            let params = session.params(json!({}));
            session.connection.begin(m::SessionRestart::NAME, params)
        })
        .collect();
    let answers: Vec<_> = requests.into_iter().map(|id| session.connection.finish(id).result).collect();
    assert!(answers.iter().any(Result::is_ok), "{answers:?}");
    let refused = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(refused.into_iter().all(|error| error["code"] == "SESSION_BUSY"), "{answers:?}");
    let list = session.connection.ok(m::SessionList::NAME, json!({}));
    assert_eq!(list["sessions"].as_array().map(Vec::len), Some(1), "{list}");
    session.run("true").exits(0).tells_of_the_shell();
    session.keeps_state();
}
