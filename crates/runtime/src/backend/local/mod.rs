//! Hosts as processes of this machine, reached over Unix sockets.
//!
//! Each host listens on a socket in `hosts/` and keeps its files in a directory of its own in
//! `sessions/`.

mod launcher;
mod memory;
mod orphans;
mod process;
mod shells;
mod spawn_host;
mod standby;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::Instant;
use trl_protocol::session::SessionInfo;
use trl_protocol::system::{PlaceFacts, RuntimeKind, ShellFound};
use trl_protocol::wire::SessionSpec;
use trl_protocol::{Fault, SessionId};
use trl_sys::private::make_private;
use trl_sys::shells::Search;

use super::host_dirs::{HostDirs, HostDirsError, Layout, SessionPaths};
use super::{
    Backend, BoxFuture, ConnectError, Connection, Damage, HostHandle, Listing, Liveness, LostSession,
    Prepared, Reached, SavedSession, Shell, StartRequest, StartedHost,
};
use crate::config::Config;
use crate::environment;
use launcher::Launcher;
use process::HostProcess;
use standby::Standby;

/// How long the standby host stays when there is no session any more.
const STANDBY_LINGER: Duration = Duration::from_secs(1);
/// How long a host whose socket was removed may take to make it again.
const SOCKET_PATIENCE: Duration = Duration::from_millis(500);
const SOCKET_POLL: Duration = Duration::from_millis(5);

/// The part of the daemon's configuration that concerns local hosts.
#[derive(Debug)]
struct LocalConfig {
    host_program: PathBuf,
    host_args: Vec<OsString>,
    /// Where hosts write what they have to say when nobody is connected.
    host_log: PathBuf,
    /// The daemon's environment.
    env: BTreeMap<String, String>,
    /// Where sessions begin by default: the first that exists.
    default_dirs: [PathBuf; 2],
    min_free_memory: u64,
    open_files: Option<u64>,
}

#[derive(Debug)]
struct State {
    config: LocalConfig,
    dirs: HostDirs,
    launcher: Launcher,
    standby: Standby,
    /// Hosts started so far.
    starts: AtomicU64,
}

/// The backend of sessions on this machine.
#[derive(Debug)]
pub struct Local(Arc<State>);

impl Local {
    /// Makes the directories, closed to other users.
    pub fn new(config: &Config) -> Result<Local, HostDirsError> {
        for dir in [&config.runtime_dir, &config.state_dir] {
            make_private(dir)?;
        }
        let local = Local::at(config);
        local.0.dirs.prepare()?;
        Ok(local)
    }

    pub(crate) fn at(config: &Config) -> Local {
        Local(Arc::new(State {
            dirs: HostDirs::new(
                Layout::Flat,
                config.runtime_dir.join("hosts"),
                config.state_dir.join("sessions"),
            ),
            config: LocalConfig {
                host_program: config.host_program.clone(),
                host_args: config.host_args.clone(),
                host_log: config.state_dir.join("host.log"),
                env: config.env.clone(),
                default_dirs: [config.working_dir.clone(), config.home_dir.clone()],
                min_free_memory: config.min_free_memory,
                open_files: config.open_files,
            },
            launcher: Launcher::default(),
            standby: Standby::default(),
            starts: AtomicU64::new(0),
        }))
    }

    fn shell_search(&self) -> Search<'_> {
        let env = &self.0.config.env;
        Search {
            path: env.get("PATH").map_or("", String::as_str),
            preferred: env.get("SHELL").map(String::as_str),
        }
    }

    fn working_dir(&self, asked: Option<&str>) -> Result<String, Fault> {
        let Some(asked) = asked else {
            let begin = self.0.config.default_dirs.iter().find(|dir| dir.is_dir());
            return begin.map_or_else(|| Ok("/".to_owned()), |dir| as_text(dir));
        };
        let path = Path::new(asked);
        let problem = if asked.contains('\0') {
            "has a NUL byte".to_owned()
        } else if !path.is_absolute() {
            "is not an absolute path".to_owned()
        } else {
            match path.metadata() {
                Ok(meta) if meta.is_dir() => return Ok(asked.to_owned()),
                Ok(_) => "is not a directory".to_owned(),
                Err(error) => error.to_string(),
            }
        };
        Err(Fault::invalid(format!("param `working_dir`: {asked:?}: {problem}"))
            .with_details(serde_json::json!({ "field": "working_dir" })))
    }

    fn prepared(&self, wanted: StartRequest<'_>) -> Result<Prepared, Fault> {
        memory::check(self.0.config.min_free_memory)?;
        let found = shells::resolve(wanted.shell, self.shell_search())?;
        let dialect = shells::dialect(found.kind);
        Ok(Prepared::Known {
            shell: Shell { name: found.name, path: as_text(&found.path)?, dialect },
            working_dir: self.working_dir(wanted.working_dir)?,
            env: environment::inherited(&self.0.config.env),
        })
    }

    fn paths(&self, id: SessionId) -> SessionPaths {
        self.0.dirs.of(id)
    }
}

