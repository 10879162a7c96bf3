//! The relay between machines: NATS JetStream, through a broker that others run.
//!
//! A stream for each mailbox, which only its owner reads and where each sender has a
//! subject of its own; one directory of public keys. Each member has an account of its own on the
//! broker ([`server_config`]). An agent makes nothing there but messages: streams and accounts are an
//! administrator's step ([`setup`]).

mod access;
mod attacks;
pub mod check;
mod connection;
mod connections;
mod directory;
mod keys;
mod known_broker;
mod layout;
mod mailbox;
mod names;
mod outgoing;
mod parcel;
mod presence;
mod purge;
pub mod relay_dir;
mod secret_file;
pub mod server_config;
pub mod setup;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trl_mail::identity::Address;
use trl_mail::relay::{Answering, Claim, Mailbox, Outgoing, Pending, Presence, Published, Relay, RelayError};
use trl_mail::seal::{Bundle, SignedKey};

pub use layout::Quota;
pub use trl_mail::relay::broker::{BrokerConfig, Credentials, Tls};

use connections::Connections;
use mailbox::{Bookmarks, Reader};

/// How long a question that somebody waits for may wait for the connection.
const SHORT: Duration = Duration::from_secs(5);

/// Opens the relay for a daemon.
pub fn open(config: BrokerConfig, memory: PathBuf) -> Result<Arc<dyn Relay>, RelayError> {
    Ok(Arc::new(NatsRelay::open(config, Some(memory))?))
}

#[derive(Debug, Clone)]
pub struct NatsRelay(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    connections: Arc<Connections>,
    bookmarks: Arc<Bookmarks>,
    served_by: ServedBy,
}

impl NatsRelay {
    /// Connects in the background; a broker that is away is waited for. `memory` is a file
    /// that remembers which server was last published to.
    pub fn open(config: BrokerConfig, memory: Option<PathBuf>) -> Result<NatsRelay, RelayError> {
        access::servers(&config.servers).map_err(|error| RelayError::Misconfigured(error.to_string()))?;
        Ok(NatsRelay(Arc::new(Shared {
            connections: Arc::new(Connections::new(config)),
            bookmarks: Arc::default(),
            served_by: ServedBy::new(memory),
        })))
    }

    async fn any(&self) -> Result<connection::Connection, RelayError> {
        let connection = self.0.connections.any().await?;
        connection.ready(SHORT).await?;
        Ok(connection)
    }

    async fn own(&self, who: &Address) -> Result<connection::Connection, RelayError> {
        let connection = self.0.connections.of(who).await?;
        connection.ready(outgoing::PATIENCE).await?;
        Ok(connection)
    }
}

/// Which server process took what was published. A new one may have forgotten the newest of it.
#[derive(Debug)]
struct ServedBy {
    memory: Option<PathBuf>,
    id: Mutex<Option<String>>,
}

impl ServedBy {
    fn new(memory: Option<PathBuf>) -> ServedBy {
        let id = memory.as_ref().and_then(|path| known_broker::read(path));
        ServedBy { memory, id: Mutex::new(id) }
    }

    /// `Renewed`, once, if it is not the one that we knew.
    fn check(&self, now: Option<String>) -> Result<(), RelayError> {
        let mut id = self.id.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*id, now) {
            (Some(known), Some(now)) if *known != now => {
                *id = Some(now);
                Err(RelayError::Renewed)
            }
            (Some(_), _) | (None, None) => Ok(()),
            (None, now @ Some(_)) => {
                *id = now;
                self.remember(&id);
                Ok(())
            }
        }
    }

    /// What was published before is published again: from now on this one is known.
    fn settled(&self) {
        let id = self.id.lock().unwrap_or_else(PoisonError::into_inner);
        self.remember(&id);
    }

    fn remember(&self, id: &Option<String>) {
        let (Some(path), Some(id)) = (&self.memory, id) else { return };
        if let Err(error) = known_broker::keep(path, id) {
            tracing::warn!(%error, "the broker's name could not be kept; mail may be published again");
        }
    }
}

impl Relay for NatsRelay {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn max_packet_bytes(&self) -> usize {
        parcel::MAX_PACKET
    }

    fn announce<'a>(&'a self, who: &'a Address, bundle: Bundle, keys: Vec<SignedKey>) -> Pending<'a, ()> {
        Box::pin(async move {
            let connection = self.own(who).await?;
            setup::find_or_make_mailbox(&connection, who).await?;
            directory::announce(&connection, who, bundle, keys).await
        })
    }

    fn bundle<'a>(&'a self, who: &'a Address) -> Pending<'a, Option<Bundle>> {
        Box::pin(async move {
            let connection = self.any().await?;
            Ok(directory::entry(&connection, who).await?.map(|entry| entry.bundle))
        })
    }

    fn unclaimed_keys<'a>(&'a self, who: &'a Address) -> Pending<'a, usize> {
        Box::pin(async move { directory::unclaimed(&self.any().await?, who).await })
    }

    fn claim<'a>(&'a self, who: &'a Address) -> Pending<'a, Option<Claim>> {
        Box::pin(async move { directory::claim(&self.any().await?, who).await })
    }

    fn publish(&self, packets: Vec<Outgoing>) -> Pending<'_, Vec<Published>> {
        Box::pin(async move {
            let connection = self.0.connections.any().await?;
            connection.ready(outgoing::PATIENCE).await?;
            self.0.served_by.check(connection.server_id())?;
            let published = outgoing::publish(&self.0.connections, packets).await?;
            self.0.served_by.settled();
            Ok(published)
        })
    }

    fn presence<'a>(&'a self, from: &'a Address, who: &'a Address) -> Pending<'a, Presence> {
        Box::pin(async move {
            let connection = self.0.connections.of(from).await?;
            connection.ready(SHORT).await?;
            presence::ask(&connection, from, who).await
        })
    }

    fn attend<'a>(&'a self, who: &'a Address, answer: Answering) -> Pending<'a, ()> {
        Box::pin(async move { presence::attend(&self.own(who).await?, who, answer).await })
    }

    fn renewed(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            loop {
                let connection = self.0.connections.any().await?;
                let mut events = connection.events.clone();
                events.mark_unchanged();
                if connection.is_up() && self.0.served_by.check(connection.server_id()).is_err() {
                    return Ok(());
                }
                if events.changed().await.is_err() {
                    return Err(RelayError::Closed);
                }
            }
        })
    }

    fn mailbox(&self, who: &Address) -> Box<dyn Mailbox> {
        Box::new(Reader::new(Arc::clone(&self.0.connections), Arc::clone(&self.0.bookmarks), who.clone()))
    }
}
