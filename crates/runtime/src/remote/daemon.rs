//! One daemon on another machine: how it is reached, and what its faults are called here.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::UnixStream;
use trl_client::remote::{self, Dial, DialError};
use trl_client::{Client, Error};
use trl_protocol::exec::{self, ExecInfo};
use trl_protocol::session::{self, Foreign, SessionInfo};
use trl_protocol::system::{NoParams, PlaceFacts};
use trl_protocol::{Code, Fault, Method, SessionId, methods};

use super::access::Access;
use crate::backend::known::KnownSessions;
use crate::health::Health;

/// How long a request that has lost its connection waits for another.
const RESUME_PATIENCE: Duration = Duration::from_secs(120);
/// How long a new request waits for a daemon that was there a moment ago: it may just be replaced.
const RESTART_PATIENCE: Duration = Duration::from_secs(3);
/// Between two attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct RemoteDaemon {
    name: String,
    access: Access,
    client: Client,
    health: Health,
    known: KnownSessions,
    /// Whether a task follows its changes.
    watched: AtomicBool,
    /// Whether it has been asked for its sessions and has not answered in time.
    overdue: AtomicBool,
    /// The names there of sessions that are being made for us.
    making: Mutex<BTreeSet<String>>,
}

impl RemoteDaemon {
    pub(super) fn new(name: &str, access: Access, health: &Health, known: PathBuf) -> RemoteDaemon {
        let dialer = Dialer { name: name.to_owned(), access: access.clone(), health: health.clone() };
        RemoteDaemon {
            name: name.to_owned(),
            access,
            client: Client::remote(dialer),
            health: health.clone(),
            known: KnownSessions::in_dir(known),
            watched: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
            making: Mutex::default(),
        }
    }

    /// The name by which requests ask for it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn is_ready(&self) -> bool {
        self.health.is_ready(&self.name)
    }

    pub(super) fn remembered(&self) -> Vec<SessionInfo> {
        self.known.all()
    }

    pub(super) fn remember(&self, info: &SessionInfo) {
        self.known.remember(info);
    }

    pub(super) fn forget(&self, id: SessionId) {
        self.known.forget(id);
    }

    /// True for the one that is to follow its changes.
    pub(super) fn begin_watch(&self) -> bool {
        !self.watched.swap(true, Ordering::SeqCst)
    }

    pub(super) fn end_watch(&self) {
        self.watched.store(false, Ordering::SeqCst);
    }

    pub(super) fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::SeqCst)
    }

    pub(super) fn set_overdue(&self, overdue: bool) {
        self.overdue.store(overdue, Ordering::SeqCst);
    }

    /// A session is being made there under this name, until the guard is dropped.
    pub(super) fn making(self: &Arc<Self>, name: &str) -> Making {
        self.lock_making().insert(name.to_owned());
        Making { daemon: Arc::clone(self), name: name.to_owned() }
    }

    pub(super) fn is_making(&self, name: Option<&str>) -> bool {
        name.is_some_and(|name| self.lock_making().contains(name))
    }

    fn lock_making(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.making.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection to it ended, and nobody has made another yet.
    pub(super) fn lost_contact(&self, reason: &str) {
        self.health.failed(&self.name, reason);
    }

    pub(super) async fn call<M: Method>(&self, params: &M::Params) -> Result<M::Reply, Fault> {
        self.client.call::<M>(params).await.map_err(|error| self.fault(error))
    }

    /// Its own sessions. Those that it has on others are theirs, and it would ask them, and they perhaps us.
    pub(super) async fn sessions(&self) -> Result<Vec<SessionInfo>, Fault> {
        let own = session::ListParams { own: true };
        let listed = match self.call::<methods::SessionList>(&own).await {
            // It is older than that word, and asks nobody for others.
            Err(fault) if fault.code == Code::InvalidParams => {
                self.call::<methods::SessionList>(&session::ListParams::default()).await
            }
            listed => listed,
        };
        listed.map(|listed| listed.sessions)
    }

    /// The commands in them.
    pub(super) async fn execs(&self) -> Result<Vec<ExecInfo>, Fault> {
        let own = exec::ListParams { session_id: None, own: true };
        let listed = match self.call::<methods::ExecList>(&own).await {
            Err(fault) if fault.code == Code::InvalidParams => {
                self.call::<methods::ExecList>(&exec::ListParams { own: false, ..own }).await
            }
            listed => listed,
        };
        listed.map(|listed| listed.execs)
    }

    /// What the place is like, and how long an answer takes.
    pub(crate) async fn look(&self) -> Result<(Option<PlaceFacts>, Duration), Fault> {
        let runtimes = match self.call::<methods::SystemRuntimes>(&NoParams {}).await {
            Ok(found) => found.runtimes,
            // What the place is like is not for everybody.
            Err(fault) if fault.code == Code::AuthFailed => Vec::new(),
            Err(fault) => return Err(fault),
        };
        // On a connection that is there already.
        let asked = Instant::now();
        self.call::<methods::SystemPing>(&NoParams {}).await?;
        let took = asked.elapsed();
        let its_own = runtimes.into_iter().find(|found| found.default);
        let facts = its_own.map(|found| PlaceFacts {
            hostname: found.hostname,
            os: found.os,
            arch: found.arch,
            cpus: found.cpus,
            memory_bytes: found.memory_bytes,
            load: found.load,
            shells: found.shells,
            isolation: found.isolation,
            version: Some(found.version),
            free_sessions: Some(found.max_sessions.saturating_sub(found.sessions)),
        });
        Ok((facts, took))
    }

    pub(super) fn fault(&self, error: Error) -> Fault {
        let name = &self.name;
        let unavailable = |message: String| {
            Fault::new(Code::RuntimeUnavailable, message).with_details(serde_json::json!({ "runtime": name }))
        };
        match error {
            Error::Fault(fault) if fault.code == Code::AuthFailed => {
                Fault { message: format!("{} refuses: {}", self.described(), fault.message).into(), ..fault }
            }
            Error::Fault(fault) if fault.code == Code::ShuttingDown => {
                unavailable(format!("{} is shutting down; try again when it is back", self.described()))
            }
            Error::Fault(fault) => fault,
            Error::Remote(DialError::Unreachable(reason)) => unavailable(format!(
                "{} cannot be reached: {reason}; check that a daemon serves HTTP there (`trl serve --http`) and that the network leads to it",
                self.described()
            )),
            Error::Remote(DialError::Refused(reason) | DialError::Denied(reason)) => {
                unavailable(format!("{} cannot be used: {reason}", self.described()))
            }
            Error::Lost { method } => unavailable(format!(
                "the connection to {} was lost before it answered {method}, which may have been done; session.info and exec.list tell",
                self.described()
            )),
            other => Fault::internal(format!("{}: {other}", self.described())),
        }
    }

    /// Why it lets us in no more, if it was granted and the grant is over. A token in a file can be replaced.
    pub(super) fn end_of_grant(&self, error: &Error) -> Option<String> {
        self.access.granted_by()?;
        match error {
            Error::Fault(fault) if fault.code == Code::AuthFailed => Some(fault.message.to_string()),
            Error::Remote(DialError::Denied(reason)) => Some(reason.clone()),
            _ => None,
        }
    }

    pub(super) fn granted_by(&self) -> Option<String> {
        self.access.granted_by()
    }

    /// With whoever has granted it, who is the one to ask.
    fn described(&self) -> String {
        match self.access.granted_by() {
            Some(by) => format!("the runtime {:?} (granted by {by})", self.name),
            None => format!("the runtime {:?}", self.name),
        }
    }
}

