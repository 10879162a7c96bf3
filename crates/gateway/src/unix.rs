//! The Unix socket: one daemon per path, for one user.
//!
//! The path is claimed with a lock that the kernel lets go of when its holder ends, so
//! what lies at the path without a lock is left over and may be removed.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::{Semaphore, watch};
use trl_protocol::{Code, Fault};
use trl_runtime::{Runtime, quiet_stream};

use crate::connection::{Connection, Phase};
use crate::lock::{Lock, LockError};
use crate::written;

/// Connections served at a time; more wait to be accepted.
pub(crate) const MAX_CONNECTIONS: u32 = 1024;
const BACKLOG: u32 = 1024;
/// Room in the kernel for one client: large writes, few wake-ups.
const SEND_BUFFER: usize = 512 * 1024;
/// Before accepting again when the process is out of descriptors: nothing tells when one is free.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

/// How long a client of another user may take to say something.
const TURN_AWAY: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("another daemon serves {path}{}", pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Taken { path: PathBuf, pid: Option<u32> },
    #[error("{path} is no socket and is left as it is; remove it or choose another path")]
    NoSocket { path: PathBuf },
    #[error(
        "{dir} can be written by other users, who could replace the socket; choose a directory of your own"
    )]
    OpenDirectory { dir: PathBuf },
}

/// A path that is ours as long as this lives.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    lock: Lock,
}

impl Claim {
    /// Takes the path, or says who has it and touches nothing.
    pub(crate) async fn take(path: &Path) -> Result<Claim, SocketError> {
        let failed = |error| SocketError::Io { path: path.to_owned(), error };
        prepare_directory(path)?;
        match path.symlink_metadata() {
            Ok(meta) if !meta.file_type().is_socket() => {
                return Err(SocketError::NoSocket { path: path.to_owned() });
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(_) | Err(_) => {}
        }
        let mut lock_path = path.as_os_str().to_owned();
        lock_path.push(".lock");
        let lock = Lock::take(Path::new(&lock_path)).await.map_err(|error| match error {
            LockError::Held { pid, .. } => SocketError::Taken { path: path.to_owned(), pid },
            LockError::Io(error) => SocketError::Io { path: PathBuf::from(&lock_path), error },
        })?;
        Ok(Claim { path: path.to_owned(), lock })
    }

    /// Listens there. What a dead daemon left is removed; what somebody serves is not.
    pub(crate) fn listen(self) -> Result<Listener, SocketError> {
        let failed = |error| SocketError::Io { path: self.path.clone(), error };
        if self.path.symlink_metadata().is_ok() {
            match std::os::unix::net::UnixStream::connect(&self.path) {
                Ok(_) => return Err(SocketError::Taken { path: self.path.clone(), pid: None }),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(&self.path).map_err(failed)?;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let socket = UnixSocket::new_stream().map_err(failed)?;
        socket.bind(&self.path).map_err(failed)?;
        // Nobody can connect before this: it does not listen yet.
        let closed = fs::set_permissions(&self.path, fs::Permissions::from_mode(0o600));
        let listening = closed.and_then(|()| socket.listen(BACKLOG));
        let bound = self.path.metadata().map(|meta| (meta.dev(), meta.ino()));
        match (listening, bound) {
            (Ok(listener), Ok(bound)) => Ok(Listener { listener, bound, claim: self }),
            (Err(error), _) | (_, Err(error)) => {
                // Nothing of ours may stay; the first error is the one to tell.
                let _ = fs::remove_file(&self.path);
                Err(failed(error))
            }
        }
    }
}

/// A missing directory is made for us alone. One that is there may be anybody's as
/// long as nobody but us and root can replace what we put into it.
fn prepare_directory(path: &Path) -> Result<(), SocketError> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let failed = |error| SocketError::Io { path: dir.to_owned(), error };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let meta = dir.metadata().map_err(failed)?;
    let me = rustix::process::geteuid().as_raw();
    let is_trusted = meta.uid() == me || meta.uid() == 0;
    let is_sticky = meta.mode() & 0o1000 != 0;
    if !is_trusted || (meta.mode() & 0o022 != 0 && !is_sticky) {
        return Err(SocketError::OpenDirectory { dir: dir.to_owned() });
    }
    Ok(())
}

/// A socket that accepts.
#[derive(Debug)]
pub(crate) struct Listener {
    listener: UnixListener,
    bound: (u64, u64),
    claim: Claim,
}

impl Listener {
    /// Stops listening and removes the socket, but nothing that took its place. The
    /// path stays ours until the claim is dropped: a next daemon waits for that.
    pub(crate) fn close(self) -> Claim {
        let Listener { listener, bound, claim } = self;
        drop(listener);
        let is_ours = claim.path.symlink_metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == bound);
        if is_ours && let Err(error) = fs::remove_file(&claim.path) {
            tracing::warn!(path = %claim.path.display(), %error, "the socket could not be removed");
        }
        claim.lock.announce_end();
        claim
    }

    /// Accepts for ever. Each connection holds one permit while it lasts.
    pub(crate) async fn accept_all(
        &self,
        runtime: &Runtime,
        permits: &Arc<Semaphore>,
        phase: &watch::Receiver<Phase>,
    ) {
        while let Ok(permit) = Arc::clone(permits).acquire_owned().await {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
                    continue;
                }
            };
            let friend = check_peer(&stream);
            let connection = Connection::new(runtime.clone(), phase.clone());
            tokio::spawn(async move {
                match friend {
                    Ok(()) => serve(connection, stream).await,
                    Err(fault) => turn_away(stream, fault).await,
                }
                drop(permit);
            });
        }
    }
}

