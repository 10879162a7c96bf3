//! Which HTTP connections are kept: those that have shown a token, up to the limit of clients, and
//! a small number of others for a short time.
//!
//! A connection begins unauthenticated. It must show a valid token within [`Limits::time`], or it
//! is closed, whatever it did meanwhile (nothing at all, half a request, `/healthz` again and again).
//! When there are too many such connections, the oldest gives way to the newest. So silent
//! connections never take the place of clients that have a token, and never stop new ones from
//! being accepted. A short grace keeps a burst of honest clients from displacing each other.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OnceCell, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use trl_protocol::{Code, Fault};
use trl_runtime::{Connected, Runtime};

/// How long an authenticated client waits for a place when all are taken.
const WAIT: Duration = Duration::from_secs(5);

/// What connections may use before they have shown a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Such connections from one address.
    pub per_address: usize,
    /// Such connections altogether.
    pub total: usize,
    /// Each has at least this long before it gives way to another.
    pub grace: Duration,
    /// Each has at most this long.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            per_address: 64,
            total: 256,
            grace: Duration::from_millis(100),
            time: Duration::from_secs(5),
        }
    }
}

/// All connections of one listener.
#[derive(Debug)]
pub(crate) struct Admissions {
    runtime: Runtime,
    clients: Arc<Semaphore>,
    most: u32,
    limits: Limits,
    waiting: Mutex<UnauthenticatedConnections>,
    /// Some connection is unauthenticated no more.
    one_less: Notify,
}

/// Unauthenticated connections, oldest first.
#[derive(Debug, Default)]
struct UnauthenticatedConnections {
    next: u64,
    connections: BTreeMap<u64, Unauthenticated>,
}

#[derive(Debug)]
struct Unauthenticated {
    address: IpAddr,
    since: Instant,
    gives_way: Arc<Notify>,
}

impl Admissions {
    pub(crate) fn new(runtime: Runtime, clients: Arc<Semaphore>, most: u32, limits: Limits) -> Admissions {
        let waiting = Mutex::default();
        Admissions { runtime, clients, most, limits, waiting, one_less: Notify::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, UnauthenticatedConnections> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a new connection. If there are too many unauthenticated ones, the oldest is closed
    /// for it, once that one has had its grace.
    pub(crate) async fn admit(self: &Arc<Self>, address: IpAddr) -> Admission {
        // IPv4 clients of a socket that also speaks IPv6 are the same clients.
        let address = address.to_canonical();
        loop {
            let changed = self.one_less.notified();
            let until = match self.waiting().displaced_by(address, &self.limits) {
                None => break,
                Some(oldest) => oldest.since + self.limits.grace,
            };
            if tokio::time::timeout_at(until, changed).await.is_err() {
                self.waiting().close_oldest(address, &self.limits);
            }
        }
        let gives_way = Arc::new(Notify::new());
        let since = Instant::now();
        let number =
            self.waiting().add(Unauthenticated { address, since, gives_way: Arc::clone(&gives_way) });
        let until = since + self.limits.time;
        Admission {
            all: Arc::clone(self),
            number,
            until,
            gives_way,
            has_token: AtomicBool::new(false),
            client: OnceCell::new(),
        }
    }
}

impl UnauthenticatedConnections {
    fn add(&mut self, connection: Unauthenticated) -> u64 {
        self.next += 1;
        self.connections.insert(self.next, connection);
        self.next
    }

    /// The one that must go before another from this address can come; `None` if there is room.
    fn displaced_by(&self, address: IpAddr, limits: &Limits) -> Option<&Unauthenticated> {
        self.number_displaced_by(address, limits).and_then(|number| self.connections.get(&number))
    }

    fn number_displaced_by(&self, address: IpAddr, limits: &Limits) -> Option<u64> {
        let from = |address: IpAddr| {
            self.connections.iter().filter(move |(_, connection)| connection.address == address)
        };
        if from(address).count() >= limits.per_address {
            return from(address).next().map(|(number, _)| *number);
        }
        if self.connections.len() < limits.total {
            return None;
        }
        // Whoever has most gives way, so that an address with few keeps them.
        let crowd = self.connections.values().map(|connection| connection.address);
        let crowd = crowd.max_by_key(|address| from(*address).count())?;
        from(crowd).next().map(|(number, _)| *number)
    }

    fn close_oldest(&mut self, address: IpAddr, limits: &Limits) {
        if let Some(number) = self.number_displaced_by(address, limits)
            && let Some(connection) = self.connections.remove(&number)
        {
            connection.gives_way.notify_one();
        }
    }
}

/// One connection's right to be there, until dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    all: Arc<Admissions>,
    number: u64,
    until: Instant,
    gives_way: Arc<Notify>,
    has_token: AtomicBool,
    client: OnceCell<Client>,
}

/// What a client that has shown a token holds.
#[derive(Debug)]
struct Client {
    _place: OwnedSemaphorePermit,
    /// Only such connections keep the daemon from ending when idle.
    _counted: Connected,
}

impl Admission {
    /// A request on this connection came with a valid token. Waits for a place among the clients.
    pub(crate) async fn authenticated(&self) -> Result<(), Fault> {
        self.has_token.store(true, Ordering::Relaxed);
        let claim = || async {
            self.leave_waiting();
            let place = tokio::time::timeout(WAIT, Arc::clone(&self.all.clients).acquire_owned()).await;
            match place {
                Ok(Ok(place)) => Ok(Client { _place: place, _counted: self.all.runtime.connected() }),
                Ok(Err(_)) => Err(Fault::new(Code::ShuttingDown, "the daemon is ending")),
                Err(_) => Err(Fault::new(
                    Code::ResourcePressure,
                    format!(
                        "{} clients are connected over HTTP, and this daemon serves no more at a time; close some connections, or start it with a larger TRL_MAX_CONNECTIONS",
                        self.all.most
                    ),
                )),
            }
        };
        self.client.get_or_try_init(claim).await.map(drop)
    }

