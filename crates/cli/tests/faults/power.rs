//! `durability: "power"`: what was told survives a power cut, because it was on the disk before it was told.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "that is how a test fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, GUARD, Shell, in_each_shell, trl, wait_until};

/// The syncs of sessions' files, noted and held.
struct Syncs(PathBuf);

impl Syncs {
    fn build(place: &Path) -> PathBuf {
        let library = place.join("gated.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/faults/power/gated.c");
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
        assert!(built.is_ok_and(|status| status.success()), "cc builds {source}");
        library
    }

    /// How many have begun.
    fn count(&self) -> usize {
        fs::read_to_string(self.0.join("notes")).unwrap_or_default().lines().count()
    }

    /// Lets so many of them happen, and no more.
    fn allow(&self, count: usize) {
        // In one step: a file that is empty for a moment would hold what is allowed.
        let next = self.0.join("next");
        fs::write(&next, vec![0; count]).expect("a file");
        fs::rename(next, self.0.join("allowed")).expect("a file");
    }
}

fn a_result_is_on_the_disk_before_it_is_told(shell: Shell) {
    let place = tempfile::tempdir().expect("a directory");
    let library = Syncs::build(place.path());
    let daemon = Daemon::builder(trl!()).env("LD_PRELOAD", library).env("SYNC_PLACE", place.path()).start();
    let syncs = Syncs(place.path().to_owned());
    let mut plain = daemon.session(shell);
    plain.run("echo x; x=1").exits(0);
    plain.run("echo $x").exits(0).prints("1\n", "");
    assert_eq!(syncs.count(), 0, "nobody has asked for it");

    let mut session = daemon.session_with(shell, json!({"durability": "power"}));
    session.run("x=2; echo $x").exits(0).prints("2\n", "");
    assert!(syncs.count() > 0);
    syncs.allow(syncs.count());
    let params = session.params(json!({"command": "(exit 97)"}));
    let request = session.connection.begin(m::ExecRun::NAME, params);
    // One sync after the other, until the one that brings the end of the command to the disk.
    let mut allowed = syncs.count();
    let dir = files_of(&daemon, &session.id);
    loop {
        syncs.allow(allowed);
        wait_until("the next sync has begun", GUARD, || syncs.count() > allowed);
        if written(&dir).contains("\"exit_code\":97") {
            break;
        }
        allowed += 1;
    }
    let mut reply = [PollFd::new(session.connection.socket(), PollFlags::IN)];
    let moment = Timespec::try_from(Duration::from_millis(100)).unwrap();
    assert_eq!(poll(&mut reply, Some(&moment)), Ok(0), "it was told before it was on the disk");
    fs::remove_file(place.path().join("allowed")).unwrap();
    session.connection.finish(request).ran().exits(97);
    session.run("echo $x").exits(0).prints("2\n", "");
}

fn files_of(daemon: &Daemon, session: &str) -> PathBuf {
    let states = fs::read_dir(daemon.home().join("state")).unwrap().flatten();
    states.map(|entry| entry.path().join("sessions").join(session)).find(|dir| dir.is_dir()).unwrap()
}

/// Everything in the session's journal.
fn written(dir: &Path) -> String {
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|it| it == "log");
    let files = fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path()).filter(is_journal);
    files.map(|path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()).collect()
}

in_each_shell!(a_result_is_on_the_disk_before_it_is_told);
