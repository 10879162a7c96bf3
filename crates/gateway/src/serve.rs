//! The life of a daemon: claim, adopt, listen, serve, drain, end.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use trl_client::home_mark;
use trl_protocol::limits;
use trl_runtime::{BoxFuture, Config, Runtime, Served, StartError, Stop};

use crate::connection::Phase;
use crate::http::{self, HttpConfig, HttpError};
use crate::mcp;
use crate::stdio;
use crate::unix::{Claim, Listener, SocketError};

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
    /// Nobody named the socket: if another daemon has it, serve without.
    pub socket_if_free: bool,
    /// Speak on stdin and stdout too. Without a socket the daemon ends with its stdin.
    pub stdio: bool,
    /// Speak MCP on stdin and stdout; as with `stdio`, they may be all there is.
    pub stdio_mcp: Option<trl_mcp::Settings>,
    pub http: Option<HttpConfig>,
    /// MCP at `/mcp` where HTTP is served.
    pub http_mcp: Option<trl_mcp::Settings>,
    /// Nobody asked this daemon in particular for HTTP: if it cannot be had, serve without.
    pub http_if_possible: bool,
    /// Clients at a time, over the socket and as many over HTTP.
    pub max_connections: Option<u32>,
    /// Called once, when clients can connect, with where HTTP is served.
    pub on_ready: Option<Box<dyn FnOnce(Option<SocketAddr>) + Send>>,
}

impl fmt::Debug for GatewayConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GatewayConfig { socket, socket_if_free, stdio, http, http_if_possible, .. } = self;
        f.debug_struct("GatewayConfig")
            .field("socket", socket)
            .field("stdio", stdio)
            .field("socket_if_free", socket_if_free)
            .field("http", http)
            .field("http_if_possible", http_if_possible)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("the event loop cannot be set up: {0}")]
    EventLoop(io::Error),
    #[error("there is nothing to serve on; give --socket, --stdin or --http")]
    NoTransport,
}

/// Runs [`serve`] on an event loop of its own, on this thread: hand-offs between
/// threads would cost more than the work between them.
pub fn serve_blocking(
    gateway: GatewayConfig,
    config: Config,
    shutdown: BoxFuture<'static, ()>,
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
    // Signals are heard from here on: one that comes while the daemon starts ends it in good order.
    let mut shutdown = std::pin::pin!(shutdown);
    let ends_at_once = poll_fn(|context| Poll::Ready(shutdown.as_mut().poll(context).is_ready())).await;
    // Sessions are told this path, and do not share our working directory.
    gateway.socket = gateway.socket.map(|path| std::path::absolute(&path).unwrap_or(path));
    let (claim, web) = claim(&mut gateway).await?;
    if claim.is_none() && web.is_none() && !gateway.stdio && gateway.stdio_mcp.is_none() {
        return Err(ServeError::NoTransport);
    }
    let address = web.as_ref().map(|web| web.address);
    let scope = Scope::of(gateway.socket.as_deref(), address, &config.runtime_dir);
    scope.apply(&mut config);
    config.socket.clone_from(&gateway.socket);
    config.announced.http =
        web.as_ref().map(|web| Served { address: web.address, certificate: web.certificate.clone() });
    let keep_sessions = config.keep_sessions;
    let dirs = [config.runtime_dir.clone(), config.state_dir.clone()];
    let runtime = Runtime::start(config).await?;
    // Before anybody can connect: clients of another home are to see that this is not theirs.
    let marked = gateway.socket.as_deref().filter(|_| scope.is_default());
    if let Some(Err(error)) = marked.map(|socket| home_mark::write(socket, &dirs[1])) {
        tracing::warn!(%error, "the daemon's home could not be noted beside its socket");
    }
    let mut listener = match claim {
        Some(claim) => Some(claim.listen().await?),
        None => None,
    };
    if let Some(ready) = gateway.on_ready {
        ready(address);
    }
    tracing::info!(pid = std::process::id(), "serving");

    let (phase, watched) = watch::channel(Phase::Open);
    let most = gateway.max_connections.unwrap_or(limits::DEFAULT_MAX_CONNECTIONS);
    let connections = Arc::new(Semaphore::new(most as usize));
    let web_connections = Arc::new(Semaphore::new(most as usize));
    let only_stdio = listener.is_none() && web.is_none();
    let mut stdio = match gateway.stdio_mcp {
        Some(settings) => Some(tokio::spawn(mcp::serve_stdio(settings, runtime.clone(), watched.clone()))),
        None => gateway.stdio.then(|| tokio::spawn(stdio::serve(runtime.clone(), watched.clone()))),
    };
    let stdio_over = async {
        match &mut stdio {
            Some(serving) if only_stdio => drop(serving.await),
            _ => std::future::pending().await,
        }
    };
    let web = web.map(|web| {
        let also = gateway.http_mcp.map(|settings| mcp::route(settings, runtime.clone(), watched.clone()));
        let also = also.unwrap_or_default();
        web.accept_all(runtime.clone(), Arc::clone(&web_connections), most, watched.clone(), also)
    });
    tokio::select! {
        () = async { if !ends_at_once { shutdown.await } } => {}
        _ = runtime.stop_requested() => {}
        () = stdio_over => {}
        () = accept(listener.as_mut(), &runtime, &connections, most, &watched) => {}
        () = if_any(web) => {}
    }
    runtime.refuse(Stop { keep_sessions });
    let claim = listener.map(Listener::close);
    let kept = runtime.end().await;
    let patience = if kept { DRAIN_KEPT } else { DRAIN };
    let open = [(&*connections, most), (&*web_connections, most)];
    drain(&phase, patience, open, stdio).await;
    runtime.close_mail().await;
    scope.tidy(&dirs);
    if let Some(Err(error)) = marked.filter(|_| !kept).map(home_mark::remove) {
        tracing::warn!(%error, "a file beside the socket could not be removed");
    }
    drop(claim);
    tracing::info!("ended");
    Ok(())
}

