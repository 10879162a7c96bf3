//! Hosts of other versions: an old one is understood for ever, a newer one is refused clearly.

#![allow(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

mod fake_host;

use fake_host::{FakeHost, Home, ID, ask, exists, info};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;
use trl_journal::SessionFile;
use trl_protocol::session::SessionState;
use trl_protocol::wire::{Dialect, HOST_PROTOCOL, SessionSpec};
use trl_protocol::{Code, Reply};
use trl_protocol::{Method as _, methods as m};
use trl_runtime::Runtime;

/// One step of the recorded conversation: what the daemon said then, and the host's bytes.
struct Step {
    said: Value,
    answer: Vec<u8>,
}

fn recording() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for line in include_str!("fixtures/host-wire-1.txt").lines() {
        match (line.split_once(' '), steps.last_mut()) {
            (Some((">", bytes)), _) => {
                // Behind the length and the kind.
                let said = serde_json::from_slice(&unescape(bytes)[5..]).unwrap();
                steps.push(Step { said, answer: Vec::new() });
            }
            (Some(("<", bytes)), Some(step)) => step.answer.extend(unescape(bytes)),
            _ => {}
        }
    }
    steps
}

fn unescape(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(hex, 16).unwrap());
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
}

/// All that was said then is said now; more may have been added.
#[track_caller]
fn covers(then: &Value, now: &Value) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            for (name, value) in then {
                let missing = Value::String(format!("no `{name}`"));
                covers(value, now.get(name).unwrap_or(&missing));
            }
        }
        _ => assert_eq!(then, now),
    }
}

/// Plays the recorded host until the conversation is over.
async fn play(listener: UnixListener) {
    let (stream, _) = listener.accept().await.unwrap();
    let mut host = FakeHost::of(stream);
    for step in recording() {
        let heard = host.hear().await.unwrap_or_else(|| panic!("{} was due", step.said));
        covers(&step.said, &serde_json::to_value(&heard).unwrap());
        host.stream.write_all(&step.answer).await.unwrap();
    }
}

#[tokio::test]
async fn a_recorded_host_of_version_1_is_understood() {
    let home = Home::new();
    let listener = UnixListener::bind(home.socket(ID)).unwrap();
    let host = tokio::spawn(play(listener));
    let runtime = Runtime::start(home.config()).await.unwrap();
    let session = json!({ "session_id": "recorded" });
    let asked = |method: &'static str, params: Value| {
        let runtime = runtime.clone();
        async move { ask(&runtime, method, params).await }
    };
    let Ok(Reply::SessionInfo(told)) = asked(m::SessionInfo::NAME, session.clone()).await else {
        panic!("info")
    };
    assert_eq!((told.session_id, told.state, told.restarts), (ID, SessionState::Idle, 0));
    let command = "printf 'out\\n'; printf '\\377\\n' >&2; (exit 3)";
    let run = |command: &str| json!({ "session_id": "recorded", "command": command });
    let Ok(Reply::ExecRun(ran)) = asked(m::ExecRun::NAME, run(command)).await else { panic!("run") };
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str(), ran.outcome.exit_code),
        ("out\n", "\u{fffd}\n", Some(3))
    );
    let Ok(Reply::ExecStream(streamed)) = asked(m::ExecStream::NAME, run("echo streamed")).await else {
        panic!("stream")
    };
    assert_eq!((streamed.outcome.exit_code, streamed.outcome.stdout_bytes), (Some(0), 9));
    let range = json!({ "exec_id": "e-abcd0001-1", "stream": "stdout", "offset": 1 });
    let Ok(Reply::ExecOutput(output)) = asked(m::ExecOutput::NAME, range).await else { panic!("output") };
    assert_eq!((output.text.as_deref(), output.total_bytes), (Some("ut\n"), 4));
    let Ok(Reply::ExecInfo(exec)) = asked(m::ExecInfo::NAME, json!({ "exec_id": "e-abcd0001-1" })).await
    else {
        panic!("exec")
    };
    assert_eq!((exec.command.as_str(), exec.outcome.unwrap().exit_code), (command, Some(3)));
    let Ok(Reply::ExecList(list)) = asked(m::ExecList::NAME, session.clone()).await else { panic!("list") };
    assert_eq!(list.execs.len(), 2);
    let Ok(Reply::ExecCancel(cancelled)) = asked(m::ExecCancel::NAME, session.clone()).await else {
        panic!("cancel")
    };
    assert!(!cancelled.cancelled);
    let Ok(Reply::SessionRestart(restarted)) = asked(m::SessionRestart::NAME, session).await else {
        panic!("restart")
    };
    assert_eq!(restarted.restarts, 1);
    let fault = asked(m::ExecInfo::NAME, json!({ "exec_id": "e-abcd0001-99" })).await.unwrap_err();
    assert_eq!(fault.code, Code::ExecNotFound);
    let destroyed = asked(m::SessionDestroy::NAME, json!({ "session_id": ID, "force": true })).await;
    assert!(matches!(destroyed, Ok(Reply::SessionDestroy(_))), "{destroyed:?}");
    host.await.unwrap();
}

fn spec() -> SessionSpec {
    SessionSpec {
        session_id: ID,
        name: Some("fake".into()),
        shell: "bash".into(),
        shell_path: "/bin/bash".into(),
        dialect: Dialect::Bash,
        env: Default::default(),
        env_keys: Vec::new(),
        working_dir: "/".into(),
        timeout_s: 60.0,
        idle_timeout_s: 3600.0,
        ttl_s: 0.0,
        tty: false,
        rc: false,
        limits: Default::default(),
        state_dir: String::new(),
        socket: String::new(),
        resume: false,
        keep_state: None,
        restore_state: None,
        begin_with: None,
        open_files: None,
        durability: Default::default(),
        resolve: None,
        isolation: None,
        hidden_dirs: Vec::new(),
        mounts: Vec::new(),
        outside: None,
    }
}

#[tokio::test]
async fn a_host_of_a_later_version_is_refused_clearly_and_left_alone() {
    let home = Home::new();
    SessionFile::new(spec(), info(ID), ()).write(&home.state_dir(ID), false).unwrap();
    let listener = UnixListener::bind(home.socket(ID)).unwrap();
    let (runtime, mut host) =
        tokio::join!(Runtime::start(home.config()), FakeHost::accept_as(&listener, HOST_PROTOCOL + 1));
    let runtime = runtime.unwrap();
    assert_eq!(host.hear().await, None, "the connection is closed without a word");
    assert!(exists(&home.socket(ID)) && exists(&home.state_dir(ID)));
    for (method, params) in [
        (m::SessionInfo::NAME, json!({ "session_id": ID })),
        (m::SessionDestroy::NAME, json!({ "session_id": "fake" })),
        (m::SessionRestart::NAME, json!({ "session_id": "fake" })),
        (m::ExecRun::NAME, json!({ "session_id": "fake", "command": "true" })),
        (m::ExecInfo::NAME, json!({ "exec_id": "e-abcd0001-1" })),
    ] {
        let fault = ask(&runtime, method, params).await.unwrap_err();
        assert_eq!(fault.code, Code::SessionTerminated, "{method}");
        let later = format!("version {} of the host protocol", HOST_PROTOCOL + 1);
        assert!(fault.message.contains(&later) && fault.message.contains("alive"), "{}", fault.message);
    }
    assert!(exists(&home.state_dir(ID)), "what is not ours is not removed");
}
