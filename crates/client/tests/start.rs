//! Daemons that start, refuse or die, played by small shell scripts.

use std::path::Path;

use tokio::net::UnixListener;
use trl_client::{Client, Error, Options, Start};

fn options(dir: &Path, script: &str) -> Options {
    Options {
        socket: dir.join("s"),
        state_dir: None,
        start: Some(Start {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            lock: dir.join("run/start.lock"),
            log: dir.join("daemon.log"),
        }),
    }
}

#[tokio::test]
async fn why_it_did_not_start_is_told() {
    let dir = tempfile::tempdir().unwrap();
    for (script, expected, help) in [
        (r#"echo '{"refused":{"message":"no room","help":"make some"}}'"#, "no room", "make some"),
        (r#"echo '{"refused":{"message":"no room"}}'"#, "no room", "daemon.log"),
        ("exit 3", "ended immediately (exit status: 3)", "daemon.log"),
        ("kill -9 $$", "ended immediately (signal: 9", "daemon.log"),
    ] {
        let error = Client::connect(options(dir.path(), script)).await.unwrap_err();
        assert!(matches!(error, Error::NotStarted { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.help().unwrap().contains(help), "{error:?}");
    }
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path(), "");
    if let Some(start) = &mut options.start {
        start.program = "/nonexistent/trl".into();
    }
    let error = Client::connect(options).await.unwrap_err();
    assert!(error.to_string().contains("/nonexistent/trl"), "{error}");
}

#[tokio::test]
async fn a_daemon_that_is_there_is_used_and_none_started() {
    let dir = tempfile::tempdir().unwrap();
    let _listener = UnixListener::bind(dir.path().join("s")).unwrap();
    let mark = dir.path().join("started");
    Client::connect(options(dir.path(), &format!("touch {}", mark.display()))).await.unwrap();
    assert!(!mark.exists());
}