/// Takes the places that others could have too, before anything is touched.
async fn claim(gateway: &mut GatewayConfig) -> Result<(Option<Claim>, Option<http::Listener>), ServeError> {
    let claim = match &gateway.socket {
        None => None,
        Some(path) => match Claim::take(path).await {
            Ok(claim) => Some(claim),
            Err(error @ SocketError::Taken { .. }) if gateway.socket_if_free => {
                tracing::warn!("{error}; this one serves HTTP only");
                gateway.socket = None;
                None
            }
            Err(error) => return Err(error.into()),
        },
    };
    let patience = claim.as_ref().map(Claim::patience).unwrap_or_default();
    let web = match gateway.http.take() {
        None => None,
        Some(config) => match http::Listener::bind(config, patience).await {
            Ok(web) => Some(web),
            Err(error) if gateway.http_if_possible => {
                tracing::warn!("{error}; going on without");
                None
            }
            Err(error) => return Err(error.into()),
        },
    };
    Ok((claim, web))
}

/// What is not there never ends.
async fn if_any(serving: Option<impl Future<Output = ()>>) {
    match serving {
        Some(serving) => serving.await,
        None => std::future::pending().await,
    }
}

async fn accept(
    listener: Option<&mut Listener>,
    runtime: &Runtime,
    connections: &Arc<Semaphore>,
    most: u32,
    phase: &watch::Receiver<Phase>,
) {
    if_any(listener.map(|listener| listener.accept_all(runtime, connections, most, phase))).await;
}

/// Lets every connection finish what it is about, within bounds.
async fn drain(
    phase: &watch::Sender<Phase>,
    patience: Duration,
    open: [(&Semaphore, u32); 2],
    stdio: Option<tokio::task::JoinHandle<()>>,
) {
    let mut stdio = stdio.filter(|serving| !serving.is_finished());
    let mut all_over = std::pin::pin!(async {
        for (connections, most) in open {
            let _ = connections.acquire_many(most).await;
        }
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
    fn of(socket: Option<&Path>, web: Option<SocketAddr>, runtime_dir: &Path) -> Scope {
        let Some(socket) = socket else {
            return Scope(Some(match web {
                None => format!("at-stdio-{}", std::process::id()),
                Some(address) => format!("at-{:08x}", fingerprint(address.to_string().as_bytes())),
            }));
        };
        if socket == runtime_dir.join("trl.sock") {
            return Scope(None);
        }
        let parent = socket.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let parent = parent.canonicalize().unwrap_or_else(|_| parent.to_owned());
        let path = parent.join(socket.file_name().unwrap_or_default());
        Scope(Some(format!("at-{:08x}", fingerprint(path.as_os_str().as_encoded_bytes()))))
    }

    /// On the socket that clients look for by default.
    fn is_default(&self) -> bool {
        self.0.is_none()
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
        let scope = |socket: &str| Scope::of(Some(Path::new(socket)), None, Path::new("/run/trl"));
        assert_eq!(scope("/run/trl/trl.sock"), Scope(None));
        assert_ne!(scope("/run/trl/a.sock"), scope("/run/trl/b.sock"));
        assert_eq!(scope("/tmp/../tmp/a.sock"), scope("/tmp/a.sock"));
        let web = |address: &str| Scope::of(None, Some(address.parse().unwrap()), Path::new("/run/trl"));
        assert_ne!(web("127.0.0.1:80"), web("127.0.0.1:81"));
        assert_eq!(fingerprint(b"foobar"), 0xbf9c_f968);
    }
}
