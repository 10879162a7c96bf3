//! Hosts in containers that are made for their sessions and removed with them.
//!
//! The host program, the session's files and the directory of its socket are mounted into the
//! container, so the daemon speaks to the host directly, and what a killed container leaves
//! can be read here. The image needs nothing but a shell. The host is the first process of
//! its container: when it ends, so does everything in it.

mod engine;
mod given;
mod options;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::sleep;
use trl_protocol::session::SessionInfo;
use trl_protocol::system::{PlaceFacts, RuntimeKind, ShellFound};
use trl_protocol::wire::SessionSpec;
use trl_protocol::{Fault, SessionId};

use super::host_dirs::{HostDirs, HostDirsError, Layout, SessionPaths};
use super::host_program::HostProgram;
use super::{
    Backend, BoxFuture, ConnectError, Connection, Damage, GreetError, HostHandle, Listing, Liveness,
    LostSession, Prepared, Reached, SavedSession, StartRequest, StartedHost, greet,
};
use crate::config::Config;
pub(super) use engine::Engine;
use engine::unavailable;
use options::{EngineTraits, Options};

/// Where things are inside a container.
const HOST: &str = "/.trl/host";
const STATE: &str = "/.trl/state";
const RUN: &str = "/.trl/run";
/// The socket for the first daemon, in the directory of the session's own.
const FIRST: &str = "first";

/// From the engine's answer until the host listens: it only has to be loaded.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two looks for the host's socket. The mount tells nobody when it appears.
const LISTEN_POLL: Duration = Duration::from_millis(2);
/// Between two looks whether the container is still there.
const ALIVE_POLL: Duration = Duration::from_secs(1);
/// How long the shell may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Sessions in containers of one image.
#[derive(Debug)]
pub struct Container {
    name: String,
    display_name: String,
    image: String,
    engine: Option<String>,
    env: std::collections::BTreeMap<String, String>,
    host_program: HostProgram,
    dirs: HostDirs,
}

/// What a daemon needs to know of its containers: which image, and where their files are.
#[derive(Debug)]
pub struct ContainerPlace {
    pub image: String,
    pub hosts: PathBuf,
    pub sessions: PathBuf,
}

impl Container {
    pub fn new(config: &Config, place: ContainerPlace) -> Result<Container, HostDirsError> {
        let dirs = HostDirs::new(Layout::PerSession, place.hosts, place.sessions);
        dirs.prepare()?;
        let name = format!("container:{}", place.image);
        Ok(Container {
            display_name: config.name_of(&name).to_owned(),
            name,
            image: place.image,
            engine: config.container_engine.clone(),
            env: config.env.clone(),
            host_program: HostProgram::of(config),
            dirs,
        })
    }

    fn engine(&self) -> Result<Engine, Fault> {
        Engine::find(self.engine.as_deref(), &self.env)
    }

    fn host_program(&self) -> Result<&Path, Fault> {
        self.host_program.file().map_err(unavailable)
    }

    fn handle(&self, id: SessionId) -> Arc<dyn HostHandle> {
        Arc::new(ContainerHandle { container: container_name(id), engine: self.engine().ok() })
    }

    /// The arguments of the engine that make a session's container.
    fn run_args(
        &self,
        id: SessionId,
        paths: &SessionPaths,
        host: &Path,
        options: Vec<String>,
    ) -> Vec<String> {
        let mount =
            |outside: &Path, inside: &str, options: &str| format!("{}:{inside}{options}", outside.display());
        let run_dir = paths.socket.parent().unwrap_or(&paths.socket);
        let mut args: Vec<String> = ["run", "-d", "--pull", "never"].map(str::to_owned).to_vec();
        // A host is asked to end by its daemon; when its container is to go, it goes at once.
        args.extend(["--stop-signal", "SIGKILL", "--name"].map(str::to_owned));
        args.push(container_name(id));
        let labels = [format!("trl.session={id}"), format!("trl.state={}", paths.state_dir.display())];
        for label in labels {
            args.extend(["--label".to_owned(), label]);
        }
        for mounted in [mount(host, HOST, ":ro"), mount(&paths.state_dir, STATE, ""), mount(run_dir, RUN, "")]
        {
            args.extend(["-v".to_owned(), mounted]);
        }
        args.extend(options);
        args.extend(["--entrypoint".to_owned(), HOST.to_owned(), self.image.clone()]);
        args.extend(self.host_program.first_words().iter().map(|word| (*word).to_owned()));
        args.extend(["--listen".to_owned(), format!("{RUN}/{FIRST}")]);
        args
    }

