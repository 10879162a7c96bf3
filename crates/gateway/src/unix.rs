//! The Unix socket: one daemon per path, for one user.
//!
//! The path is claimed with a lock that the kernel lets go of when its holder ends, so
//! what lies at the path without a lock is left over and may be removed.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use trl_protocol::{Code, Fault};
use trl_runtime::{Runtime, Stop, quiet_stream};
use trl_sys::trust::{self, Untrusted};

use crate::connection::{Connection, Phase};
use crate::lock::{Lock, LockError};
use crate::path_watch::PathWatch;
use crate::written;

/// Connections that wait for another to close; more wait in the kernel, unseen.
const WAITING_ROOM: usize = 1024;
/// How long they wait before they are told that there are too many.
const WAIT: Duration = Duration::from_secs(5);
const BACKLOG: u32 = 1024;
/// Room in the kernel for one client: large writes, few wake-ups.
const SEND_BUFFER: usize = 512 * 1024;
/// Before accepting again when the process is out of descriptors: nothing tells when one is free.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(50);

/// Between two tries to make a removed socket again: nothing tells when its directory can be made.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// How long the socket of a daemon that was killed may take connections after its lock is free:
/// the kernel closes one after the other.
pub(crate) const LAST_HOLDER: Duration = Duration::from_secs(2);
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// How long a daemon that has the lock may take until it listens.
const STARTING: Duration = Duration::from_secs(5);

