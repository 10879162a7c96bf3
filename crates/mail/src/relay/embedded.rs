//! The relay of one machine: a second SQLite file, in the daemon.
//!
//! A file of its own, so that publishing is as separate from the sender's state as
//! it is with a broker, and the same crashes can happen between the two.
//! Acknowledgements ride along with the next write: losing one only repeats a packet.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, OptionalExtension, params};

use super::packet_cache::{PacketCache, PacketCaches};
use super::{Claim, Incoming, Mailbox, Outgoing, Pending, Published, Refusal, Relay, RelayError};
use crate::error::MailError;
use crate::identity::Address;
use crate::seal::{Bundle, SignedKey};
use crate::steps::{Step, Steps};
use crate::store::{Owner, OwnerGone, open_database};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS mailboxes (
  address TEXT PRIMARY KEY, bundle TEXT NOT NULL, stored INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keys (address TEXT NOT NULL, id TEXT NOT NULL, key TEXT NOT NULL,
  used INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (address, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS packets (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, mailbox TEXT NOT NULL, sender TEXT NOT NULL,
  id TEXT NOT NULL, bytes BLOB NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS packets_id ON packets(mailbox, sender, id);
CREATE INDEX IF NOT EXISTS packets_order ON packets(mailbox, seq);
PRAGMA user_version=1;
";

/// Acknowledgements that may wait for a write to ride along with.
const MAX_WAITING_ACKS: usize = 256;

#[derive(Debug, Clone, Copy)]
pub struct EmbeddedLimits {
    pub max_packet_bytes: usize,
    pub max_mailbox_packets: u64,
}

impl Default for EmbeddedLimits {
    fn default() -> Self {
        EmbeddedLimits { max_packet_bytes: 1024 * 1024, max_mailbox_packets: 200_000 }
    }
}

#[derive(Clone)]
pub struct EmbeddedRelay(Arc<Shared>);

struct Shared {
    owner: Owner,
    caches: PacketCaches,
    acks: Mutex<Vec<u64>>,
    limits: EmbeddedLimits,
    steps: Steps,
}

impl fmt::Debug for EmbeddedRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedRelay").field("limits", &self.0.limits).finish_non_exhaustive()
    }
}

impl From<rusqlite::Error> for RelayError {
    fn from(error: rusqlite::Error) -> RelayError {
        RelayError::Unreachable(error.to_string())
    }
}

impl From<OwnerGone> for RelayError {
    fn from(gone: OwnerGone) -> RelayError {
        match gone {
            OwnerGone::Closed => RelayError::Closed,
            OwnerGone::Commit(why) => RelayError::Unreachable(why),
        }
    }
}

impl EmbeddedRelay {
    /// Opens or makes `relay.db` in a private directory.
    pub fn open(dir: &Path, limits: EmbeddedLimits, steps: Steps) -> Result<EmbeddedRelay, MailError> {
        crate::lock::private_dir(dir)?;
        let database = open_database(&dir.join("relay.db"))?;
        database.execute_batch(SCHEMA)?;
        let owner = Owner::start("trl-relay", database, steps.before(Step::RelayCommit))
            .map_err(MailError::io("cannot start the relay"))?;
        let shared = Shared { owner, caches: PacketCaches::default(), acks: Mutex::default(), limits, steps };
        Ok(EmbeddedRelay(Arc::new(shared)))
    }

    fn take_acks(&self) -> Vec<u64> {
        std::mem::take(&mut *self.0.acks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, RelayError> + Send + 'static,
    ) -> Result<T, RelayError> {
        self.0.owner.run(work, |_| {}).await
    }
}

impl Relay for EmbeddedRelay {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn max_packet_bytes(&self) -> usize {
        self.0.limits.max_packet_bytes
    }

    fn announce<'a>(&'a self, who: &'a Address, bundle: Bundle, keys: Vec<SignedKey>) -> Pending<'a, ()> {
        let who = who.to_string();
        Box::pin(self.run(move |database| {
            database.execute(
                "INSERT INTO mailboxes (address, bundle) VALUES (?1, ?2)
                 ON CONFLICT (address) DO UPDATE SET bundle = ?2",
                params![who, written(&bundle)?],
            )?;
            for key in keys {
                database.execute(
                    "INSERT OR IGNORE INTO keys (address, id, key) VALUES (?1, ?2, ?3)",
                    params![who, key.id, written(&key)?],
                )?;
            }
            Ok(())
        }))
    }

    fn bundle<'a>(&'a self, who: &'a Address) -> Pending<'a, Option<Bundle>> {
        let who = who.to_string();
        Box::pin(self.run(move |database| stored_bundle(database, &who)))
    }

    fn unclaimed_keys<'a>(&'a self, who: &'a Address) -> Pending<'a, usize> {
        let who = who.to_string();
        Box::pin(self.run(move |database| {
            let count: i64 = database.query_row(
                "SELECT count(*) FROM keys WHERE address = ?1 AND used = 0",
                [who],
                |row| row.get(0),
            )?;
            Ok(usize::try_from(count).unwrap_or(0))
        }))
    }

    fn claim<'a>(&'a self, who: &'a Address) -> Pending<'a, Option<Claim>> {
        let who = who.to_string();
        Box::pin(self.run(move |database| {
            let Some(bundle) = stored_bundle(database, &who)? else { return Ok(None) };
            // A used key stays as a mark, so that announcing it again cannot revive it.
            let key: Option<String> = database
                .query_row(
                    "UPDATE keys SET used = 1 WHERE (address, id) IN
                       (SELECT address, id FROM keys WHERE address = ?1 AND used = 0 LIMIT 1)
                     RETURNING key",
                    [&who],
                    |row| row.get(0),
                )
                .optional()?;
            let one_time_key = key.map(|text| read(&text)).transpose()?;
            Ok(Some(Claim { bundle, one_time_key }))
        }))
    }

    fn publish(&self, packets: Vec<Outgoing>) -> Pending<'_, Vec<Published>> {
        Box::pin(async move {
            let (limits, steps, acks) = (self.0.limits, self.0.steps.clone(), self.take_acks());
            let here = self.clone();
            let work = move |database: &Connection| {
                forget(database, &acks)?;
                let mut taken = Taken::default();
                for packet in packets {
                    taken.put(database, packet, limits)?;
                }
                reached(&steps, Step::RelayStored)?;
                Ok::<_, RelayError>(taken)
            };
            let hand_on = move |taken: &mut Taken| here.0.caches.put(std::mem::take(&mut taken.arrived));
            let taken = self.0.owner.run(work, hand_on).await?;
            reached(&self.0.steps, Step::RelayCommitted)?;
            Ok(taken.published)
        })
    }

    fn mailbox(&self, who: &Address) -> Box<dyn Mailbox> {
        let cache = self.0.caches.cache(who);
        Box::new(Reader { relay: self.clone(), who: who.clone(), cache, last: 0 })
    }
}

fn reached(steps: &Steps, step: Step) -> Result<(), RelayError> {
    steps.reach(step).map_err(|error| RelayError::Unreachable(error.to_string()))
}

/// What became of packets, and those among them that were not there before.
#[derive(Debug, Default)]
struct Taken {
    published: Vec<Published>,
    arrived: Vec<(Address, Incoming)>,
}

impl Taken {
    fn put(
        &mut self,
        database: &Connection,
        packet: Outgoing,
        limits: EmbeddedLimits,
    ) -> Result<(), RelayError> {
        let stored: Option<u64> = database
            .prepare_cached("SELECT stored FROM mailboxes WHERE address = ?1")?
            .query_row([packet.to.as_str()], |row| row.get(0))
            .optional()?;
        let refusal = match stored {
            _ if packet.bytes.len() > limits.max_packet_bytes => Some(Refusal::TooLarge),
            None => Some(Refusal::UnknownMailbox),
            Some(stored) if stored >= limits.max_mailbox_packets => Some(Refusal::MailboxFull),
            Some(_) => None,
        };
        if let Some(refusal) = refusal {
            self.published.push(Published::Refused(refusal));
            return Ok(());
        }
        self.published.push(Published::Stored);
        let added = database
            .prepare_cached(
                "INSERT OR IGNORE INTO packets (mailbox, sender, id, bytes) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![packet.to.as_str(), packet.from.as_str(), packet.id, packet.bytes])?;
        if added > 0 {
            let token = database.last_insert_rowid() as u64;
            database
                .prepare_cached("UPDATE mailboxes SET stored = stored + 1 WHERE address = ?1")?
                .execute([packet.to.as_str()])?;
            self.arrived.push((packet.to, Incoming { token, from: packet.from, bytes: packet.bytes }));
        }
        Ok(())
    }
}

fn forget(database: &Connection, acks: &[u64]) -> Result<(), RelayError> {
    for token in acks {
        let mailbox: Option<String> = database
            .prepare_cached("DELETE FROM packets WHERE seq = ?1 RETURNING mailbox")?
            .query_row([*token as i64], |row| row.get(0))
            .optional()?;
        if let Some(mailbox) = mailbox {
            database
                .prepare_cached("UPDATE mailboxes SET stored = stored - 1 WHERE address = ?1")?
                .execute([mailbox])?;
        }
    }
    Ok(())
}

fn stored_bundle(database: &Connection, who: &str) -> Result<Option<Bundle>, RelayError> {
    let text: Option<String> = database
        .query_row("SELECT bundle FROM mailboxes WHERE address = ?1", [who], |row| row.get(0))
        .optional()?;
    text.map(|text| read(&text)).transpose()
}

fn written(value: &impl serde::Serialize) -> Result<String, RelayError> {
    serde_json::to_string(value).map_err(|error| RelayError::Misconfigured(error.to_string()))
}

fn read<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, RelayError> {
    serde_json::from_str(text).map_err(|error| RelayError::Misconfigured(error.to_string()))
}

#[derive(Debug)]
struct Reader {
    relay: EmbeddedRelay,
    who: Address,
    cache: Arc<PacketCache>,
    last: u64,
}

impl Reader {
    /// Looks into the store, after everything that was stored before.
    async fn look(&self, limit: usize) -> Result<Vec<Incoming>, RelayError> {
        // A first look must not see what another reader acknowledged.
        let acks = if self.last == 0 { self.relay.take_acks() } else { Vec::new() };
        let (who, last) = (self.who.to_string(), self.last);
        // Also for a look that fails, or that nobody waits for any more.
        let again = Again(Some(&self.cache));
        let found = self
            .relay
            .run(move |database| {
                forget(database, &acks)?;
                waiting(database, &who, last, limit)
            })
            .await?;
        if found.len() < limit {
            again.not_needed();
        }
        Ok(found)
    }
}

/// Marks the cache as incomplete unless the whole store was read.
struct Again<'a>(Option<&'a PacketCache>);

impl Again<'_> {
    fn not_needed(mut self) {
        self.0 = None;
    }
}

impl Drop for Again<'_> {
    fn drop(&mut self) {
        if let Some(cache) = self.0 {
            cache.look_again();
        }
    }
}