    async fn start_host(&self, spec: SessionSpec) -> Result<StartedHost, Fault> {
        let (engine, id) = (self.engine()?, spec.session_id);
        let host = self.host_program()?;
        let paths = self.dirs.of(id);
        paths.make()?;
        let traits = EngineTraits { name: engine.name(), empty_option: empty_option(&engine, &spec).await? };
        let Options { args, report } = Options::of(&spec, &traits, &given::look)?;
        let spec = SessionSpec {
            state_dir: STATE.to_owned(),
            socket: format!("{RUN}/sock"),
            outside: report.map(Box::new),
            ..spec
        };
        let ran = engine.run_in(&paths.state_dir, self.run_args(id, &paths, host, args)).await?;
        if !ran.is_ok() {
            let fault = self.explain(&engine, &ran.complaint()).await;
            engine.remove(&container_name(id)).await;
            return Err(fault);
        }
        match self.hand_over(&engine, &paths, spec).await {
            Ok(greeted) => Ok(StartedHost { greeted, host: self.handle(id) }),
            Err(fault) => {
                engine.remove(&container_name(id)).await;
                Err(fault)
            }
        }
    }

    /// Why a container could not be made.
    async fn explain(&self, engine: &Engine, complaint: &str) -> Fault {
        let (image, name) = (&self.image, engine.name());
        if !engine.has_image(image).await {
            if let Some(fault) = engine.obstacle().await {
                return fault;
            }
            return unavailable(format!(
                "the image {image:?} is not on this machine; get it with `{name} pull {image}` and try again"
            ));
        }
        let remedy = match complaint.contains(HOST) {
            true => format!("; {}", self.host_program.remedy()),
            false => String::new(),
        };
        unavailable(format!("{name} could not make a container of {image:?}: {complaint}{remedy}"))
    }

    /// Why nobody listens in a new container.
    async fn silent(&self, engine: &Engine, id: SessionId) -> Fault {
        let logs = engine.run(["logs", &container_name(id)]).await;
        let said = logs.map(|logs| logs.complaint()).unwrap_or_default();
        let (image, remedy) = (&self.image, self.host_program.remedy());
        unavailable(format!(
            "the host of session {id} does not run in a container of {image:?}; it said: {said}; {remedy}"
        ))
    }

    async fn hand_over(
        &self,
        engine: &Engine,
        paths: &SessionPaths,
        spec: SessionSpec,
    ) -> Result<super::Greeted, Fault> {
        let id = spec.session_id;
        let first = paths.socket.with_file_name(FIRST);
        let stream = tokio::select! {
            stream = connected(&first) => stream,
            () = sleep(LISTEN_TIMEOUT) => return Err(self.silent(engine, id).await),
            () = stopped(engine, id) => return Err(self.silent(engine, id).await),
        };
        let failed = |what: String| unavailable(format!("the host of session {id} did not start: {what}"));
        let connection = Connection::unix(stream).map_err(|error| failed(error.to_string()))?;
        match tokio::time::timeout(START_TIMEOUT, greet(connection, Some(Box::new(spec)))).await {
            Ok(Ok(greeted)) => Ok(greeted),
            Ok(Err(GreetError::Refused(fault))) => Err(fault),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed(format!("no answer within {} s", START_TIMEOUT.as_secs()))),
        }
    }
}

/// Resolves when the host listens, and takes the connection.
async fn connected(socket: &Path) -> UnixStream {
    loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => return stream,
            Err(_) => sleep(LISTEN_POLL).await,
        }
    }
}

/// Resolves when the container has ended. It is asked for seldom: that costs more than a start.
async fn stopped(engine: &Engine, id: SessionId) {
    loop {
        sleep(ALIVE_POLL).await;
        if engine.is_running(&container_name(id)).await == Some(false) {
            return;
        }
    }
}

