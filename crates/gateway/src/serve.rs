//! The life of a daemon: claim, adopt, listen, serve, drain, end.

use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use trl_runtime::{Config, Runtime, StartError, Stop};

use crate::connection::Phase;
use crate::stdio;
use crate::unix::{Claim, Listener, MAX_CONNECTIONS, SocketError};

/// How long answers under way may take once all sessions have ended.
const DRAIN: Duration = Duration::from_secs(2);
/// The same where sessions are kept: what is not over now may take for ever.
const DRAIN_KEPT: Duration = Duration::from_millis(200);
/// How long clients may take to read their last answers.
const FLUSH: Duration = Duration::from_secs(1);

/// Which transports a daemon has.
#[derive(Default)]
pub struct GatewayConfig {
    /// Path of the Unix socket.
    pub socket: Option<PathBuf>,
    /// Speak on stdin and stdout too. Without a socket the daemon ends with its stdin.
    pub stdio: bool,
    /// Called once, when clients can connect.
    pub on_ready: Option<Box<dyn FnOnce() + Send>>,
}

impl fmt::Debug for GatewayConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GatewayConfig { socket, stdio, on_ready: _ } = self;
        f.debug_struct("GatewayConfig").field("socket", socket).field("stdio", stdio).finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the event loop cannot be set up: {0}")]
    EventLoop(io::Error),
    #[error("there is nothing to serve on; give --socket or --stdin")]
    NoTransport,
}

/// Runs [`serve`] on an event loop of its own, on this thread: hand-offs between
/// threads would cost more than the work between them.
pub fn serve_blocking(
    gateway: GatewayConfig,
    config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let event_loop =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ServeError::EventLoop)?;
    let result = event_loop.block_on(serve(gateway, config, shutdown));
    // A read of stdin cannot be called back; the process ends without it.
    event_loop.shutdown_background();
    result
}

/// Serves until `shutdown` resolves, a request asks for the end, or stdin ends where
/// that is the only transport. Sessions end with the daemon unless they are to be kept.
pub async fn serve(
    mut gateway: GatewayConfig,
    mut config: Config,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    // Sessions are told this path, and do not share our working directory.
    gateway.socket = gateway.socket.map(|path| std::path::absolute(&path).unwrap_or(path));
    let claim = match &gateway.socket {
        Some(path) => Some(Claim::take(path).await?),
        None => None,
    };
    if claim.is_none() && !gateway.stdio {
        return Err(ServeError::NoTransport);
    }
    let scope = Scope::of(gateway.socket.as_deref(), &config.runtime_dir);
    scope.apply(&mut config);
    config.socket.clone_from(&gateway.socket);
    let keep_sessions = config.keep_sessions;
    let dirs = [config.runtime_dir.clone(), config.state_dir.clone()];
    let runtime = Runtime::start(config).await?;
    let listener = claim.map(Claim::listen).transpose()?;
    if let Some(ready) = gateway.on_ready {
        ready();
    }
    tracing::info!(pid = std::process::id(), "serving");

    let (phase, watched) = watch::channel(Phase::Open);
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS as usize));
    let only_stdio = listener.is_none();
    let mut stdio = gateway.stdio.then(|| tokio::spawn(stdio::serve(runtime.clone(), watched.clone())));
    let stdio_over = async {
        match &mut stdio {
            Some(serving) if only_stdio => drop(serving.await),
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        () = shutdown => {}
        _ = runtime.stop_requested() => {}
        () = stdio_over => {}
        () = accept(listener.as_ref(), &runtime, &connections, &watched) => {}
    }
    runtime.refuse(Stop { keep_sessions });
    let claim = listener.map(Listener::close);
    let kept = runtime.end().await;
    let patience = if kept { DRAIN_KEPT } else { DRAIN };
    drain(&phase, patience, &connections, stdio).await;
    runtime.close_mail().await;
    scope.tidy(&dirs);
    drop(claim);
    tracing::info!("ended");
    Ok(())
}

async fn accept(
    listener: Option<&Listener>,
    runtime: &Runtime,
    connections: &Arc<Semaphore>,
    phase: &watch::Receiver<Phase>,
) {
    match listener {
        Some(listener) => listener.accept_all(runtime, connections, phase).await,
        None => std::future::pending().await,
    }
}

/// Lets every connection finish what it is about, within bounds.
async fn drain(
    phase: &watch::Sender<Phase>,
    patience: Duration,
    connections: &Semaphore,
    stdio: Option<tokio::task::JoinHandle<()>>,
) {
    let mut stdio = stdio.filter(|serving| !serving.is_finished());
    let mut all_over = std::pin::pin!(async {
        let _ = connections.acquire_many(MAX_CONNECTIONS).await;
        if let Some(serving) = &mut stdio {
            let _ = serving.await;
        }
    });
    for (step, patience) in [(Phase::Draining, patience), (Phase::Closing, FLUSH)] {
        phase.send_replace(step);
        if tokio::time::timeout(patience, &mut all_over).await.is_ok() {
            return;
        }
    }
    tracing::warn!("some clients did not take their last answers");
}

/// Daemons on different sockets may share their directories, but not their sessions:
/// each finds again after a crash what it had itself.
#[derive(Debug, PartialEq, Eq)]
struct Scope(Option<String>);

impl Scope {
    fn of(socket: Option<&Path>, runtime_dir: &Path) -> Scope {
        let Some(socket) = socket else { return Scope(Some(format!("at-stdio-{}", std::process::id()))) };
        if socket == runtime_dir.join("trl.sock") {
            return Scope(None);
        }
        let parent = socket.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
        let path = parent.join(socket.file_name().unwrap_or_default());
        Scope(Some(format!("at-{:08x}", fingerprint(path.as_os_str().as_encoded_bytes()))))
    }

    fn apply(&self, config: &mut Config) {
        if let Some(name) = &self.0 {
            config.runtime_dir.push(name);
            config.state_dir.push(name);
        }
    }

    /// Leaves no directories that only this daemon's socket gave rise to, if nothing is in them.
    fn tidy(&self, dirs: &[PathBuf; 2]) {
        let [runtime_dir, state_dir] = dirs;
        let log = state_dir.join("host.log");
        if self.0.is_none() {
            return;
        }
        if log.metadata().is_ok_and(|meta| meta.len() == 0) {
            // Whatever stays is found again by the next daemon on this socket.
            let _ = std::fs::remove_file(log);
        }
        for dir in [&runtime_dir.join("hosts"), runtime_dir, &state_dir.join("sessions"), state_dir] {
            let _ = std::fs::remove_dir(dir);
        }
    }
}

/// FNV-1a: it must stay the same in every version, since it is part of a path.
fn fingerprint(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_socket_has_its_own_sessions() {
        let scope = |socket: &str| Scope::of(Some(Path::new(socket)), Path::new("/run/trl"));
        assert_eq!(scope("/run/trl/trl.sock"), Scope(None));
        assert_ne!(scope("/run/trl/a.sock"), scope("/run/trl/b.sock"));
        assert_eq!(scope("/tmp/../tmp/a.sock"), scope("/tmp/a.sock"));
        assert_eq!(fingerprint(b"foobar"), 0xbf9c_f968);
    }
}
