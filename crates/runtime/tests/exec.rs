//! `exec.…` against a host that says what the test wants.

#![allow(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

mod fake_host;

use fake_host::{FakeHost, ID, Recorder, adopted, ask, outcome};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use trl_protocol::exec::Stream;
use trl_protocol::wire::{FromHost, INITIAL_CREDIT, Mode, Stdin, ToHost};
use trl_protocol::{Code, Fault, Reply, Request};
use trl_protocol::{Method as _, methods as m};
use trl_runtime::{BoxFuture, Caller, EventSink, Gone, Presence, Runtime};

fn asking(runtime: &Runtime, method: &'static str, params: Value) -> JoinHandle<Result<Reply, Fault>> {
    let runtime = runtime.clone();
    tokio::spawn(async move { ask(&runtime, method, params).await })
}

#[tokio::test]
async fn answers_find_their_requests_in_any_order() {
    let (_home, runtime, mut host) = adopted().await;
    let mut running = Vec::new();
    for command in ["a", "b", "c"] {
        let params = json!({ "session_id": "fake", "command": command, "timeout_s": 0.5 });
        running.push((command, asking(&runtime, m::ExecRun::NAME, params)));
    }
    let mut asked = Vec::new();
    for _ in 0..3 {
        asked.push(host.hear_run().await);
    }
    for (req, run) in asked.into_iter().rev() {
        assert_eq!(
            (run.mode, run.timeout_ms, run.stdin, run.wait_ms),
            (Mode::Collect, Some(500), Stdin::Empty, 0)
        );
        host.say(&FromHost::Started { req, exec: req, queued: false, pid: None }).await;
        host.data(req, Stream::Stdout, 0, run.command.as_bytes()).await;
        host.say(&FromHost::Done { req, exec: req, outcome: outcome(1, 0), dropped: [0, 0] }).await;
    }
    for (command, running) in running {
        let Ok(Reply::ExecRun(reply)) = running.await.unwrap() else { panic!("a result") };
        assert_eq!(reply.stdout, command);
    }
}

#[tokio::test]
async fn a_failure_that_is_checked_is_a_fault_with_the_result() {
    let (_home, runtime, mut host) = adopted().await;
    for (timed_out, code) in [(false, Code::CommandFailed), (true, Code::CommandTimeout)] {
        let running = asking(
            &runtime,
            m::ExecRun::NAME,
            json!({ "session_id": "fake", "command": "x", "check": true }),
        );
        let (req, run) = host.hear_run().await;
        assert_eq!(run.timeout_ms, None, "the session's own deadline");
        let mut outcome = outcome(0, 3);
        (outcome.exit_code, outcome.timed_out) = (Some(3), timed_out);
        host.data(req, Stream::Stderr, 0, b"bad").await;
        host.say(&FromHost::Done { req, exec: 1, outcome, dropped: [0, 0] }).await;
        let fault = running.await.unwrap().unwrap_err();
        assert_eq!(fault.code, code);
        let details = fault.details.unwrap();
        assert_eq!((&details["exit_code"], &details["stderr"]), (&json!(3), &json!("bad")));
    }
}

#[tokio::test]
async fn a_fault_of_the_host_is_passed_on() {
    let (_home, runtime, mut host) = adopted().await;
    let running = asking(&runtime, m::ExecRun::NAME, json!({ "session_id": "fake", "command": "x" }));
    let (req, _) = host.hear_run().await;
    let fault = Fault::new(Code::SessionBusy, "busy");
    host.say(&FromHost::Fault { req, fault: fault.clone() }).await;
    assert_eq!(running.await.unwrap(), Err(fault));
}

#[tokio::test]
async fn what_cannot_be_run_never_reaches_the_host() {
    let (_home, runtime, mut host) = adopted().await;
    for (params, field) in [
        (json!({ "session_id": "fake", "command": "a\0b" }), "command"),
        (json!({ "session_id": "fake", "command": "x", "timeout_s": -1 }), "timeout_s"),
        (json!({ "session_id": "fake", "command": "x", "timeout_s": 1e300 }), "timeout_s"),
        (json!({ "session_id": "fake", "command": "x", "wait_s": -0.5 }), "wait_s"),
        (json!({ "session_id": "fake", "command": "x", "env": { "A-B": "1" } }), "A-B"),
        (json!({ "session_id": "fake", "command": "x", "working_dir": "/\0" }), "working_dir"),
    ] {
        let fault = ask(&runtime, m::ExecRun::NAME, params).await.unwrap_err();
        assert_eq!(fault.code, Code::InvalidParams);
        assert!(fault.message.contains(field), "{}", fault.message);
    }
    let fault = ask(&runtime, m::ExecCancel::NAME, json!({})).await.unwrap_err();
    assert_eq!(fault.code, Code::InvalidParams);
    let started = asking(&runtime, m::ExecStart::NAME, json!({ "session_id": "fake", "command": "first" }));
    let (req, run) = host.hear_run().await;
    assert_eq!((run.command.as_str(), run.mode, run.background), ("first", Mode::Detached, true));
    assert_eq!(run.stdin, Stdin::Open(Vec::new()));
    host.say(&FromHost::Started { req, exec: 4, queued: true, pid: Some(9) }).await;
    let Ok(Reply::ExecStart(started)) = started.await.unwrap() else { panic!("started") };
    assert_eq!(started.exec_id.to_string(), "e-abcd0001-4");
}

