//! The daemon's sessions as one thing: started, counted, ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use trl_protocol::change::Change;
use trl_protocol::exec::CancelParams;
use trl_protocol::session::{DestroyParams, SessionInfo};
use trl_protocol::{Code, Fault};

use crate::backend::{Awaited, Backend, HostDirsError, HostHandle, Local, greet};
use crate::backends::Backends;
use crate::caller::Caller;
use crate::config::Config;
use crate::connection_bound::{BoundItem, ConnectionBound};
use crate::feed::Feed;
use crate::grants::{self, GrantKey, Grants};
use crate::health::Health;
use crate::link::{End, GreetError, Greeted, Greeting, Link, LinkTask};
use crate::mailroom::Mailroom;
use crate::metrics::Counters;
use crate::registry::Registry;
use crate::remote::Remotes;
use crate::session::Session;
use crate::temporary::TemporarySessions;
use crate::{adoption, granted, idle_exit, mail_wake, ops, proxy, remote};

/// How long sessions that are being created may take to settle when the daemon ends.
const SETTLE: Duration = Duration::from_secs(5);
/// How long the processes of a lost session may take to end.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(5);
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Local(#[from] HostDirsError),
}

/// Somebody asked the daemon to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stop {
    pub keep_sessions: bool,
}

/// Owns the connections to all session hosts. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Runtime(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) registry: Arc<Registry>,
    pub(crate) started: Instant,
    pub(crate) commands: AtomicU64,
    pub(crate) feed: Feed,
    pub(crate) grants: Grants,
    pub(crate) counters: Counters,
    /// Whether hosts are asked to tell what happens in them.
    pub(crate) watching: AtomicBool,
    pub(crate) mailroom: Mailroom,
    pub(crate) backends: Backends,
    pub(crate) remotes: Remotes,
    pub(crate) health: Health,
    /// RFC 3339.
    pub(crate) started_at: String,
    pub(crate) temporary: TemporarySessions,
    connection_bound: ConnectionBound,
    connections: AtomicUsize,
    connection_ids: AtomicU64,
    stop: watch::Sender<Option<Stop>>,
    pub(crate) settled: watch::Sender<()>,
}

impl Runtime {
    /// Runs sessions on this machine.
    pub async fn start(config: Config) -> Result<Runtime, StartError> {
        let local = Arc::new(Local::new(&config)?);
        Ok(Runtime::start_on(config, local, Vec::new()).await)
    }

    /// Runs sessions on these backends and adopts every host of theirs that is alive.
    pub async fn start_on(
        config: Config,
        default: Arc<dyn Backend>,
        others: Vec<Arc<dyn Backend>>,
    ) -> Runtime {
        let health = Health::default();
        let runtime = Runtime(Arc::new(Inner {
            registry: Arc::new(Registry::new(config.max_sessions)),
            mailroom: Mailroom::new(&config),
            backends: Backends::new(&config, default, others),
            remotes: Remotes::new(&config, health.clone()),
            health,
            started_at: format!("{:.3}", jiff::Timestamp::now()),
            temporary: TemporarySessions::default(),
            connection_bound: ConnectionBound::default(),
            grants: Grants::load(config.state_dir.join("grants")),
            config,
            started: Instant::now(),
            commands: AtomicU64::new(0),
            feed: Feed::new(),
            counters: Counters::new(),
            watching: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            connection_ids: AtomicU64::new(1),
            stop: watch::Sender::new(None),
            settled: watch::Sender::new(()),
        }));
        let recalled = runtime.0.backends.recall(&runtime.0.config);
        adoption::adopt_all(&runtime.0).await;
        remote::recall(&runtime.0);
        tracing::debug!(runtimes = recalled.len(), "runtimes of an earlier daemon are used again");
        // One that only stdio can reach is somebody's tool for a while, not the owner of a mailbox.
        if runtime.0.config.socket.is_some() {
            let inner = Arc::clone(&runtime.0);
            tokio::spawn(async move { inner.mailroom.resume().await });
        }
        tokio::spawn(mail_wake::watch(Arc::clone(&runtime.0)));
        tokio::spawn(granted::watch(Arc::clone(&runtime.0)));
        tokio::spawn(grants::ending::watch(Arc::clone(&runtime.0)));
        let exit_idle_s = runtime.0.config.exit_idle_s;
        if exit_idle_s > 0.0 {
            tokio::spawn(idle_exit::watch(Arc::clone(&runtime.0), Duration::from_secs_f64(exit_idle_s)));
        }
        runtime
    }

