//! `file.…` through a daemon and a real host.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "that is how a test fails")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::{Duration, Instant};
use trl_protocol::{Method as _, methods as m};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use trl_testkit::{Shell, daemon, process};

#[test]
fn a_file_is_written_read_edited_listed_moved_and_removed() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("mkdir -p sub && cd sub");
    session.ok(":");
    let file = session.dir.join("sub/f.txt");
    let params = session.params(json!({"path": "f.txt", "content": "héllo\n", "mode": "0640"}));
    let written = session.connection.ok(m::FileWrite::NAME, params);
    assert_eq!(written["bytes"], 7, "{written}");
    assert_eq!(
        fs::read_to_string(&file).unwrap_or_default(),
        "héllo\n",
        "relative to the session's directory"
    );
    assert_eq!(file.metadata().map(|meta| meta.permissions().mode() & 0o777).unwrap_or_default(), 0o640);

    let params = session.params(json!({"path": "f.txt"}));
    let read = session.connection.ok(m::FileRead::NAME, params);
    assert_eq!(
        (&read["text"], &read["total_bytes"], &read["sha256"]),
        (&json!("héllo\n"), &json!(7), &written["sha256"])
    );
    let params = session.params(json!({"path": file, "offset": 1, "limit": 1, "encoding": "base64"}));
    let read = session.connection.ok(m::FileRead::NAME, params);
    assert_eq!((&read["base64"], &read["next_offset"]), (&json!(STANDARD.encode(b"\xc3")), &json!(2)));
    let params = session.params(json!({"path": "f.txt", "limit": 2}));
    let read = session.connection.ok(m::FileRead::NAME, params);
    assert_eq!((&read["text"], &read["next_offset"]), (&json!("h"), &json!(1)), "a character is not torn");

    let params = session.params(json!({"path": "f.txt", "old": "llo", "new": "y"}));
    assert_eq!(session.connection.ok(m::FileEdit::NAME, params.clone())["replaced"], 1);
    let message = session.connection.fails(m::FileEdit::NAME, params, "FILE_CONFLICT");
    assert!(message.contains("f.txt"), "{message}");
    let params = session.params(json!({"path": "f.txt", "content": "", "if_sha256": written["sha256"]}));
    session.connection.fails(m::FileWrite::NAME, params, "FILE_CONFLICT");

    let params = session.params(json!({"path": "a/b", "parents": true}));
    session.connection.ok(m::FileMakeDir::NAME, params.clone());
    let params = session.params(json!({"path": "a/b"}));
    session.connection.fails(m::FileMakeDir::NAME, params, "FILE_EXISTS");
    let params = session.params(json!({"from": "f.txt", "to": "a/b/g.txt"}));
    session.connection.ok(m::FileMove::NAME, params);
    let params = session.params(json!({"path": ".", "glob": "**/*.txt"}));
    let listed = session.connection.ok(m::FileList::NAME, params);
    assert_eq!(
        (&listed["entries"][0]["path"], &listed["truncated"]),
        (&json!("a/b/g.txt"), &json!(false)),
        "{listed}"
    );
    assert_eq!(
        (&listed["entries"][0]["kind"], &listed["entries"][0]["mode"]),
        (&json!("file"), &json!("0640"))
    );
    let params = session.params(json!({"path": "a"}));
    session.connection.fails(m::FileRemove::NAME, params, "INVALID_PARAMS");
    let params = session.params(json!({"path": "a", "recursive": true}));
    session.connection.ok(m::FileRemove::NAME, params);
    let params = session.params(json!({"path": "a"}));
    session.connection.fails(m::FileStat::NAME, params, "FILE_NOT_FOUND");
    session.survives();
}

#[test]
fn files_do_not_wait_for_a_command_nor_a_command_for_files() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.start(json!({"command": "sleep 1000", "background": false}));
    let params = session.params(json!({"path": "while-busy", "content": "x"}));
    session.connection.ok(m::FileWrite::NAME, params);
    // A pipe without a writer would hold up who opens it.
    let mut other = daemon.session(Shell::Bash);
    other.ok("mkfifo pipe; mkdir big; cd big; seq 20000 | xargs touch; cd ..");
    let params = other.params(json!({"path": "pipe"}));
    other.connection.fails(m::FileRead::NAME, params, "INVALID_PARAMS");
    let params = other.params(json!({"path": "big", "depth": 3}));
    let listing = other.connection.begin(m::FileList::NAME, params);
    other.ok("echo meanwhile");
    let listed = other.connection.finish(listing).data();
    assert_eq!(
        (&listed["truncated"], listed["entries"].as_array().map(Vec::len)),
        (&json!(true), Some(10_000))
    );
}

#[test]
fn every_byte_comes_back() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let content: Vec<u8> = (0..3_000_000_u32).map(|number| (number * 7 % 251) as u8).collect();
    let params =
        session.params(json!({"path": "b", "content": STANDARD.encode(&content), "encoding": "base64"}));
    session.connection.ok(m::FileWrite::NAME, params);
    assert!(fs::read(session.dir.join("b")).unwrap_or_default() == content);
    let mut read = Vec::new();
    loop {
        let params = json!({"path": "b", "offset": read.len(), "limit": 1_000_003, "encoding": "base64"});
        let params = session.params(params);
        let part = session.connection.ok(m::FileRead::NAME, params);
        read.extend(STANDARD.decode(part["base64"].as_str().unwrap_or_default()).unwrap_or_default());
        if part["next_offset"] == part["total_bytes"] {
            break;
        }
    }
    assert!(read == content);
}

#[test]
fn a_session_that_is_over_has_no_files_and_rights_are_the_sessions() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let params = session.params(json!({"path": "/proc/self/mem", "content": "x"}));
    let refused = session.connection.begin(m::FileWrite::NAME, params);
    session.connection.finish(refused).result.expect_err("nothing is written there");
    symlink("/nowhere/at/all", session.dir.join("dangling")).unwrap_or_default();
    let params = session.params(json!({"path": "dangling"}));
    session.connection.fails(m::FileRead::NAME, params, "FILE_NOT_FOUND");
    let host = session.host_pid();
    session.destroy();
    process::assert_ends("the host", host);
    let params = session.params(json!({"path": "x"}));
    session.connection.fails(m::FileRead::NAME, params, "SESSION_TERMINATED");
}

/// The child that does it is gone when the session is, whatever it was doing.
#[test]
fn no_worker_stays() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let begun = Instant::now();
    for _ in 0..50 {
        let params = session.params(json!({"path": ".", "depth": 3}));
        session.connection.ok(m::FileList::NAME, params);
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let shell = session.pid();
    let host = session.host_pid();
    trl_testkit::wait_until("only the shell is left", trl_testkit::GUARD, || {
        process::children(host) == [shell]
    });
}
