//! The only way out of a session whose network is a list of hosts.
//!
//! Programs inside connect to a socket of their own loopback. Their host hands that socket to the daemon, which
//! accepts the connections here, outside, and speaks HTTP (`CONNECT` and plain requests) or SOCKS5 on them. Names
//! are resolved here; what is not listed is refused, told as an event, and noted in the commands that run.
//! The host keeps the socket too, so after the daemon's end connections wait for the next one.

mod client;
mod http;
mod listeners;
mod socks;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;
use trl_confine::hosts::{Hosts, Target};
use trl_protocol::change::{Change, ChangeEvent, Topic};
use trl_protocol::isolation::Net;
use trl_protocol::wire::ToHost;

use crate::runtime::Inner;
use crate::session::Session;
use listeners::Listeners;

/// Connections of one session at once; more wait.
const MAX_CONNECTIONS: usize = 256;
/// For one server to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// For a name to be found.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(15);
/// For a host to take a note before its command goes on without.
const NOTE_TIMEOUT: Duration = Duration::from_secs(2);
/// Until a host that could not be reached is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// Why a program was not connected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(
        "{0} is not on the session's list of hosts; to allow it, create the session with `\"net\":{{\"allow\":[\"{0}\"]}}`"
    )]
    NotListed(Target),
    #[error(
        "{0} is at {1}, an address of this machine or a private network; to allow it, list that address too: `\"net\":{{\"allow\":[\"{0}\",\"{1}\"]}}`"
    )]
    Private(Target, std::net::IpAddr),
    #[error("{0} was not found: {1}")]
    Unknown(Target, String),
    #[error("{0} does not answer: {1}")]
    Unreachable(Target, std::io::Error),
}

/// The proxy of one session.
#[derive(Debug)]
struct Proxy {
    runtime: Arc<Inner>,
    session: Arc<Session>,
    hosts: Hosts,
}

/// Serves a session that has a list of hosts, until it is over.
pub(crate) fn begin(runtime: &Arc<Inner>, session: &Arc<Session>) {
    let Some(report) =
        session.last_info().confinement.isolation.filter(|_| session.backend.name() == "local")
    else {
        return;
    };
    let Net::Allow(hosts) = &report.requested.net else { return };
    // Nothing is allowed by a list that cannot be read; it was read before the session was created.
    let hosts = Hosts::parse(hosts).unwrap_or_default();
    let proxy = Arc::new(Proxy { runtime: Arc::clone(runtime), session: Arc::clone(session), hosts });
    tokio::spawn(async move {
        tokio::select! {
            () = serve(&proxy) => {}
            _ = proxy.session.link.ended() => {}
        }
    });
}

async fn serve(proxy: &Arc<Proxy>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // They end with the session.
    let mut connections = JoinSet::new();
    loop {
        if let Err(error) = accept_all(proxy, &room, &mut connections).await {
            tracing::warn!(session = %proxy.session.id, %error, "the session's network cannot be served");
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Until the connection to the host is over.
async fn accept_all(
    proxy: &Arc<Proxy>,
    room: &Arc<Semaphore>,
    connections: &mut JoinSet<()>,
) -> std::io::Result<()> {
    let mut listeners = Listeners::of(&*proxy.session.backend, proxy.session.id).await?;
    let mut listener = listeners.next().await?;
    loop {
        let Ok(permit) = Arc::clone(room).acquire_owned().await else { return Ok(()) };
        let client = tokio::select! {
            next = listeners.next() => {
                listener = next?;
                continue;
            }
            client = accept(&listener) => client,
        };
        while connections.try_join_next().is_some() {}
        let proxy = Arc::clone(proxy);
        connections.spawn(async move {
            client::serve(&proxy, client).await;
            drop(permit);
        });
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((client, _)) => return client,
            // Out of descriptors, perhaps; those of connections that end come free.
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

impl Proxy {
    /// A connection to the target, if the session may have one.
    async fn connect(&self, target: &Target) -> Result<TcpStream, Refusal> {
        let decided = self.decide(target).await;
        self.tell(target, decided.as_ref().err()).await;
        let mut failed = std::io::ErrorKind::NotFound.into();
        for address in decided? {
            match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
                Ok(Ok(server)) => return Ok(server),
                Ok(Err(error)) => failed = error,
                Err(_) => failed = std::io::ErrorKind::TimedOut.into(),
            }
        }
        Err(Refusal::Unreachable(target.clone(), failed))
    }

    /// Where the target is. What is decided about an address holds for that address, not for the next answer.
    async fn decide(&self, target: &Target) -> Result<Vec<SocketAddr>, Refusal> {
        use trl_confine::hosts::Host;
        if !self.hosts.lists(target) {
            return Err(Refusal::NotListed(target.clone()));
        }
        let found = match &target.host {
            Host::Address(address) => vec![SocketAddr::new(*address, target.port)],
            Host::Name(name) => {
                let unknown = |why: String| Refusal::Unknown(target.clone(), why);
                let resolving = tokio::net::lookup_host((name.as_str(), target.port));
                let resolved = timeout(RESOLVE_TIMEOUT, resolving).await;
                let resolved = resolved.map_err(|_| unknown("nobody answered in time".to_owned()))?;
                resolved.map_err(|error| unknown(error.to_string()))?.collect()
            }
        };
        let (admitted, others): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|address| self.hosts.admits(target, address.ip()));
        match (admitted.is_empty(), others.first()) {
            (true, Some(other)) => Err(Refusal::Private(target.clone(), other.ip())),
            (true, None) => Err(Refusal::Unknown(target.clone(), "it has no address".to_owned())),
            (false, _) => Ok(admitted),
        }
    }

    /// The decision, in the log, as an event and, if it was no, in the results of the commands that run.
    async fn tell(&self, target: &Target, refusal: Option<&Refusal>) {
        let (id, host) = (self.session.id, target.to_string());
        let change = match refusal {
            None => Change::Allowed,
            Some(_) => Change::Refused,
        };
        match refusal {
            None => tracing::info!(session = %id, host, "a host was allowed"),
            Some(why) => tracing::info!(session = %id, host, %why, "a host was refused"),
        }
        self.runtime.feed.tell(ChangeEvent {
            session_id: Some(id),
            name: self.session.last_info().name,
            host: Some(host),
            reason: refusal.map(ToString::to_string),
            ..ChangeEvent::new(Topic::Net, change)
        });
        if let Some(why) = refusal {
            let text = format!("network: {why}");
            let noted = self.session.link.call(|req| ToHost::Note { req, text });
            // An older host takes no notes.
            timeout(NOTE_TIMEOUT, noted).await.ok();
        }
    }
}
