//! Files of a session that cannot be read: the session is listed as damaged, with a remedy.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "that is how a test fails")]

use std::fs;
use std::path::PathBuf;
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::{Daemon, GUARD, Session, Shell, daemon, process, wait_until};

/// What a broken disk, a full one or a careless hand makes of `session.json`.
const BROKEN: [&[u8]; 5] = [b"", b"{\"version\":1,", b"\0\0\0\0\0\0\0\0", b"[]", b"{\"version\":999999}"];

/// Where the session is described. Each socket's daemon has a directory of its own.
#[track_caller]
fn description(daemon: &Daemon, session: &Session) -> PathBuf {
    let mut dirs = vec![daemon.home().join("state")];
    while let Some(dir) = dirs.pop() {
        if dir.ends_with(&session.id) {
            return dir.join("session.json");
        }
        let entries = fs::read_dir(&dir).unwrap().flatten().map(|entry| entry.path());
        dirs.extend(entries.filter(|path| path.is_dir()));
    }
    panic!("session {} has no directory", session.id);
}

fn status(session: &mut Session) -> String {
    session.info()["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn it_is_listed_with_a_remedy_and_its_output_stays() {
    for broken in BROKEN {
        let mut daemon = daemon!();
        let mut whole = daemon.session(Shell::Bash);
        let mut session = daemon.session_with(Shell::Bash, json!({"name": "mine"}));
        let exec = session.run("echo kept; (exit 5)").exec_id;
        session.ok(":");
        let file = description(&daemon, &session);
        let host = session.host_pid();
        daemon.kill9();
        process::signal(host, process::Signal::KILL);
        process::assert_ends("the host", host);
        fs::write(&file, broken).unwrap();
        daemon.restart();
        session.connection = daemon.connect();
        whole.connection = daemon.connect();

        let list = session.connection.ok(m::SessionList::NAME, json!({}));
        let rows = list["sessions"].as_array().cloned().unwrap_or_default();
        assert_eq!(rows.len(), 2, "{list}");
        let row = rows.into_iter().find(|row| row["session_id"] == session.id).unwrap_or_default();
        assert_eq!(row["state"], "damaged", "{row}");
        let damage = row["damage"].as_str().unwrap_or_default();
        assert!(damage.contains("session.json") && damage.contains("session.destroy"), "{damage}");
        assert_eq!(session.info()["state"], "damaged");
        let message = session.refused(json!({"command": "true"}), "SESSION_TERMINATED");
        assert!(message.contains("damaged") && message.contains("session.destroy"), "{message}");
        let params = session.params(json!({}));
        session.connection.fails(m::SessionRestart::NAME, params, "SESSION_TERMINATED");
        assert_eq!(session.output_of(&exec, "stdout"), b"kept\n");
        assert_eq!(session.exec_info(&exec)["exit_code"], 5);
        let shown = daemon.trl(&["ls"]);
        assert!(String::from_utf8_lossy(&shown.stdout).contains("damaged"), "{shown:?}");
        whole.survives();
        session.destroy();
        assert!(!file.exists());
        assert_eq!(
            session.connection.ok(m::SessionList::NAME, json!({}))["sessions"].as_array().map(Vec::len),
            Some(1)
        );
    }
}

#[test]
fn a_host_that_is_lost_with_broken_files_is_damaged_at_once_and_its_name_is_free() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"name": "mine"}));
    session.ok(":");
    let file = description(&daemon, &session);
    wait_until("its state is stored", GUARD, || file.exists());
    // A host writes the file after a command; one that is stopped does not write over what stands there.
    let host = session.host_pid();
    process::signal(host, process::Signal::STOP);
    fs::write(&file, "no JSON").unwrap();
    process::signal(host, process::Signal::KILL);
    process::assert_ends("the host", host);
    wait_until("the session is damaged", GUARD, || status(&mut session) == "damaged");
    assert_eq!(session.info()["name"], "mine");
    let output = daemon.trl(&["run", "-s", "mine", "echo fresh"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "fresh\n", "{output:?}");
}

/// Restarted by it, one session would have the variables and the directory of the other.
#[test]
fn the_description_of_another_session_is_not_taken_for_its_own() {
    let mut daemon = daemon!();
    let mut sessions = [daemon.session(Shell::Bash), daemon.session(Shell::Bash)];
    for session in &mut sessions {
        session.ok("x=1");
        session.ok(":");
    }
    let files = [0, 1].map(|n| description(&daemon, &sessions[n]));
    let hosts = sessions.each_mut().map(Session::host_pid);
    daemon.kill9();
    for host in hosts {
        process::signal(host, process::Signal::KILL);
        process::assert_ends("the host", host);
    }
    fs::copy(&files[0], &files[1]).unwrap();
    daemon.restart();
    let [whole, other] = &mut sessions;
    for (session, state) in [(whole, "lost"), (other, "damaged")] {
        session.connection = daemon.connect();
        assert_eq!(session.info()["state"], state);
    }
}

/// From the moment that its processes are told to end, a session is nobody's to begin again.
#[test]
fn a_session_whose_host_is_killed_while_it_ends_is_over() {
    let mut daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("x=1");
    session.start(json!({"command": "trap 'echo >told' TERM; echo >here; while :; do sleep .02; done"}));
    let (file, host) = (description(&daemon, &session), session.host_pid());
    wait_until("the process is there", GUARD, || session.dir.join("here").exists());
    let params = session.params(json!({}));
    let told = session.dir.join("told");
    session.connection.begin(m::SessionDestroy::NAME, params);
    wait_until("the process is told", GUARD, || told.exists());
    process::signal(host, process::Signal::KILL);
    process::assert_ends("the host", host);
    assert!(!file.exists());
    daemon.kill9();
    daemon.restart();
    assert_eq!(daemon.connect().ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
}

/// The number of a host that is gone may belong to somebody else by now.
#[test]
fn a_process_that_is_no_host_is_not_taken_for_one() {
    let mut daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("kept=yes");
    session.ok(":");
    let (file, host) = (description(&daemon, &session), session.host_pid());
    daemon.kill9();
    process::signal(host, process::Signal::KILL);
    process::assert_ends("the host", host);
    let text = fs::read_to_string(&file).unwrap();
    let mut saved: serde_json::Value = serde_json::from_str(&text).unwrap();
    saved["info"]["host_pid"] = std::process::id().into();
    fs::write(&file, saved.to_string()).unwrap();
    daemon.restart();
    session.connection = daemon.connect();
    assert_eq!(session.info()["state"], "lost");
    let params = session.params(json!({}));
    session.connection.ok(m::SessionRestart::NAME, params);
    assert_eq!(session.ok("echo $kept"), "yes\n");
}
