//! A daemon played by the test cuts the connection; the client must not notice more than it has to.
#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::path::Path;
use trl_protocol::{Method as _, methods as m};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use trl_client::{Client, Error, Event, Options, Step};
use trl_protocol::exec::{AttachParams, Encoding, RunParams, Stream};
use trl_protocol::session::{CreateParams, SessionParams};
use trl_protocol::system::NoParams;
use trl_protocol::{Code, methods};

/// One side of a conversation, line by line.
struct Side {
    lines: tokio::io::Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

impl Side {
    async fn accept(listener: &UnixListener) -> Side {
        let (stream, _) = listener.accept().await.unwrap();
        Side::of(stream)
    }

    fn of(stream: UnixStream) -> Side {
        let (reader, writer) = stream.into_split();
        Side { lines: BufReader::new(reader).lines(), writer }
    }

    async fn request(&mut self) -> Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }

    async fn say(&mut self, line: Value) {
        self.writer.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }
}

fn params() -> RunParams {
    serde_json::from_value(json!({"session_id": "x", "command": "y"})).unwrap()
}

fn done(id: &Value) -> Value {
    json!({"id": id, "ok": true, "data": {
        "exec_id": "e-00000001-7", "exit_code": 0, "duration_ms": 1, "duration_us": 1, "timed_out": false,
        "cancelled": false, "stdout_bytes": 6, "stderr_bytes": 0, "working_dir": "/",
        "stdout_truncated": false, "stderr_truncated": false,
    }})
}

fn output(id: &Value, base64: &str, offset: u64) -> Value {
    json!({"id": id, "event": "stdout", "data": {"base64": base64, "offset": offset}})
}

async fn client(socket: &Path, listener: &UnixListener) -> (Client, Side) {
    let options = Options { socket: socket.to_owned(), state_dir: None, start: None };
    let (client, side) = tokio::join!(Client::connect(options), Side::accept(listener));
    (client.unwrap(), side)
}

fn listener() -> (tempfile::TempDir, std::path::PathBuf, UnixListener) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("s");
    let listener = UnixListener::bind(&socket).unwrap();
    (dir, socket, listener)
}

/// Once with a daemon that takes the new connection and says nothing more, once without any.
#[tokio::test]
async fn a_soft_timeout_holds_across_a_cut_connection() {
    for comes_back in [true, false] {
        let (_dir, socket, listener) = listener();
        let (client, mut first) = client(&socket, &listener).await;
        let params: RunParams =
            serde_json::from_value(json!({"session_id": "x", "command": "y", "soft_timeout_s": 0.2}))
                .unwrap();
        let daemon = async {
            let request = first.request().await;
            let id = &request["id"];
            assert_eq!(request["params"]["soft_timeout_s"], 0.2);
            first.say(json!({"id": id, "event": "started", "data": {"exec_id": "e-00000001-7"}})).await;
            first.say(output(id, "YWJj", 0)).await;
            drop(first);
            if comes_back {
                let mut second = Side::accept(&listener).await;
                assert_eq!(second.request().await["method"], m::ExecAttach::NAME);
                // The client leaves.
                assert!(second.lines.next_line().await.unwrap().is_none());
            }
        };
        let hear = async {
            let mut stream = client.stream(&params).await.unwrap();
            loop {
                if let Step::Done(reply) = stream.next().await.unwrap() {
                    break reply;
                }
            }
        };
        let ((), reply) = tokio::join!(daemon, hear);
        assert_eq!((reply.still_running, reply.outcome.exit_code), (true, None));
        assert_eq!((reply.exec_id.to_string().as_str(), reply.outcome.stdout_bytes), ("e-00000001-7", 3));
    }
}