/// The engine is asked only if something is to be hidden: its answer takes as long as half a start.
async fn empty_option(engine: &Engine, spec: &SessionSpec) -> Result<&'static str, Fault> {
    match spec.isolation.as_ref().is_some_and(|isolation| !isolation.is_none()) {
        true => engine.empty_option().await,
        false => Ok(""),
    }
}

fn container_name(id: SessionId) -> String {
    format!("trl-{id}")
}

impl Backend for Container {
    fn name(&self) -> &str {
        &self.name
    }

    fn display_name(&self) -> &str {
        &self.display_name
    }

    fn kind(&self) -> RuntimeKind {
        RuntimeKind::Container
    }

    fn look(&self) -> BoxFuture<'_, Result<Option<PlaceFacts>, Fault>> {
        Box::pin(async {
            let engine = self.engine()?;
            self.host_program()?;
            match engine.has_image(&self.image).await {
                true => Ok(None),
                false => Err(self.explain(&engine, "").await),
            }
        })
    }

    fn prepare<'a>(&'a self, _: StartRequest<'a>) -> BoxFuture<'a, Result<Prepared, Fault>> {
        let checked = self.engine().and_then(|_| self.host_program().map(drop));
        Box::pin(std::future::ready(checked.map(|()| Prepared::ByHost)))
    }

    fn shells(&self) -> Vec<ShellFound> {
        Vec::new()
    }

    fn is_unused(&self, id: SessionId) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(!self.dirs.of(id).state_dir.exists()))
    }

    fn start(&self, spec: SessionSpec) -> BoxFuture<'_, Result<StartedHost, Fault>> {
        Box::pin(self.start_host(spec))
    }

    fn list(&self) -> BoxFuture<'_, Listing> {
        Box::pin(std::future::ready(self.dirs.list()))
    }

    fn connect(&self, id: SessionId) -> BoxFuture<'_, Result<Reached, ConnectError>> {
        Box::pin(async move {
            let connection = Connection::unix(self.dirs.connect(id).await?).map_err(ConnectError::Failed)?;
            Ok(Reached { connection, host: Some(self.handle(id)) })
        })
    }

    fn host_of(&self, info: &SessionInfo) -> Arc<dyn HostHandle> {
        self.handle(info.session_id)
    }

    fn find_without_address<'a>(&'a self, _: &'a SessionInfo) -> BoxFuture<'a, Liveness> {
        Box::pin(std::future::ready(Liveness::Dead))
    }

    fn saved(&self, id: SessionId) -> BoxFuture<'_, Option<Result<SavedSession, Damage>>> {
        Box::pin(self.dirs.saved(id))
    }

    fn lost_session(&self, info: SessionInfo) -> BoxFuture<'_, Result<LostSession, Fault>> {
        Box::pin(self.dirs.lost_session(info))
    }

    fn unused_for(&self, id: SessionId) -> BoxFuture<'_, Option<Duration>> {
        Box::pin(std::future::ready(self.dirs.unused_for(id)))
    }

    /// Whatever a session started is in its container, which ended with its host.
    fn end_orphans(&self, ids: Vec<SessionId>) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let Ok(engine) = self.engine() else { return };
            for id in ids {
                engine.remove(&container_name(id)).await;
            }
        })
    }

    fn remove_dead_address(&self, id: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(self.dirs.remove_dead_address(id))
    }

    fn remove(&self, id: SessionId) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Ok(engine) = self.engine() {
                engine.remove(&container_name(id)).await;
            }
            self.dirs.of(id).remove_all().await;
        })
    }
}

/// The container of one session.
#[derive(Debug)]
struct ContainerHandle {
    container: String,
    engine: Option<Engine>,
}

impl HostHandle for ContainerHandle {
    fn describe(&self) -> String {
        format!("container {}", self.container)
    }

    fn kill(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            let Some(engine) = &self.engine else { return false };
            engine.run(["kill", "-s", "KILL", &self.container]).await.is_ok_and(|ran| ran.is_ok())
        })
    }

    fn gone(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            if let Some(engine) = &self.engine {
                // Fails at once for one that is gone already.
                let _ = engine.run(["wait", &self.container]).await;
            }
        })
    }

    fn resume(&self) {}

    fn is_stopped(&self) -> bool {
        false
    }
}