#[tokio::test]
async fn a_stream_is_told_in_order_and_in_whole_characters() {
    let (_home, runtime, mut host) = adopted().await;
    let streaming = tokio::spawn(async move {
        let mut events = Recorder::default();
        let request =
            Request::parse(m::ExecStream::NAME, json!({ "session_id": ID, "command": "x" })).unwrap();
        let presence = Presence::new();
        let reply = runtime.dispatch(request, &presence.caller(None), &mut events).await;
        (events.0, reply)
    });
    let (req, run) = host.hear_run().await;
    assert_eq!((run.mode, run.stdin), (Mode::Stream, Stdin::Empty));
    host.say(&FromHost::Started { req, exec: 1, queued: false, pid: None }).await;
    host.data(req, Stream::Stdout, 0, b"a\xe2\x82").await;
    host.data(req, Stream::Stderr, 0, b"\xff").await;
    host.data(req, Stream::Stdout, 3, b"\xacb").await;
    host.say(&FromHost::Gap { req, stream: Stream::Stdout, from: 5, to: 9 }).await;
    host.say(&FromHost::Waiting { req, exec: 1, prompt: "Name: ".into() }).await;
    host.data(req, Stream::Stdout, 9, b"z\xf0\x9f").await;
    host.say(&FromHost::Done { req, exec: 1, outcome: outcome(12, 1), dropped: [4, 0] }).await;
    let (events, reply) = streaming.await.unwrap();
    assert_eq!(
        events,
        [
            "started e-abcd0001-1",
            "stdout 0 a",
            "stderr 0 \u{FFFD}",
            "stdout 1 €",
            "stdout 4 b",
            "gap stdout 5 9",
            "waiting Name: ",
            "stdout 9 z",
            "stdout 10 \u{FFFD}",
        ]
    );
    let Ok(Reply::ExecStream(reply)) = reply else { panic!("{reply:?}") };
    assert!(reply.stdout_truncated && !reply.stderr_truncated);
}

/// A client that takes events only when it is let.
struct Slow(tokio::sync::mpsc::Receiver<()>);

impl EventSink for Slow {
    fn send<'a>(&'a mut self, _: trl_protocol::Event<'a>) -> BoxFuture<'a, Result<(), Gone>> {
        Box::pin(async { self.0.recv().await.ok_or(Gone) })
    }
}

async fn stream_to(runtime: Runtime, caller: Caller, mut sink: Slow) -> Result<Reply, Fault> {
    let request = Request::parse(m::ExecAttach::NAME, json!({ "exec_id": "e-abcd0001-1" })).unwrap();
    runtime.dispatch(request, &caller, &mut sink).await
}

async fn hear_attach(host: &mut FakeHost) -> u64 {
    match host.hear().await {
        Some(ToHost::Attach { req, .. }) => req,
        other => panic!("not an attach: {other:?}"),
    }
}

