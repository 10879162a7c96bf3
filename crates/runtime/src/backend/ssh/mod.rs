//! Hosts on other machines, reached through the user's own SSH client, and in containers that run already.
//!
//! The first use of a machine copies the host program there; nothing is installed and nothing
//! needs root. A host there is no child of `ssh`: it goes on when the connection breaks, and
//! the stream to it (`stream.rs`) goes on with the next connection. What a dead host left is
//! copied here to be read.

mod client;
mod stream;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use trl_protocol::session::SessionInfo;
use trl_protocol::system::{PlaceFacts, RuntimeKind, ShellFound};
use trl_protocol::wire::SessionSpec;
use trl_protocol::{Fault, SessionId};
use trl_sys::private::{create_dir, file_options};

use super::host_program::HostProgram;
use super::known::KnownSessions;
use super::programs;
use super::{
    Awaited, Backend, BoxFuture, ConnectError, Connection, Damage, GreetError, HostHandle, Listing, Liveness,
    LostSession, Prepared, Reached, SavedSession, StartRequest, StartedHost, greet,
};
use crate::config::Config;
use client::{Reach, SshClient, Target};
use stream::Failure;

/// How long a host may take to start its shell.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Sessions on one machine.
#[derive(Debug)]
pub struct Ssh {
    name: String,
    display_name: String,
    kind: RuntimeKind,
    client: Arc<SshClient>,
    /// Our sessions over there are in a directory of this name.
    key: String,
    /// Copies of what dead hosts left.
    copies: PathBuf,
    known: KnownSessions,
}

impl Ssh {
    /// `None` if that is no machine's name. `key` is this daemon's own, `dir` a directory of its own here.
    pub fn new(config: &Config, target: &str, key: String, dir: PathBuf) -> Option<Ssh> {
        let reach = Reach::Ssh(Target::parse(target)?);
        Some(Ssh::by(config, reach, (RuntimeKind::Ssh, format!("ssh:{target}")), key, dir))
    }

    /// Sessions in a container that runs already, reached like another machine. `None` if that is no container's name.
    pub fn in_container(config: &Config, container: &str, key: String, dir: PathBuf) -> Option<Ssh> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let fine = !container.is_empty() && !container.starts_with('-') && container.chars().all(is_plain);
        let reach = Reach::Container { name: container.to_owned(), engine: config.container_engine.clone() };
        let name = format!("container:@{container}");
        fine.then(|| Ssh::by(config, reach, (RuntimeKind::Container, name), key, dir))
    }

    fn by(
        config: &Config,
        reach: Reach,
        (kind, name): (RuntimeKind, String),
        key: String,
        dir: PathBuf,
    ) -> Ssh {
        let client = SshClient::new(reach, config.env.clone(), HostProgram::of(config));
        let (copies, known) = (dir.join("copies"), KnownSessions::in_dir(dir.join("known")));
        let display_name = config.name_of(&name).to_owned();
        Ssh { name, display_name, kind, client: Arc::new(client), key, copies, known }
    }

    async fn call(&self, mode: &str, id: SessionId) -> Result<programs::Ran, Fault> {
        self.client.call(&[mode, &self.key, &id.to_string()]).await
    }

    fn open(&self, id: SessionId) -> io::Result<(Connection, oneshot::Receiver<Result<(), Failure>>)> {
        let (first, began) = oneshot::channel();
        let connection = stream::open(Arc::clone(&self.client), self.key.clone(), id.to_string(), first)?;
        Ok((connection, began))
    }

    fn handle(&self, id: SessionId) -> Arc<dyn HostHandle> {
        Arc::new(SshHost {
            name: self.name.clone(),
            client: Arc::clone(&self.client),
            key: self.key.clone(),
            id,
        })
    }

    async fn start_host(&self, spec: SessionSpec) -> Result<StartedHost, Fault> {
        let id = spec.session_id;
        let started = self.call("--start", id).await?;
        let mut lines = started.stdout.lines();
        let (Some(state_dir), Some(socket)) = (lines.next(), lines.next()) else {
            return Err(self.client.unavailable("the host program does not say where its files are"));
        };
        // Whatever is hidden here is not over there: our sessions and their sockets, and the programs that are run for them.
        let own = [state_dir, socket].into_iter().filter_map(|path| Path::new(path).parent());
        let hidden_dirs =
            own.chain(lines.next().map(Path::new)).map(|dir| dir.display().to_string()).collect();
        let (state_dir, socket) = (state_dir.to_owned(), socket.to_owned());
        let spec = SessionSpec { state_dir, socket, hidden_dirs, ..spec };
        let failed = |what: String| self.client.unavailable(&format!("session {id} did not start: {what}"));
        let (connection, _) = self.open(id).map_err(|error| failed(error.to_string()))?;
        match tokio::time::timeout(START_TIMEOUT, greet(connection, Some(Box::new(spec)))).await {
            Ok(Ok(greeted)) => {
                self.known.remember(&greeted.session);
                Ok(StartedHost { greeted, host: self.handle(id) })
            }
            Ok(Err(GreetError::Refused(fault))) => Err(fault),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("no answer within {} s", START_TIMEOUT.as_secs()))),
        }
    }

    /// Copies what a session left over there to here.
    async fn fetch(&self, id: SessionId) -> Result<PathBuf, Fault> {
        let dir = self.copies.join(id.to_string());
        let command = self.client.far_program(&["--export", &self.key, &id.to_string()]).await?;
        unpack(command, &dir).await.map_err(|error| {
            self.client.unavailable(&format!("what session {id} left cannot be read: {error}"))
        })?;
        Ok(dir)
    }
}

