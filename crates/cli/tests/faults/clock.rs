//! The machine's clock jumps, by years and both ways: deadlines, idle time and age do not notice.

#![expect(clippy::expect_used, reason = "that is how a test fails")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use tempfile::TempDir;
use trl_testkit::{Daemon, Shell, in_each_shell, trl};

pub(crate) const YEARS: i64 = 20 * 366 * 24 * 3600;

/// A daemon whose clock, with that of its sessions, can be set.
struct Shifted {
    daemon: Daemon,
    place: TempDir,
}

/// Variables that shift the clock of whatever is started with them. The files are in this directory.
pub(crate) fn shifted(place: &Path, seconds: i64) -> [(&'static str, PathBuf); 2] {
    let (library, shift) = (place.join("shifted.so"), place.join("shift"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/clock/shifted.c");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(built.is_ok_and(|status| status.success()), "cc builds {source}");
    fs::write(&shift, seconds.to_ne_bytes()).expect("a file");
    [("LD_PRELOAD", library), ("CLOCK_SHIFT", shift)]
}

impl Shifted {
    fn start() -> Shifted {
        let place = tempfile::tempdir().expect("a directory");
        let builder = Daemon::builder(trl!());
        let daemon = shifted(place.path(), 0)
            .into_iter()
            .fold(builder, |it, (name, value)| it.env(name, value))
            .start();
        Shifted { daemon, place }
    }

    /// From now on, for all that runs.
    fn set(&self, seconds: i64) {
        // In place: it is mapped into those who read it.
        let shift = File::options().write(true).open(self.place.path().join("shift")).expect("the file");
        shift.write_all_at(&seconds.to_ne_bytes(), 0).expect("eight bytes");
    }
}

pub(crate) fn year(time: &Value) -> i64 {
    time.as_str().and_then(|text| text.split('-').next()?.parse().ok()).unwrap_or_default()
}

fn deadlines_and_waits_are_not_moved(shell: Shell) {
    let clock = Shifted::start();
    let mut session = clock.daemon.session_with(shell, json!({"idle_timeout_s": 3600}));
    session.put_state();
    let begun = year(&session.info()["created_at"]);
    // Ahead: what has a minute left still has it.
    let (request, _) =
        session.stream_until(json!({"command": "echo up; sleep 0.3; echo down", "timeout_s": 60}), "up\n");
    clock.set(YEARS);
    let over = session.connection.finish(request);
    assert_eq!(
        (over.data()["exit_code"].clone(), over.data()["timed_out"].clone()),
        (json!(0), json!(false))
    );
    assert_eq!(over.output_from("stdout", 3), b"down\n");
    session.keeps_state();
    assert!(year(&session.info()["last_activity"]) >= begun + 20, "the clock did jump: {}", session.info());
    // Back: what is due in a moment is due in a moment.
    let (request, _) =
        session.stream_until(json!({"command": "echo up; sleep 1000", "timeout_s": 0.5}), "up\n");
    clock.set(-YEARS);
    let over = session.connection.finish(request).data();
    assert_eq!(over["timed_out"], true, "{over}");
    session.keeps_state();
    // Who waits for the shell waits no longer and no shorter.
    let (request, exec_id) =
        session.stream_until(json!({"command": "echo up; sleep 1000", "timeout_s": 0}), "up\n");
    let mut second = clock.daemon.connect();
    let waiting =
        second.begin(m::ExecRun::NAME, session.params(json!({"command": "echo never", "wait_s": 0.5})));
    clock.set(YEARS);
    second.finish(waiting).failed("SESSION_BUSY");
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
    session.connection.finish(request).data();
    session.keeps_state();
    let exec = session.run("echo end");
    assert!(exec.duration_ms < 60_000, "{exec:?}");
}

fn sessions_do_not_grow_old_by_it(shell: Shell) {
    let mut clock = Shifted::start();
    let mut living = clock.daemon.session(shell);
    living.put_state();
    let mut lost = clock.daemon.session_with(shell, json!({"name": "lost"}));
    lost.put_state();
    let before = lost.run("echo before").exec_id;
    lost.ok(":");
    lost.kill_host();
    clock.set(YEARS);
    living.keeps_state();
    clock.daemon.restart();
    living.connection = clock.daemon.connect();
    living.keeps_state();
    lost.connection = clock.daemon.connect();
    assert_eq!(lost.info()["state"], "lost");
    assert_eq!(lost.output_of(&before, "stdout"), b"before\n");
    clock.set(-YEARS);
    clock.daemon.restart();
    living.connection = clock.daemon.connect();
    lost.connection = clock.daemon.connect();
    let params = lost.params(json!({}));
    lost.connection.ok(m::SessionRestart::NAME, params);
    lost.run("true").exits(0).tells_of_the_shell();
    lost.has_state_back();
    living.keeps_state();
}

in_each_shell!(deadlines_and_waits_are_not_moved, sessions_do_not_grow_old_by_it);