pub(crate) async fn serve(connection: Connection, stream: UnixStream) {
    // The default is enough to work with.
    let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER);
    let watched = stream.as_fd().try_clone_to_owned();
    let hung_up = async move {
        // Registered on its own, so that watching it takes no readiness from the writer.
        match watched.and_then(|fd| UnixStream::from_std(fd.into())) {
            Ok(stream) => hang_up(&stream).await,
            Err(_) => std::future::pending().await,
        }
    };
    match quiet_stream::split(stream) {
        Ok((reader, writer)) => connection.serve(reader, writer, hung_up).await,
        Err(error) => tracing::warn!(%error, "a connection could not be watched"),
    }
}

/// Resolves when the peer has closed its socket, not only its sending side.
async fn hang_up(stream: &UnixStream) {
    while let Ok(ready) = stream.ready(Interest::WRITABLE).await {
        if ready.is_write_closed() {
            return;
        }
        // Forgets that it is writable, so that only a change is told.
        let _ = stream.try_io(Interest::WRITABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }
}

/// Only the daemon's own user and root may speak to it.
fn check_peer(stream: &UnixStream) -> Result<(), Fault> {
    let me = rustix::process::geteuid().as_raw();
    let problem = match stream.peer_cred() {
        Ok(peer) if peer.uid() == me || peer.uid() == 0 => return Ok(()),
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), pid = peer.pid(), "a connection of another user was refused");
            format!("this daemon serves user {me} only, not user {}; start one of your own", peer.uid())
        }
        Err(error) => {
            tracing::warn!(%error, "a connection without credentials was refused");
            format!("the user of this connection is not known: {error}")
        }
    };
    Err(Fault::new(Code::AuthFailed, problem))
}

/// Says why not, and waits a moment for what the client is about to say: closing on it
/// would keep it from reading the answer.
async fn turn_away(mut stream: UnixStream, fault: Fault) {
    let mut line = Vec::new();
    written::put_response(&mut line, "null", &Err(fault));
    let goodbye = async {
        stream.write_all(&line).await?;
        stream.read(&mut [0; 4096]).await
    };
    // Whoever it was is gone, or has been told, or does not listen.
    let _ = tokio::time::timeout(TURN_AWAY, goodbye).await;
}