/// Writes the files that a program prints (`crates/host/src/far/export.rs`) into a directory.
async fn unpack(mut command: tokio::process::Command, dir: &Path) -> io::Result<()> {
    use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};
    let mut child = command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no pipe"))?;
    let mut from = tokio::io::BufReader::new(stdout);
    create_dir(dir)?;
    let mut line = String::new();
    while from.read_line(&mut line).await? > 0 {
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "not a list of files");
        let (size, name) = line.trim_end_matches('\n').split_once(' ').ok_or_else(bad)?;
        // Names of files of ours; one that leads elsewhere is somebody's trick.
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            return Err(bad());
        }
        let size: u64 = size.parse().map_err(|_| bad())?;
        let path = dir.join(name);
        let file = file_options().write(true).create(true).truncate(true).open(&path)?;
        let mut file = tokio::fs::File::from_std(file);
        let copied = tokio::io::copy(&mut (&mut from).take(size), &mut file).await?;
        tokio::io::AsyncWriteExt::flush(&mut file).await?;
        if copied < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.clear();
    }
    match child.wait().await?.success() {
        true => Ok(()),
        false => Err(io::Error::other("the program over there failed")),
    }
}

impl Backend for Ssh {
    fn name(&self) -> &str {
        &self.name
    }

    fn display_name(&self) -> &str {
        &self.display_name
    }

    fn kind(&self) -> RuntimeKind {
        self.kind
    }