#[tokio::test]
async fn a_cut_stream_goes_on_without_gap_or_repeat() {
    let (_dir, socket, listener) = listener();
    let (client, mut first) = client(&socket, &listener).await;
    let daemon = async {
        let request = first.request().await;
        assert_eq!(
            (&request["method"], &request["params"]["encoding"]),
            (&json!(m::ExecStream::NAME), &json!("base64"))
        );
        let id = &request["id"];
        first.say(json!({"id": id, "event": "started", "data": {"exec_id": "e-00000001-7"}})).await;
        first.say(output(id, "YWJj", 0)).await;
        // Half a line, then nothing: as when a daemon is killed.
        first.writer.write_all(br#"{"id":"#).await.unwrap();
        drop(first);
        let mut second = Side::accept(&listener).await;
        let request = second.request().await;
        assert_eq!(request["method"], m::ExecAttach::NAME);
        assert_eq!(request["params"]["stdout_offset"], 3);
        let id = &request["id"];
        second.say(json!({"id": id, "event": "started", "data": {"exec_id": "e-00000001-7"}})).await;
        // One byte of these has been heard before.
        second.say(output(id, "Y2Rl", 2)).await;
        second.say(output(id, "Zg==", 5)).await;
        second.say(done(id)).await;
    };
    let hear = async {
        let mut stream = client.stream(&params()).await.unwrap();
        let mut heard = Vec::new();
        let mut starts = 0;
        loop {
            match stream.next().await.unwrap() {
                Step::Event(Event::Output { stream: Stream::Stdout, offset, bytes }) => {
                    assert_eq!(offset, heard.len() as u64);
                    heard.extend(bytes);
                }
                Step::Event(Event::Started { .. }) => starts += 1,
                Step::Event(other) => panic!("{other:?}"),
                Step::Done(reply) => {
                    assert_eq!(reply.outcome.exit_code, Some(0));
                    break;
                }
            }
        }
        assert_eq!((heard.as_slice(), starts), (&b"abcdef"[..], 1));
    };
    tokio::join!(daemon, hear);
}

#[tokio::test]
async fn a_command_that_may_have_run_is_sent_again_under_the_same_id() {
    let (_dir, socket, listener) = listener();
    let (client, mut first) = client(&socket, &listener).await;
    let daemon = async {
        let cut = first.request().await;
        drop(first);
        let mut second = Side::accept(&listener).await;
        let again = second.request().await;
        assert_eq!(again["method"], m::ExecStream::NAME);
        assert!(again["params"]["run_id"].is_string());
        assert_eq!(again["params"], cut["params"]);
        second.say(done(&again["id"])).await;
    };
    let hear = async {
        let mut stream = client.stream(&params()).await.unwrap();
        assert!(matches!(stream.next().await, Ok(Step::Done(_))));
    };
    tokio::join!(daemon, hear);
}

/// A killed daemon closes its connections before its socket, so each one may get a request twice.
async fn killed_thrice(mut side: Side, listener: &UnixListener) -> Side {
    for _ in 0..3 {
        side.request().await;
        drop(side);
        let (dying, _) = listener.accept().await.unwrap();
        dying.readable().await.unwrap();
        drop(dying);
        side = Side::accept(listener).await;
    }
    side
}

#[tokio::test]
async fn several_killed_daemons_are_no_reason_to_give_up() {
    let (_dir, socket, listener) = listener();
    let (client, mut side) = client(&socket, &listener).await;
    let daemon = async {
        side = killed_thrice(side, &listener).await;
        let last = side.request().await;
        side.say(done(&last["id"])).await;
        // The same with a call, which comes over the connection that is there.
        side = killed_thrice(side, &listener).await;
        let last = side.request().await;
        side.say(json!({"id": last["id"], "ok": true, "data": {"uptime_s": 1.0, "version": "v"}})).await;
    };
    let ask = async {
        let mut stream = client.stream(&params()).await.unwrap();
        assert!(matches!(stream.next().await, Ok(Step::Done(_))));
        drop(stream);
        assert_eq!(client.call::<methods::SystemPing>(&NoParams {}).await.unwrap().version, "v");
    };
    tokio::join!(daemon, ask);
}

#[tokio::test]
async fn what_could_be_done_twice_is_not_asked_again() {
    let (_dir, socket, listener) = listener();
    let (client, mut first) = client(&socket, &listener).await;
    let daemon = async {
        first.request().await;
        drop(first);
        let mut second = Side::accept(&listener).await;
        let id = second.request().await["id"].clone();
        second.say(json!({"id": id, "ok": true, "data": {"uptime_s": 1.0, "version": "v"}})).await;
        // The next call comes over the same connection; it is cut too.
        assert_eq!(second.request().await["method"], m::SessionCreate::NAME);
    };
    let ask = async {
        assert_eq!(client.call::<methods::SystemPing>(&NoParams {}).await.unwrap().version, "v");
        let created = client.call::<methods::SessionCreate>(&CreateParams::default()).await;
        assert!(matches!(created, Err(Error::Lost { .. })));
    };
    tokio::join!(daemon, ask);
}

#[tokio::test]
async fn a_fault_is_the_daemons_answer_and_ids_differ() {
    let (_dir, socket, listener) = listener();
    let (client, mut side) = client(&socket, &listener).await;
    let daemon = async {
        let mut ids = Vec::new();
        for _ in 0..2 {
            let id = side.request().await["id"].clone();
            side.say(json!({"id": id, "ok": false, "error": {"code": "SESSION_NOT_FOUND", "message": "m"}}))
                .await;
            ids.push(id);
        }
        assert!(ids[0].is_string() && ids[0] != ids[1]);
    };
    let ask = async {
        for _ in 0..2 {
            let error = client
                .call::<methods::SessionInfo>(&SessionParams { session_id: "x".into() })
                .await
                .unwrap_err();
            assert_eq!(error.fault().unwrap().code, Code::SessionNotFound);
        }
    };
    tokio::join!(daemon, ask);
}

#[tokio::test]
async fn attach_reports_what_is_no_longer_kept() {
    let (_dir, socket, listener) = listener();
    let (client, mut side) = client(&socket, &listener).await;
    let daemon = async {
        let id = side.request().await["id"].clone();
        side.say(json!({"id": id, "event": "gap", "data": {"stream": "stdout", "from": 0, "to": 5}})).await;
        side.say(output(&id, "Zg==", 5)).await;
        side.say(done(&id)).await;
    };
    let hear = async {
        let params = AttachParams {
            exec_id: "e-00000001-7".into(),
            stdout_offset: 0,
            stderr_offset: 0,
            encoding: Encoding::Utf8,
        };
        let mut stream = client.attach(&params).await.unwrap();
        let gap = stream.next().await.unwrap();
        assert_eq!(gap, Step::Event(Event::Gap { stream: Stream::Stdout, from: 0, to: 5 }));
        assert!(matches!(stream.next().await.unwrap(), Step::Event(Event::Output { offset: 5, .. })));
        assert!(matches!(stream.next().await.unwrap(), Step::Done(_)));
    };
    tokio::join!(daemon, hear);
}

#[tokio::test]
async fn no_daemon_and_a_path_too_long_are_told_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let connect =
        |socket: std::path::PathBuf| Client::connect(Options { socket, state_dir: None, start: None });
    let error = connect(dir.path().join("none")).await.unwrap_err();
    assert!(matches!(error, Error::NoDaemon { .. }) && error.help().unwrap().contains("trl serve"));
    let error = connect(dir.path().join("x".repeat(120))).await.unwrap_err();
    assert!(error.to_string().contains("bytes") && error.help().unwrap().contains("TRL_SOCKET_PATH"));
}
