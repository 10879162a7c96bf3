//! A session host played by the test: it listens where a daemon looks for living
//! hosts, and says what the test wants.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use trl_protocol::exec::{Outcome, Stream};
use trl_protocol::frame::{self, Frame};
use trl_protocol::session::{SessionInfo, SessionState};
use trl_protocol::wire::{FromHost, HOST_PROTOCOL, ToHost};
use trl_protocol::{Event, Fault, Reply, Request, SessionId};
use trl_runtime::{BoxFuture, Config, EventSink, Gone, Presence, Runtime};

pub const ID: SessionId = SessionId(0xabcd_0001);

/// Directories of one runtime, gone with the test.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Home {
        let home = Home(tempfile::tempdir().unwrap());
        std::fs::create_dir_all(home.hosts()).unwrap();
        home
    }

    pub fn config(&self) -> Config {
        Config::new(self.0.path().join("run"), self.0.path().join("state"), "/nowhere/trl".into())
    }

    pub fn hosts(&self) -> PathBuf {
        self.0.path().join("run/hosts")
    }

    pub fn socket(&self, id: SessionId) -> PathBuf {
        self.hosts().join(format!("{id}.sock"))
    }

    pub fn state_dir(&self, id: SessionId) -> PathBuf {
        self.0.path().join("state/sessions").join(id.to_string())
    }
}

/// A runtime that has adopted one fake host.
pub async fn adopted() -> (Home, Runtime, FakeHost) {
    let home = Home::new();
    let listener = UnixListener::bind(home.socket(ID)).unwrap();
    let (runtime, host) = tokio::join!(Runtime::start(home.config()), FakeHost::accept(&listener));
    (home, runtime.unwrap(), host)
}

pub fn info(id: SessionId) -> SessionInfo {
    SessionInfo {
        session_id: id,
        name: Some("fake".into()),
        shell: "bash".into(),
        working_dir: "/".into(),
        state: SessionState::Idle,
        env_keys: Vec::new(),
        created_at: "2000-01-01T00:00:00.000Z".into(),
        last_activity: "2000-01-01T00:00:00.000Z".into(),
        command_count: 0,
        timeout_s: 60.0,
        idle_timeout_s: 3600.0,
        pid: Some(2),
        // A pid that no system gives out.
        host_pid: u32::MAX,
        restarts: 0,
        tty: false,
        stdout_bytes: 0,
        stderr_bytes: 0,
        running: None,
        queued: 0,
        unresponsive: false,
        runtime: None,
        foreign: None,
        damage: None,
        startup_output: None,
        confinement: Default::default(),
    }
}

pub fn outcome(stdout_bytes: u64, stderr_bytes: u64) -> Box<Outcome> {
    Box::new(Outcome {
        exit_code: Some(0),
        signal: None,
        duration_ms: 1,
        duration_us: 10,
        timed_out: false,
        cancelled: false,
        stdout_bytes,
        stderr_bytes,
        working_dir: "/".into(),
        ..Outcome::default()
    })
}

pub struct FakeHost {
    pub stream: UnixStream,
    inbox: Vec<u8>,
}

impl FakeHost {
    pub async fn accept(listener: &UnixListener) -> FakeHost {
        FakeHost::accept_as(listener, HOST_PROTOCOL).await
    }

    pub fn of(stream: UnixStream) -> FakeHost {
        FakeHost { stream, inbox: Vec::new() }
    }

    pub async fn accept_as(listener: &UnixListener, protocol: u32) -> FakeHost {
        let (stream, _) = listener.accept().await.unwrap();
        let mut host = FakeHost::of(stream);
        let hello = host.hear().await;
        assert_eq!(hello, Some(ToHost::Hello { protocol: HOST_PROTOCOL, create: None }));
        let session = Box::new(info(ID));
        host.say(&FromHost::Welcome { protocol, version: "fake".into(), session }).await;
        host
    }

    /// The next message, or `None` at the end of the connection.
    pub async fn hear(&mut self) -> Option<ToHost> {
        loop {
            if let Some((frame, used)) = frame::split(&self.inbox).unwrap() {
                let Frame::Json(json) = frame else { panic!("a daemon sends no data") };
                let message = serde_json::from_slice(json).unwrap();
                self.inbox.drain(..used);
                return Some(message);
            }
            if self.stream.read_buf(&mut self.inbox).await.unwrap() == 0 {
                return None;
            }
        }
    }

    /// The next request to run something.
    pub async fn hear_run(&mut self) -> (u64, trl_protocol::wire::RunSpec) {
        match self.hear().await {
            Some(ToHost::Run { req, run }) => (req, *run),
            other => panic!("not a run: {other:?}"),
        }
    }

    pub async fn say(&mut self, message: &FromHost) {
        let mut out = Vec::new();
        frame::put_json(&mut out, message).unwrap();
        self.stream.write_all(&out).await.unwrap();
    }

    pub async fn data(&mut self, req: u64, stream: Stream, offset: u64, bytes: &[u8]) {
        let mut out = Vec::new();
        frame::put_data(&mut out, req, stream, offset, bytes);
        self.stream.write_all(&out).await.unwrap();
    }
}

/// Events as short texts.
#[derive(Default)]
pub struct Recorder(pub Vec<String>);

impl EventSink for Recorder {
    fn send<'a>(&'a mut self, event: Event<'a>) -> BoxFuture<'a, Result<(), Gone>> {
        self.0.push(match event {
            Event::Started { exec_id, .. } => format!("started {exec_id}"),
            Event::Queued { exec_id } => format!("queued {exec_id}"),
            Event::Text { stream, offset, text } => format!("{} {offset} {text}", stream.name()),
            Event::Bytes { stream, offset, bytes } => format!("{} {offset} {bytes:?}", stream.name()),
            Event::Gap { stream, from, to } => format!("gap {} {from} {to}", stream.name()),
            Event::Waiting { prompt, .. } => format!("waiting {prompt}"),
            Event::Mail(mail) => format!("mail {} {:?}", mail.count, mail.ids),
            Event::Subscribed { next } => format!("subscribed {next}"),
            Event::Missed { from, to } => format!("missed {from}..{to}"),
            Event::Change(change) => format!("change {:?}", change.change),
        });
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Asks as a client that stays.
pub async fn ask(runtime: &Runtime, method: &str, params: serde_json::Value) -> Result<Reply, Fault> {
    let request = Request::parse(method, params)?;
    let presence = Presence::new();
    runtime.dispatch(request, &presence.caller(None), &mut Recorder::default()).await
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