#[tokio::test]
async fn credit_is_given_as_the_client_reads() {
    let (_home, runtime, mut host) = adopted().await;
    let (let_go, gate) = tokio::sync::mpsc::channel(1000);
    let presence = Presence::new();
    let streaming = tokio::spawn(stream_to(runtime.clone(), presence.caller(None), Slow(gate)));
    let req = hear_attach(&mut host).await;
    let piece = vec![b'x'; 64 * 1024];
    for offset in (0..INITIAL_CREDIT).step_by(piece.len()) {
        host.data(req, Stream::Stdout, offset, &piece).await;
    }
    // The client takes nothing: other requests of the session go on, but no credit is given.
    let listed = asking(&runtime, m::ExecList::NAME, json!({ "session_id": ID }));
    let Some(ToHost::List { req: list }) = host.hear().await else { panic!("only the list is asked for") };
    host.say(&FromHost::Execs { req: list, execs: Vec::new() }).await;
    assert!(matches!(listed.await.unwrap(), Ok(Reply::ExecList(_))));

    for _ in 0..1000 {
        let_go.try_send(()).unwrap();
    }
    let mut granted = 0;
    while granted < INITIAL_CREDIT {
        match host.hear().await {
            Some(ToHost::Credit { req: of, bytes }) => {
                assert_eq!(of, req);
                granted += bytes;
            }
            other => panic!("not credit: {other:?}"),
        }
    }
    assert_eq!(granted, INITIAL_CREDIT);
    host.say(&FromHost::Done { req, exec: 1, outcome: outcome(INITIAL_CREDIT, 0), dropped: [0, 0] }).await;
    assert!(streaming.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_client_that_goes_away_is_detached_and_its_command_goes_on() {
    let (_home, runtime, mut host) = adopted().await;
    let presence = Presence::new();
    let run = Request::parse(m::ExecRun::NAME, json!({ "session_id": ID, "command": "x" })).unwrap();
    let running = tokio::spawn({
        let (runtime, caller) = (runtime.clone(), presence.caller(None));
        async move { runtime.dispatch(run, &caller, &mut Recorder::default()).await }
    });
    let (run_req, _) = host.hear_run().await;
    let (_let_go, gate) = tokio::sync::mpsc::channel(1);
    let streaming = tokio::spawn(stream_to(runtime, presence.caller(None), Slow(gate)));
    let attach_req = hear_attach(&mut host).await;
    presence.leave();
    assert!(running.await.unwrap().is_err() && streaming.await.unwrap().is_err());
    let mut detached = Vec::new();
    for _ in 0..2 {
        let Some(ToHost::Detach { req }) = host.hear().await else { panic!("nothing but detach") };
        detached.push(req);
    }
    detached.sort_unstable();
    assert_eq!(detached, [run_req, attach_req]);
}

#[tokio::test]
async fn a_command_of_a_client_that_left_at_once_is_still_run() {
    let (_home, runtime, mut host) = adopted().await;
    let presence = Presence::new();
    let caller = presence.caller(None);
    presence.leave();
    let run = Request::parse(m::ExecRun::NAME, json!({ "session_id": ID, "command": "x" })).unwrap();
    assert!(runtime.dispatch(run, &caller, &mut Recorder::default()).await.is_err());
    assert_eq!(host.hear_run().await.1.command, "x");
}

#[tokio::test]
async fn a_range_ends_with_a_whole_character() {
    let (_home, runtime, mut host) = adopted().await;
    let params = json!({ "exec_id": "e-abcd0001-1", "stream": "stdout", "offset": 5, "limit": 3 });
    let reading = asking(&runtime, m::ExecOutput::NAME, params);
    let Some(ToHost::Output { req, offset: 5, limit: 3, .. }) = host.hear().await else { panic!("a range") };
    host.data(req, Stream::Stdout, 5, b"a\xe2\x82").await;
    host.say(&FromHost::Range { req, offset: 5, next_offset: 8, total: 20, dropped: 0 }).await;
    let Ok(Reply::ExecOutput(reply)) = reading.await.unwrap() else { panic!("a range") };
    assert_eq!((reply.text.as_deref(), reply.next_offset, reply.lossy), (Some("a"), 6, false));
}

#[tokio::test]
async fn a_repeated_write_carries_the_same_id() {
    let (_home, runtime, mut host) = adopted().await;
    let presence = Presence::new();
    let mut ids = Vec::new();
    for (data, request_id, write_id) in [
        ("y\n", Some("7"), None),
        ("y\n", Some("7"), None),
        ("n\n", Some("7"), None),
        ("y\n", None, Some("w")),
    ] {
        let params = json!({ "exec_id": "e-abcd0001-1", "data": data, "write_id": write_id });
        let write = Request::parse(m::ExecWrite::NAME, params).unwrap();
        let caller = presence.caller(request_id.map(str::to_owned));
        let runtime = runtime.clone();
        let writing =
            tokio::spawn(async move { runtime.dispatch(write, &caller, &mut Recorder::default()).await });
        let Some(ToHost::Write { req, write_id, .. }) = host.hear().await else { panic!("a write") };
        host.say(&FromHost::Wrote { req, exec: 1, bytes: 2, eof: false, duplicate: false }).await;
        writing.await.unwrap().unwrap();
        ids.push(write_id);
    }
    assert_eq!(ids[0], ids[1]);
    assert_ne!(ids[0], ids[2]);
    assert_eq!(ids[3].as_deref(), Some("w"));
}