/// How long a client of another user may take to say something.
const TURN_AWAY: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
    #[error("another daemon serves {path}{}", pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Taken { path: PathBuf, pid: Option<u32> },
    #[error("{path} is not a socket and is left as it is; remove it or choose another path")]
    NoSocket { path: PathBuf },
    #[error("the socket cannot be there: {0}")]
    Untrusted(#[from] Untrusted),
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
        let begun = Instant::now();
        loop {
            match lock(path).await {
                // Whoever is told that another daemon serves here connects to that one: it has to listen first.
                Err(SocketError::Taken { .. }) if begun.elapsed() < STARTING && !listens(path).await => {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                taken => return Ok(Claim { path: path.to_owned(), lock: taken? }),
            }
        }
    }

    /// How long what the last daemon here had may still be taken.
    pub(crate) fn patience(&self) -> Duration {
        if self.lock.was_left { LAST_HOLDER } else { Duration::ZERO }
    }

    /// Listens there. What a dead daemon left is removed; what somebody serves is not.
    pub(crate) async fn listen(self) -> Result<Listener, SocketError> {
        let open = self.open().await?;
        Ok(Listener { open, claim: self })
    }

    async fn open(&self) -> Result<Open, SocketError> {
        let failed = |error| SocketError::Io { path: self.path.clone(), error };
        let begun = Instant::now();
        while self.path.symlink_metadata().is_ok() {
            match UnixStream::connect(&self.path).await {
                // Who held the lock before us is just being taken apart by the kernel, or serves without one.
                Ok(_) if begun.elapsed() < LAST_HOLDER => tokio::time::sleep(LOOK_AGAIN).await,
                Ok(other) => {
                    let pid = other.peer_cred().ok().and_then(|peer| peer.pid());
                    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
                    return Err(SocketError::Taken { path: self.path.clone(), pid });
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(&self.path).map_err(failed)?;
                }
                // It closed while we waited for it to accept.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
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
            (Ok(listener), Ok(bound)) => Ok(Open { listener, bound, watch: PathWatch::new(&self.path).ok() }),
            (Err(error), _) | (_, Err(error)) => {
                // Nothing of ours may stay; the first error is the one to tell.
                let _ = fs::remove_file(&self.path);
                Err(failed(error))
            }
        }
    }
}

async fn listens(path: &Path) -> bool {
    UnixStream::connect(path).await.is_ok()
}

async fn lock(path: &Path) -> Result<Lock, SocketError> {
    let mut lock_path = path.as_os_str().to_owned();
    lock_path.push(".lock");
    Lock::take(Path::new(&lock_path)).await.map_err(|error| match error {
        LockError::Held { pid, .. } => SocketError::Taken { path: path.to_owned(), pid },
        LockError::Io(error) => SocketError::Io { path: PathBuf::from(&lock_path), error },
    })
}

/// A missing directory is made for us alone. Nobody but us and root may be able to replace
/// what we put there.
fn prepare_directory(path: &Path) -> Result<(), SocketError> {
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    let failed = |error| SocketError::Io { path: dir.to_owned(), error };
    trust::check_path(dir)?;
    trl_sys::private::create_dir(dir).map_err(failed)?;
    Ok(trust::check_path(dir)?)
}

/// A socket that accepts.
#[derive(Debug)]
pub(crate) struct Listener {
    open: Open,
    claim: Claim,
}

#[derive(Debug)]
struct Open {
    listener: UnixListener,
    /// Device and inode of its name.
    bound: (u64, u64),
    /// None where there are too many of them already: then nobody tells that the name is gone.
    watch: Option<PathWatch>,
}

impl Open {
    fn is_at(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok_and(|meta| (meta.dev(), meta.ino()) == self.bound)
    }
}

impl Listener {
    /// Stops listening and removes the socket, but nothing that took its place. The
    /// path stays ours until the claim is dropped: a next daemon waits for that.
    pub(crate) fn close(self) -> Claim {
        let Listener { open, claim } = self;
        let is_ours = open.is_at(&claim.path);
        drop(open);
        if is_ours && let Err(error) = fs::remove_file(&claim.path) {
            tracing::warn!(path = %claim.path.display(), %error, "the socket could not be removed");
        }
        claim.lock.announce_end();
        claim
    }

    /// Resolves when our name is gone, and nobody can find us any more.
    async fn removed(&self) {
        while self.open.is_at(&self.claim.path) {
            match &self.open.watch {
                Some(watch) => watch.changed().await,
                None => return std::future::pending().await,
            }
        }
    }

    /// Listens at the same place again, as soon as that can be done. If another daemon does so
    /// by now, the sessions are left to it.
    async fn come_back(&mut self, runtime: &Runtime) {
        let path = self.claim.path.clone();
        tracing::warn!(path = %path.display(), "the socket was removed; it is made again");
        let mut told = false;
        loop {
            match self.listen_again(&path).await {
                Ok(()) => return,
                Err(error @ SocketError::Taken { .. }) => {
                    tracing::error!("{error}; this one ends and leaves its sessions");
                    runtime.refuse(Stop { keep_sessions: true });
                    return std::future::pending().await;
                }
                Err(error) if !told => {
                    told = true;
                    tracing::error!("{error}; no new connections are accepted; retrying every second");
                }
                Err(_) => {}
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    async fn listen_again(&mut self, path: &Path) -> Result<(), SocketError> {
        prepare_directory(path)?;
        if !self.claim.lock.is_there() {
            self.claim.lock = lock(path).await?;
        }
        if path.symlink_metadata().is_ok_and(|meta| !meta.file_type().is_socket()) {
            return Err(SocketError::NoSocket { path: path.to_owned() });
        }
        self.open = self.claim.open().await?;
        Ok(())
    }

    /// Accepts for ever. Each connection holds one permit while it lasts, and waits for one a while.
    pub(crate) async fn accept_all(
        &mut self,
        runtime: &Runtime,
        permits: &Arc<Semaphore>,
        most: u32,
        phase: &watch::Receiver<Phase>,
    ) {
        let room = Arc::new(Semaphore::new(most as usize + WAITING_ROOM));
        while let Ok(place) = Arc::clone(&room).acquire_owned().await {
            let accepted = tokio::select! {
                accepted = self.open.listener.accept() => accepted,
                () = self.removed() => {
                    self.come_back(runtime).await;
                    continue;
                }
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
                    continue;
                }
            };
            let friend = check_peer(&stream);
            let (runtime, phase, permits) = (runtime.clone(), phase.clone(), Arc::clone(permits));
            tokio::spawn(async move {
                let admitted = match friend {
                    Ok(()) => admit(permits, most).await,
                    Err(fault) => Err(fault),
                };
                match admitted {
                    Ok(permit) => {
                        serve(Connection::new(runtime, phase), stream).await;
                        drop(permit);
                    }
                    Err(fault) => turn_away(stream, fault).await,
                }
                drop(place);
            });
        }
    }
}

async fn admit(permits: Arc<Semaphore>, most: u32) -> Result<OwnedSemaphorePermit, Fault> {
    match tokio::time::timeout(WAIT, permits.acquire_owned()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) => Err(Fault::new(Code::ShuttingDown, "the daemon is ending")),
        Err(_) => Err(Fault::new(
            Code::ResourcePressure,
            format!(
                "{most} clients are connected to this daemon, and it serves no more at a time; close some connections, or start it with a larger TRL_MAX_CONNECTIONS"
            ),
        )),
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