impl Mailbox for Reader {
    fn next(&mut self, limit: usize) -> Pending<'_, Vec<Incoming>> {
        Box::pin(async move {
            loop {
                let (found, looked) = match self.cache.take(self.last, limit) {
                    Some(found) => (found, false),
                    None => (self.look(limit).await?, true),
                };
                if let Some(newest) = found.last() {
                    self.last = newest.token;
                    return Ok(found);
                }
                if !looked {
                    self.cache.changed().await;
                }
            }
        })
    }

    fn ack(&mut self, tokens: Vec<u64>) -> Pending<'_, ()> {
        Box::pin(async move {
            let waiting = {
                let mut acks = self.relay.0.acks.lock().unwrap_or_else(PoisonError::into_inner);
                acks.extend(tokens);
                acks.len()
            };
            if waiting > MAX_WAITING_ACKS {
                let acks = self.relay.take_acks();
                self.relay.run(move |database| forget(database, &acks)).await?;
            }
            Ok(())
        })
    }
}

fn waiting(database: &Connection, who: &str, after: u64, limit: usize) -> Result<Vec<Incoming>, RelayError> {
    let mut query = database.prepare_cached(
        "SELECT seq, sender, bytes FROM packets WHERE mailbox = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
    )?;
    let rows = query.query_map(params![who, after as i64, limit as i64], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?, row.get(2)?))
    })?;
    let mut found = Vec::new();
    for row in rows {
        let (seq, sender, bytes) = row?;
        let from = Address::parse(&sender).map_err(|error| RelayError::Misconfigured(error.to_string()))?;
        found.push(Incoming { token: seq as u64, from, bytes });
    }
    Ok(found)
}