/// A name that is a session of ours there, or is about to be.
pub(super) struct Making {
    daemon: Arc<RemoteDaemon>,
    name: String,
}

impl Drop for Making {
    fn drop(&mut self) {
        self.daemon.lock_making().remove(&self.name);
    }
}

#[derive(Debug)]
struct Dialer {
    name: String,
    access: Access,
    health: Health,
}

impl Dialer {
    async fn once(&self) -> Result<UnixStream, DialError> {
        let opened = remote::open(&self.access.read()?).await;
        match &opened {
            Ok(_) => self.health.reached(&self.name),
            Err(error) => self.health.failed(&self.name, &error.to_string()),
        }
        opened
    }
}

impl Dial for Dialer {
    fn dial(&self, again: bool) -> Pin<Box<dyn Future<Output = Result<UnixStream, DialError>> + Send + '_>> {
        Box::pin(async move {
            let patience = match (again, self.health.is_ready(&self.name)) {
                (true, _) => RESUME_PATIENCE,
                (false, true) => RESTART_PATIENCE,
                (false, false) => Duration::ZERO,
            };
            let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
            loop {
                match self.once().await {
                    Err(DialError::Unreachable(_)) if begun.elapsed() + pause < patience => {}
                    done => return done,
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        })
    }
}

/// A session over there, for those who only have its daemon's word.
pub(super) fn described(daemon: &Arc<RemoteDaemon>, info: SessionInfo, name: Option<String>) -> SessionInfo {
    SessionInfo { name, runtime: Some(daemon.name().to_owned()), ..info }
}

/// One of somebody else's. Its name could be one that means another session here.
pub(super) fn described_as_foreign(daemon: &Arc<RemoteDaemon>, mut info: SessionInfo) -> SessionInfo {
    info.foreign = Some(Foreign { name: info.name.take() });
    described(daemon, info, None)
}