    fn look(&self) -> BoxFuture<'_, Result<Option<PlaceFacts>, Fault>> {
        Box::pin(async {
            let told = self.client.call(&["--about"]).await?;
            Ok(serde_json::from_str(&told.stdout).ok())
        })
    }

    fn prepare<'a>(&'a self, _: StartRequest<'a>) -> BoxFuture<'a, Result<Prepared, Fault>> {
        Box::pin(std::future::ready(Ok(Prepared::ByHost)))
    }

    fn shells(&self) -> Vec<ShellFound> {
        Vec::new()
    }

    /// Ids are random, and no other daemon uses our directory over there.
    fn is_unused(&self, _: SessionId) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(true))
    }

    fn start(&self, spec: SessionSpec) -> BoxFuture<'_, Result<StartedHost, Fault>> {
        Box::pin(self.start_host(spec))
    }

    fn list(&self) -> BoxFuture<'_, Listing> {
        Box::pin(async {
            let mut listing = Listing::default();
            match self.client.call(&["--list", &self.key]).await {
                Ok(ran) => {
                    for line in ran.stdout.lines() {
                        match line.split_once(' ').map(|(what, id)| (what, id.parse())) {
                            Some(("address", Ok(id))) => listing.addresses.push(id),
                            Some(("stored", Ok(id))) => listing.stored.push(id),
                            _ => {}
                        }
                    }
                }
                Err(fault) => tracing::warn!(message = %fault.message, "sessions cannot be listed now"),
            }
            listing
        })
    }

    fn connect(&self, id: SessionId) -> BoxFuture<'_, Result<Reached, ConnectError>> {
        Box::pin(async move {
            let (connection, began) = self.open(id).map_err(ConnectError::Failed)?;
            match began.await {
                Ok(Ok(())) => Ok(Reached { connection, host: Some(self.handle(id)) }),
                Ok(Err(Failure::Gone)) | Err(_) => Err(ConnectError::Gone),
                Ok(Err(Failure::Unreachable(reason))) => Err(ConnectError::Failed(io::Error::other(reason))),
            }
        })
    }

    fn host_of(&self, info: &SessionInfo) -> Arc<dyn HostHandle> {
        self.handle(info.session_id)
    }

    fn find_without_address<'a>(&'a self, _: &'a SessionInfo) -> BoxFuture<'a, Liveness> {
        Box::pin(std::future::ready(Liveness::Dead))
    }

    fn saved(&self, id: SessionId) -> BoxFuture<'_, Option<Result<SavedSession, Damage>>> {
        Box::pin(async move {
            match self.fetch(id).await {
                Ok(dir) => SavedSession::read(dir, id).await,
                Err(fault) => {
                    tracing::warn!(session = %id, message = %fault.message, "what a session left is out of reach");
                    None
                }
            }
        })
    }

    fn lost_session(&self, info: SessionInfo) -> BoxFuture<'_, Result<LostSession, Fault>> {
        Box::pin(async move {
            // A copy that was made when the session was lost does as well.
            let dir = match self.fetch(info.session_id).await {
                Ok(dir) => dir,
                Err(fault) => {
                    let copy = self.copies.join(info.session_id.to_string());
                    Some(copy).filter(|copy| copy.is_dir()).ok_or(fault)?
                }
            };
            LostSession::open(info, dir).await
        })
    }

    fn unused_for(&self, id: SessionId) -> BoxFuture<'_, Option<Duration>> {
        // By the clock over there: the one here may be another.
        Box::pin(async move {
            let told = self.call("--age", id).await.ok()?;
            told.stdout.trim().parse().ok().map(Duration::from_millis)
        })
    }

    /// A host's keeper over there ends what the host has left.
    fn end_orphans(&self, _: Vec<SessionId>) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn is_near(&self) -> bool {
        false
    }

    fn remembered(&self) -> Vec<SessionInfo> {
        self.known.all()
    }

    fn remember(&self, info: &SessionInfo) {
        self.known.remember(info);
    }

    fn await_host(&self, id: SessionId) -> io::Result<Awaited> {
        let (connection, began) = self.open(id)?;
        let (tell, out_of_reach) = oneshot::channel();
        tokio::spawn(async move {
            if let Ok(Err(Failure::Unreachable(_))) = began.await {
                // Nobody may wait for it any more.
                let _ = tell.send(());
            }
        });
        Ok(Awaited { connection, host: self.handle(id), out_of_reach })
    }

    /// An address over there on which nobody listens harms nobody; it goes with the session.
    fn remove_dead_address(&self, _: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn remove(&self, id: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Err(fault) = self.call("--remove", id).await {
                tracing::warn!(session = %id, message = %fault.message, "what a session left could not be removed");
            }
            self.known.forget(id);
            if let Err(error) = tokio::fs::remove_dir_all(self.copies.join(id.to_string())).await
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(session = %id, %error, "a copy could not be removed");
            }
        })
    }
}

/// The host of one session over there.
#[derive(Debug)]
struct SshHost {
    name: String,
    client: Arc<SshClient>,
    key: String,
    id: SessionId,
}

impl HostHandle for SshHost {
    fn describe(&self) -> String {
        format!("on {}", self.name)
    }

    fn kill(&self) -> BoxFuture<'_, bool> {
        Box::pin(async { self.client.call(&["--kill", &self.key, &self.id.to_string()]).await.is_ok() })
    }

    /// The end of the stream is all that can be told from here.
    fn gone(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn resume(&self) {}

    fn is_stopped(&self) -> bool {
        false
    }
}
