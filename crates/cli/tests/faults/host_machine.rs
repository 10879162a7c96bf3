//! The machine fails: full and read-only disks, directories that vanish, shells that cannot be
//! started. A clear error or a wait, nothing of others touched, and all is well when the cause is gone.

use std::fs;
use std::process::Command;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use trl_testkit::{
    Connection, Daemon, GUARD, Session, Shell, daemon, in_each_shell, needs, numbers, process, trl,
    wait_until,
};

/// A mount of its own needs leave; where there is none, the visible word is all that is tested.
fn may_mount() -> bool {
    let tried = Command::new("unshare").args(["-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]).output();
    let may = tried.is_ok_and(|output| output.status.success());
    if !may {
        needs::skip("this user may not mount a file system of its own (unshare -m)");
    }
    may
}

/// A daemon whose state is on a disk of this size, which nobody else sees.
fn with_disk(size: &str) -> Daemon {
    let script = format!(
        "mkdir -p \"$TRL_HOME/state\" && mount -t tmpfs -o mode=700,size={size} tmpfs \"$TRL_HOME/state\" && exec \"$0\" \"$@\""
    );
    Daemon::builder(trl!()).launched_by(&["unshare", "-m", "bash", "-c", &script]).start()
}

/// Runs in the session, which sees the daemon's disk.
fn state(daemon: &Daemon) -> String {
    daemon.home().join("state").display().to_string()
}

fn a_full_disk_costs_only_kept_output(shell: Shell) {
    if !may_mount() {
        return;
    }
    let daemon = with_disk("2m");
    let mut session = daemon.session(shell);
    session.put_state();
    let before = session.run("echo before").exec_id;
    session.run(&format!("head -c 4000000 /dev/zero > '{}/fill'", state(&daemon)));
    for _ in 0..3 {
        let ran = session.run(&format!("{}; echo err >&2; (exit 5)", numbers::command(300_000))).exits(5);
        assert_eq!((ran.stdout_bytes, ran.stderr_bytes), (300_000, 4));
        let info = session.exec_info(&ran.exec_id);
        assert!(info["stdout_dropped_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{info}");
        only_true_bytes(&mut session, &ran.exec_id);
    }
    assert_eq!(session.output_of(&before, "stdout"), b"before\n");
    session.keeps_state();
    let created = session.connection.call(m::SessionCreate::NAME, json!({"shell": shell.name()}));
    if let Err(error) = &created {
        assert_eq!(error["code"], "RESOURCE_PRESSURE", "{error}");
        assert!(error["message"].to_string().contains("disk"), "{error}");
    }
    session.run(&format!("rm '{}/fill'", state(&daemon)));
    let ran = session.run(&format!("{}; (exit 6)", numbers::command(100_000))).exits(6);
    assert!(session.output_of(&ran.exec_id, "stdout") == numbers::text(0, 100_000));
    session.keeps_state();
    daemon.session(shell).survives();
}

/// Whatever is still kept of a stream of numbers is what was written there.
#[track_caller]
fn only_true_bytes(session: &mut Session, exec_id: &str) {
    let mut offset = 0;
    loop {
        let params = json!({"exec_id": exec_id, "stream": "stdout", "offset": offset, "encoding": "base64"});
        let range = session.connection.ok(m::ExecOutput::NAME, params);
        let bytes = trl_testkit::event_bytes(&range);
        numbers::assert_at(range["offset"].as_u64().unwrap_or_default(), &bytes);
        offset = range["next_offset"].as_u64().unwrap_or_default();
        if bytes.is_empty() {
            return;
        }
    }
}

fn a_read_only_disk_costs_only_kept_output(shell: Shell) {
    if !may_mount() {
        return;
    }
    let daemon = with_disk("8m");
    let mut session = daemon.session(shell);
    session.put_state();
    let path = state(&daemon);
    // What is open for writing keeps a disk from becoming read-only; new files are what matters.
    let mut other = daemon.session(shell);
    other.destroy();
    session.run(&format!("mount -o bind,ro '{path}' '{path}'")).exits(0);
    let ran = session.run(&format!("{}; (exit 5)", numbers::command(100_000))).exits(5);
    assert_eq!(ran.stdout_bytes, 100_000);
    only_true_bytes(&mut session, &ran.exec_id);
    session.keeps_state();
    let error = session.connection.call(m::SessionCreate::NAME, json!({"shell": shell.name()})).err();
    let error = error.unwrap_or(Value::Null);
    assert_eq!(error["code"], "RESOURCE_PRESSURE", "{error}");
    assert!(error["message"].to_string().contains("ead-only"), "{error}");
    session.run(&format!("umount '{path}'")).exits(0);
    session.keeps_state();
    daemon.session(shell).survives();
}

fn directories_that_vanish_are_made_again(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let before = session.run("echo before").exec_id;
    fs::remove_dir_all(daemon.home().join("state")).unwrap_or_default();
    let ran = session.run(&format!("{}; (exit 5)", numbers::command(200_000))).exits(5);
    assert!(session.output_of(&ran.exec_id, "stdout") == numbers::text(0, 200_000));
    assert_eq!(session.output_of(&before, "stdout"), b"before\n", "what is open can still be read");
    session.keeps_state();
    let mut next = daemon.session(shell);
    next.survives();
    next.destroy();
    fs::remove_dir_all(daemon.home().join("run/hosts")).unwrap_or_default();
    session.survives();
    let mut next = daemon.session(shell);
    next.put_state();
    daemon.restart();
    next.connection = daemon.connect();
    next.keeps_state();
    session.connection = daemon.connect();
    session.keeps_state();
}

/// Whoever tidies up `/run` or `/tmp` takes the socket, its lock and the hosts' sockets.
fn a_removed_socket_is_made_again(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let shells = session.pid();
    for _ in 0..2 {
        let socket = daemon.socket();
        for gone in [socket.with_extension("sock.lock"), socket.clone()] {
            fs::remove_file(gone).unwrap_or_default();
        }
        fs::remove_dir_all(daemon.home().join("run")).unwrap_or_default();
        wait_until("new clients are served", GUARD, || Connection::open(&socket).is_ok());
        let mut next = daemon.session(shell);
        next.put_state();
        // Nobody else can have the place.
        let second = daemon.trl(&["serve"]);
        assert!(!second.status.success(), "{second:?}");
        daemon.restart();
        next.connection = daemon.connect();
        next.keeps_state();
        next.destroy();
        session.connection = daemon.connect();
        session.keeps_state();
        assert_eq!(session.pid(), shells);
    }
}

fn a_shell_that_cannot_be_started_is_told_and_comes_back(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let program = session.info()["shell"].as_str().map(str::to_owned).unwrap_or_default();
    let program = ["/usr/bin", "/bin"].map(|dir| format!("{dir}/{program}"));
    let found = program.iter().find(|path| process::exists(path)).cloned().unwrap_or_default();
    let copy = daemon.work().join(shell.name());
    fs::copy(&found, &copy).unwrap_or_default();
    let mut session = daemon.session_with(shell, json!({"shell": copy}));
    session.put_state();
    session.ok(":");
    let away = daemon.work().join("away");
    fs::rename(&copy, &away).unwrap_or_default();
    session.run("kill -9 $$").exits(137);
    for _ in 0..2 {
        let message = session.refused(json!({"command": "echo never > ran"}), "RESOURCE_PRESSURE");
        assert!(message.contains("shell"), "{message}");
    }
    assert_eq!(session.info()["state"], "idle");
    fs::rename(&away, &copy).unwrap_or_default();
    session.run("true").exits(0).tells_of_the_shell();
    session.has_state_back();
    assert!(!process::exists(session.dir.join("kept/ran")));
}

in_each_shell!(
    a_full_disk_costs_only_kept_output,
    a_read_only_disk_costs_only_kept_output,
    directories_that_vanish_are_made_again,
    a_removed_socket_is_made_again,
    a_shell_that_cannot_be_started_is_told_and_comes_back,
);