    /// The grant that this token belongs to, if it is one's; an error if the grant is over.
    pub fn grant_of(&self, token: &[u8]) -> Option<Result<GrantKey, Fault>> {
        self.0.grants.of_token(token)
    }

    /// Resolves when a request asks the daemon to end.
    pub async fn stop_requested(&self) -> Stop {
        let mut stop = self.0.stop.subscribe();
        let asked = stop.wait_for(Option::is_some).await;
        asked.ok().and_then(|stop| *stop).unwrap_or(Stop { keep_sessions: false })
    }

    /// From now on requests are refused.
    pub fn refuse(&self, stop: Stop) {
        self.0.request_stop(stop);
    }

    /// Ends every session, all at once, or leaves them all to the next daemon: then true.
    pub async fn end(&self) -> bool {
        for backend in self.0.backends.all() {
            backend.close().await;
        }
        let stop = *self.0.stop.borrow();
        let keep = stop.map_or(self.0.config.keep_sessions, |stop| stop.keep_sessions);
        if keep {
            tracing::info!(sessions = self.0.registry.count(), "sessions are left to the next daemon");
            return true;
        }
        let mut settled = self.0.settled.subscribe();
        let deadline = tokio::time::Instant::now() + SETTLE;
        let mut ending = JoinSet::new();
        loop {
            for session in self.0.registry.all_living() {
                ending.spawn(async move { ops::session::destroy::end(&session, false).await });
            }
            for session in self.0.registry.all_remote() {
                let inner = Arc::clone(&self.0);
                ending.spawn(async move { remote::end_with_daemon(&inner, &session).await });
            }
            while let Some(ended) = ending.join_next().await {
                if let Ok(Err(fault)) = ended {
                    tracing::warn!(code = %fault.code, message = %fault.message, "a session did not end");
                }
            }
            // A session that was being created when its turn came is ended in the next round.
            let done = self.0.registry.count() == 0;
            if done || tokio::time::timeout_at(deadline, settled.changed()).await.is_err() {
                adoption::clear(&self.0, Duration::ZERO).await;
                self.0.backends.tidy();
                self.0.remotes.tidy();
                return false;
            }
        }
    }

    /// Counts a client's connection for `system.stats` until the guard is dropped.
    pub fn connected(&self) -> Connected {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        let id = self.0.connection_ids.fetch_add(1, Ordering::Relaxed);
        Connected { inner: Arc::clone(&self.0), id }
    }

    /// Puts the mail away in order; to be called when no request is under way any more.
    pub async fn close_mail(&self) {
        self.0.mailroom.close().await;
    }
}

/// One client's connection.
#[derive(Debug)]
pub struct Connected {
    inner: Arc<Inner>,
    id: u64,
}