impl Backend for Local {
    fn name(&self) -> &str {
        "local"
    }

    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Local
    }

    fn look(&self) -> BoxFuture<'_, Result<Option<PlaceFacts>, Fault>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn prepare<'a>(&'a self, wanted: StartRequest<'a>) -> BoxFuture<'a, Result<Prepared, Fault>> {
        Box::pin(std::future::ready(self.prepared(wanted)))
    }

    fn shells(&self) -> Vec<ShellFound> {
        shells::installed(self.shell_search())
    }

    fn is_unused(&self, id: SessionId) -> BoxFuture<'_, bool> {
        // A directory of that name may be all that is left of a session of another daemon.
        Box::pin(std::future::ready(!self.paths(id).state_dir.exists()))
    }

    fn start(&self, spec: SessionSpec) -> BoxFuture<'_, Result<StartedHost, Fault>> {
        Box::pin(async move {
            self.0.starts.fetch_add(1, Ordering::SeqCst);
            let paths = self.paths(spec.session_id);
            paths.make()?;
            let spec = SessionSpec {
                state_dir: as_text(&paths.state_dir)?,
                socket: as_text(&paths.socket)?,
                open_files: self.0.config.open_files,
                ..spec
            };
            spawn_host::start(&self.0, spec).await
        })
    }

    fn list(&self) -> BoxFuture<'_, Listing> {
        Box::pin(std::future::ready(self.0.dirs.list()))
    }

    fn connect(&self, id: SessionId) -> BoxFuture<'_, Result<Reached, ConnectError>> {
        Box::pin(async move {
            let stream = self.0.dirs.connect(id).await?;
            let pid = stream.peer_cred().ok().and_then(|peer| peer.pid());
            let pid = pid.and_then(|pid| u32::try_from(pid).ok());
            let host = pid.map(|pid| Arc::new(HostProcess::of(pid)) as Arc<dyn HostHandle>);
            let connection = Connection::unix(stream).map_err(ConnectError::Failed)?;
            Ok(Reached { connection, host })
        })
    }

    fn connect_for_descriptors(&self, id: SessionId) -> BoxFuture<'_, io::Result<UnixStream>> {
        Box::pin(async move {
            self.0.dirs.connect(id).await.map_err(|error| match error {
                ConnectError::Gone => io::ErrorKind::NotFound.into(),
                ConnectError::Failed(error) => error,
            })
        })
    }

    fn host_of(&self, info: &SessionInfo) -> Arc<dyn HostHandle> {
        Arc::new(HostProcess::of(info.host_pid))
    }

    fn find_without_address<'a>(&'a self, info: &'a SessionInfo) -> BoxFuture<'a, Liveness> {
        Box::pin(async move {
            if !process::is_host(info.host_pid, &self.0.config.host_args) {
                return Liveness::Dead;
            }
            // A host that has just lost its daemon makes its socket again if that was removed.
            let paths = self.paths(info.session_id);
            let begun = Instant::now();
            while !paths.has_socket() {
                if begun.elapsed() > SOCKET_PATIENCE {
                    return Liveness::Unreachable;
                }
                tokio::time::sleep(SOCKET_POLL).await;
            }
            Liveness::Back
        })
    }

    fn saved(&self, id: SessionId) -> BoxFuture<'_, Option<Result<SavedSession, Damage>>> {
        Box::pin(self.0.dirs.saved(id))
    }

    fn lost_session(&self, info: SessionInfo) -> BoxFuture<'_, Result<LostSession, Fault>> {
        Box::pin(self.0.dirs.lost_session(info))
    }

    fn unused_for(&self, id: SessionId) -> BoxFuture<'_, Option<Duration>> {
        Box::pin(std::future::ready(self.0.dirs.unused_for(id)))
    }

    fn end_orphans(&self, ids: Vec<SessionId>) -> BoxFuture<'_, ()> {
        Box::pin(orphans::end(ids))
    }

    fn remove_dead_address(&self, id: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(self.0.dirs.remove_dead_address(id))
    }

    fn remove(&self, id: SessionId) -> BoxFuture<'_, ()> {
        let paths = self.paths(id);
        Box::pin(async move { paths.remove_all().await })
    }

    fn no_sessions_left(&self) {
        let state = Arc::clone(&self.0);
        let starts = state.starts.load(Ordering::SeqCst);
        tokio::spawn(async move {
            tokio::time::sleep(STANDBY_LINGER).await;
            // Looked at again before each is ended: to end the first may take a while.
            let is_unused = || state.starts.load(Ordering::SeqCst) == starts;
            state.standby.clear_if(is_unused).await;
            state.launcher.clear_if(is_unused).await;
        });
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.0.standby.close().await;
            self.0.launcher.clear_if(|| true).await;
        })
    }
}

fn as_text(path: &Path) -> Result<String, Fault> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Fault::internal(format!("the path {} is not UTF-8", path.display())))
}