    /// Resolves when the connection must be closed because no token came. Never for one that has shown a token.
    pub(crate) async fn refused(&self) {
        // Out of time, or displaced: both are reasons.
        let _ = tokio::time::timeout_at(self.until, self.gives_way.notified()).await;
        if self.has_token.load(Ordering::Relaxed) {
            std::future::pending().await
        }
    }

    fn leave_waiting(&self) {
        if self.all.waiting().connections.remove(&self.number).is_some() {
            self.all.one_less.notify_one();
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        self.leave_waiting();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Limits =
        Limits { per_address: 2, total: 3, grace: Duration::ZERO, time: Duration::from_secs(1) };

    fn waiting(addresses: &[&str]) -> UnauthenticatedConnections {
        let mut waiting = UnauthenticatedConnections::default();
        for address in addresses {
            let address = address.parse().unwrap();
            let gives_way = Arc::new(Notify::new());
            waiting.add(Unauthenticated { address, since: Instant::now(), gives_way });
        }
        waiting
    }

    #[tokio::test]
    async fn the_oldest_of_the_busiest_address_gives_way() {
        for (there, new, expected) in [
            (&[][..], "192.0.2.1", None),
            (&["192.0.2.1"], "192.0.2.1", None),
            (&["192.0.2.2", "192.0.2.1", "192.0.2.1"], "192.0.2.1", Some(2)),
            (&["192.0.2.2", "192.0.2.1", "192.0.2.1"], "192.0.2.3", Some(2)),
            (&["192.0.2.2", "192.0.2.1"], "192.0.2.3", None),
        ] {
            let found = waiting(there).number_displaced_by(new.parse().unwrap(), &FEW);
            assert_eq!(found, expected, "{there:?} {new}");
        }
    }

    #[tokio::test]
    async fn who_gives_way_is_told() {
        let mut waiting = waiting(&["192.0.2.1", "192.0.2.1"]);
        let first = Arc::clone(&waiting.connections[&1].gives_way);
        waiting.close_oldest("192.0.2.1".parse().unwrap(), &FEW);
        first.notified().await;
        assert_eq!(waiting.connections.keys().collect::<Vec<_>>(), [&2]);
    }
}