impl Connected {
    /// Unlike any other connection's of this daemon.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The client is gone, and whatever it asked from now on would know so: the agent that
    /// it spoke for is no longer there through it, and what was bound to it ends.
    pub async fn over(self) {
        self.inner.cut(self.id);
        self.inner.mailroom.connection_closed(self.id).await;
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.inner.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inner {
    /// Whether anybody would miss this daemon.
    pub(crate) async fn is_needed(&self) -> bool {
        self.connections() > 0 || self.registry.count() > 0 || self.mailroom.is_anyone_live().await
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn request_stop(&self, stop: Stop) {
        // The first word holds: what it promised about the sessions must stay true.
        self.stop.send_if_modified(|current| {
            let first = current.is_none();
            current.get_or_insert(stop);
            first
        });
    }

    /// Binds something to the caller's connection, or lets it go.
    pub(crate) fn bind(self: &Arc<Self>, item: BoundItem, bound: bool, caller: &Caller) -> Result<(), Fault> {
        self.connection_bound.set(item, bound, caller)?;
        // If the client left meanwhile, the items of its connection were ended before this one was added.
        if let Some(connection) = caller.connection.filter(|_| bound && caller.is_gone()) {
            self.cut(connection);
        }
        Ok(())
    }

    /// Ends what was bound to a connection that is over.
    fn cut(self: &Arc<Self>, connection: u64) {
        let items = self.connection_bound.cut(connection);
        // The daemon closed it, not the client: what ends with the daemon is decided elsewhere.
        if self.check_open().is_err() {
            return;
        }
        for item in items {
            tokio::spawn(Arc::clone(self).end_bound(item));
        }
    }

    async fn end_bound(self: Arc<Self>, item: BoundItem) {
        let ended = match item {
            BoundItem::Session(id) => match remote::session(&self, &id.to_string()) {
                Some(session) => remote::end(&self, &session, false).await,
                None => {
                    let params = DestroyParams { session_id: id.to_string(), force: false };
                    ops::session::destroy::perform(&self, &params).await.map(drop)
                }
            },
            BoundItem::Exec(id) if remote::session(&self, &id.session.to_string()).is_some() => {
                remote::cancel(&self, id).await.unwrap_or(Ok(()))
            }
            BoundItem::Exec(id) => {
                let params = CancelParams { session_id: None, exec_id: Some(id.to_string()), signal: None };
                ops::exec::cancel::perform(&self, &params).await.map(drop)
            }
        };
        match ended {
            Ok(()) => tracing::info!(?item, "ended with its client's connection"),
            Err(fault) => {
                tracing::debug!(?item, code = %fault.code, "had ended before its client's connection")
            }
        }
    }

    /// Resolves when the daemon is about to end.
    pub(crate) async fn stopping(&self) {
        // The sender is ours, so there is always a last word.
        let _ = self.stop.subscribe().wait_for(Option::is_some).await;
    }

    /// Refuses work once the daemon is about to end.
    pub(crate) fn check_open(&self) -> Result<(), Fault> {
        match *self.stop.borrow() {
            None => Ok(()),
            Some(_) => Err(Fault::new(
                Code::ShuttingDown,
                "the daemon is shutting down; connect again when it is back",
            )),
        }
    }

    /// Makes a session of a host that answered, and keeps watch over its connection.
    /// `enter` puts it into the registry before anything can happen to it.
    pub(crate) fn take_over(
        self: &Arc<Self>,
        backend: &Arc<dyn Backend>,
        greeted: Greeted,
        host: Arc<dyn HostHandle>,
        enter: impl FnOnce(Arc<Session>),
        change: Change,
    ) -> Arc<Session> {
        let info = greeted.session.clone();
        let link = Link::new(info.session_id);
        let task = LinkTask::new(link.clone(), greeted);
        let session = Arc::new(Session::new(info, link, Arc::clone(backend), host));
        self.session_begun(&session, enter, change);
        grants::ending::check_adopted(self, &session);
        proxy::begin(self, &session);
        let (inner, watched) = (Arc::clone(self), Arc::clone(&session));
        tokio::spawn(async move {
            let end = task.run(&watched).await;
            inner.session_over(&watched, end).await;
        });
        session
    }

    /// Enters the session of a host that has not answered yet: requests wait for it.
    pub(crate) fn wait_for(
        self: &Arc<Self>,
        backend: &Arc<dyn Backend>,
        info: SessionInfo,
        host: Arc<dyn HostHandle>,
        greeting: Greeting,
    ) {
        let link = Link::new(info.session_id);
        let session = Arc::new(Session::new(info, link, Arc::clone(backend), host));
        self.session_begun(&session, |session| self.registry.adopt(session), Change::Created);
        tokio::spawn(Arc::clone(self).join_late(session, greeting));
    }

    /// Enters a session elsewhere by what is remembered of it. Requests wait for its host; while that is out of
    /// reach, what is remembered is told.
    pub(crate) fn recall(self: &Arc<Self>, backend: &Arc<dyn Backend>, info: SessionInfo, awaited: Awaited) {
        let Awaited { connection, host, out_of_reach } = awaited;
        let link = Link::new(info.session_id);
        let session = Arc::new(Session::new(info, link, Arc::clone(backend), host));
        session.await_contact();
        self.session_begun(&session, |session| self.registry.adopt(session), Change::Created);
        let (inner, greeting) = (Arc::clone(self), tokio::spawn(greet(connection, None)));
        let waiting = Arc::clone(&session);
        tokio::spawn(async move {
            if out_of_reach.await.is_ok() {
                waiting.contacted();
            }
        });
        tokio::spawn(async move {
            inner.join_late(Arc::clone(&session), greeting).await;
            session.contacted();
        });
    }

    /// Waits for the greeting of a host whose session is known already, then for the end of the session.
    async fn join_late(self: Arc<Self>, session: Arc<Session>, greeting: Greeting) {
        let id = session.id;
        let end = match greeting.await {
            Ok(Ok(greeted)) => {
                tracing::info!(session = %id, "a living session answers again");
                session.note(&greeted.session);
                // It may have got another name that nobody here has heard of.
                self.registry.keep_name(greeted.session.name.clone(), &session);
                session.answers();
                grants::ending::check_adopted(&self, &session);
                proxy::begin(&self, &session);
                LinkTask::new(session.link.clone(), greeted).run(&session).await
            }
            Ok(Err(GreetError::Io(_) | GreetError::Silent)) | Err(_) => End::Lost,
            Ok(Err(error)) => End::Foreign { reason: error.to_string() },
        };
        self.session_over(&session, end).await;
    }

    /// The connection to a host is over. Requests that wait for it are answered when all is done.
    async fn session_over(self: &Arc<Self>, session: &Session, end: End) {
        let id = session.id;
        let (mut info, mut end) = (session.last_info(), end);
        if let (End::Ended { reason }, Some(why)) = (&mut end, self.grants.why_over(id)) {
            *reason = why;
        }
        match &end {
            End::Ended { reason } => {
                tracing::info!(session = %id, reason, "a session ended");
                session.backend.remove(id).await;
                // A daemon that ends now leaves no host behind that is about to.
                tokio::time::timeout(ORPHAN_TIMEOUT, session.host.gone()).await.ok();
            }
            End::Lost => {
                let host = session.host.describe();
                tracing::warn!(session = %id, host, "a session is lost: its host is gone");
                (info, end) = self.after_loss(session, info).await;
            }
            End::Foreign { reason } | End::Damaged { reason } => {
                tracing::warn!(session = %id, reason, "a host was left alone");
            }
        }
        self.counters.session_over(session, || self.registry.remove(info, end.clone()));
        self.release_unused(&*session.backend);
        self.tell_end(session, &end);
        self.settle();
        session.link.release(&end);
    }

    /// Cleans up after a lost host. Returns what its session is from now on.
    async fn after_loss(&self, session: &Session, last_info: SessionInfo) -> (SessionInfo, End) {
        let (id, backend) = (session.id, &session.backend);
        let gone = tokio::time::timeout(ORPHAN_TIMEOUT, session.host.gone()).await;
        if gone.is_ok() {
            backend.end_orphans(vec![id]).await;
        }
        backend.remove_dead_address(id).await;
        match backend.saved(id).await {
            Some(Ok(saved)) => (saved.info, End::Lost),
            Some(Err(damage)) => (last_info, End::Damaged { reason: damage.0 }),
            None => (last_info, End::Lost),
        }
    }

    /// A session is over, or could not be started: what the backend keeps for sessions may not be needed any more.
    pub(crate) fn release_unused(&self, backend: &dyn Backend) {
        if !self.registry.is_used(backend) {
            backend.no_sessions_left();
        }
    }

    /// A session has been created, has failed to be, or is over.
    pub(crate) fn settle(&self) {
        self.settled.send_replace(());
    }
}
