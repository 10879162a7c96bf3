//! A daemon without sessions, served inside the test, and a client that speaks in bytes.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "that is how a test fails")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use trl_gateway::{GatewayConfig, HttpConfig, ServeError, serve};
use trl_runtime::Config;

/// Nothing here takes long; a test that waits this long has failed.
pub const GUARD: Duration = Duration::from_secs(30);

pub struct Daemon {
    pub dir: TempDir,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<Result<(), ServeError>>,
}

pub fn config(dir: &Path) -> Config {
    Config::new(dir.join("run"), dir.join("state"), "/nowhere/trl".into())
}

/// Serves and resolves when clients can connect, or with why not.
pub async fn start_in(dir: TempDir, config: Config) -> Result<Daemon, (TempDir, ServeError)> {
    start_with(dir, config, None).await.map(|(daemon, _)| daemon)
}

/// Over HTTP too: then also where.
pub async fn start_with(
    dir: TempDir,
    config: Config,
    http: Option<HttpConfig>,
) -> Result<(Daemon, Option<SocketAddr>), (TempDir, ServeError)> {
    let (stop, stopped) = oneshot::channel();
    let (ready, is_ready) = oneshot::channel();
    let gateway = GatewayConfig {
        socket: Some(dir.path().join("t.sock")),
        on_ready: Some(Box::new(move |address| ready.send(address).unwrap())),
        http,
        ..Default::default()
    };
    let shutdown = async {
        stopped.await.ok();
    };
    let mut serving = tokio::spawn(serve(gateway, config, shutdown));
    tokio::select! {
        ready = is_ready => if let Ok(address) = ready {
            return Ok((Daemon { dir, stop: Some(stop), serving }, address));
        },
        ended = &mut serving => return Err((dir, ended.unwrap().unwrap_err())),
    }
    let error = serving.await.unwrap().unwrap_err();
    Err((dir, error))
}

pub async fn start() -> Daemon {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path());
    start_in(dir, config).await.map_err(|(_, error)| error).unwrap()
}

impl Daemon {
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("t.sock")
    }

    pub async fn connect(&self) -> Client {
        let (reader, writer) = UnixStream::connect(self.socket()).await.unwrap().into_split();
        Client { reader: BufReader::new(reader), writer }
    }

    pub fn ask_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits for its end and gives back its directory.
    pub async fn ended(self) -> TempDir {
        tokio::time::timeout(GUARD, self.serving).await.unwrap().unwrap().unwrap();
        self.dir
    }
}

pub struct Client {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Client {
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.writer.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The next line, or `None` at the end of the connection.
    pub async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(GUARD, self.reader.read_line(&mut line)).await.unwrap().unwrap();
        (read > 0).then_some(line)
    }

    pub async fn answer(&mut self) -> Value {
        serde_json::from_str(&self.line().await.unwrap()).unwrap()
    }

    pub async fn ask(&mut self, request: impl AsRef<[u8]>) -> Value {
        self.send(request).await;
        self.answer().await
    }

    /// Says that nothing more will be asked.
    pub async fn half_close(&mut self) {
        self.writer.shutdown().await.unwrap();
    }

    /// Everything until the end of the connection.
    pub async fn rest(mut self) -> String {
        let mut rest = String::new();
        tokio::time::timeout(GUARD, self.reader.read_to_string(&mut rest)).await.unwrap().unwrap();
        rest
    }
}
