//! The engine: what is done with agents and mail, on one owner's state.
//!
//! Every change is a method of [`Tx`], a transaction on the store's own thread. The
//! async side only asks for transactions, talks to the relay, and waits for bells.

mod autoresponder;
mod dispatch;
mod identity;
mod inbox;
mod receiving;
mod repeated_error;
mod runtimes;
mod sending;
mod tasks;
mod wakeups;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use rusqlite::Connection;

use crate::clock::Clock;
use crate::config::MailConfig;
use crate::error::MailError;
use crate::presence::{Connections, Processes};
use crate::relay::Relay;
use crate::store::{Owner, Witness, WitnessFile};

use inbox::notices::Waiters;
use inbox::reading::UnwrittenLeases;
use sending::outbox::DuePacket;
use sending::publish_queue::PublishQueue;
use sending::rates::Rates;

pub use dispatch::{Caller, MailReply, MailRequest};
pub use identity::idle_agents::{IdleAgent, IdleAgents};
pub use runtimes::{GrantedRuntime, GrantedRuntimes, Parties};
pub use tasks::{Mail, Subscription};

#[cfg(test)]
pub(crate) use autoresponder::guards::Assignment;
#[cfg(test)]
pub(crate) use identity::agents::AgentKeys;
pub(crate) use wakeups::{Wake, Wakeups};

/// What every transaction may look at.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) config: MailConfig,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) processes: Arc<dyn Processes>,
    pub(crate) connections: Connections,
    pub(crate) wakeups: Wakeups,
    /// Packets that are durable and not yet published, for the pump.
    pub(crate) publish_queue: PublishQueue,
    pub(crate) relay_name: &'static str,
    pub(crate) relay_max: usize,
    pub(crate) witness: WitnessFile,
    pub(crate) boot: u64,
    /// Since when sessions could come back to this daemon.
    pub(crate) opened_at: i64,
    /// The count of seals that the witness last noted.
    pub(crate) witnessed: AtomicU64,
    pub(crate) unwritten_leases: UnwrittenLeases,
    pub(crate) waiters: Waiters,
    pub(crate) rates: Rates,
    /// When old packet ids were last forgotten.
    pub(crate) forgot_at: AtomicI64,
    /// Some session has sat at a terminal of ours, by which it can be told of mail.
    pub(crate) has_terminals: AtomicBool,
    /// The next moment at which something falls due by itself.
    pub(crate) deadline: AtomicI64,
}

impl Env {
    /// A transaction is durable: note its seals, hand on its packets, wake whom it concerns.
    fn committed(&self, Outcome { wakes, sealed, leased }: &mut Outcome) {
        self.publish_queue.put(sealed);
        for ticket in leased {
            self.unwritten_leases.give_back(*ticket);
        }
        let wakes: &[Wake] = wakes;
        for wake in wakes {
            if let Wake::Sealed(seals) = wake {
                self.witnessed.fetch_max(*seals, Ordering::SeqCst);
                let noted = self.witness.write(Witness { boot: self.boot, seals: *seals, closed: false });
                if let Err(error) = noted {
                    tracing::error!(%error, "a restored backup may go unnoticed");
                }
            }
        }
        self.wakeups.notify_all(wakes);
    }
}

/// One transaction; what it wakes is woken only when it is durable.
pub(crate) struct Tx<'a> {
    pub(crate) db: &'a Connection,
    pub(crate) env: &'a Env,
    pub(crate) now: i64,
    pub(crate) wakes: Vec<Wake>,
    /// What it sealed, in order.
    pub(crate) sealed: Vec<DuePacket>,
    /// Tickets of the leases that it wrote.
    pub(crate) leased: Vec<u64>,
}

/// What follows once a transaction is durable.
struct Outcome {
    wakes: Vec<Wake>,
    sealed: Vec<DuePacket>,
    leased: Vec<u64>,
}

impl fmt::Debug for Tx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'a> Tx<'a> {
    pub(crate) fn new(db: &'a Connection, env: &'a Env) -> Tx<'a> {
        Tx { db, env, now: env.clock.now_ms(), wakes: Vec::new(), sealed: Vec::new(), leased: Vec::new() }
    }

    fn outcome(self) -> Outcome {
        Outcome { wakes: self.wakes, sealed: self.sealed, leased: self.leased }
    }

    /// Something falls due at this moment; the timer is woken only if that is earlier than it knows.
    pub(crate) fn due_at(&mut self, at: i64) {
        if at < self.env.deadline.fetch_min(at, Ordering::SeqCst) {
            self.wakes.push(Wake::Deadline);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) env: Arc<Env>,
    pub(crate) relay: Arc<dyn Relay>,
    owner: Owner,
}

impl Engine {
    pub(crate) fn new(env: Arc<Env>, relay: Arc<dyn Relay>, owner: Owner) -> Engine {
        Engine { env, relay, owner }
    }

    pub(crate) async fn tx<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, MailError> + Send + 'static,
    ) -> Result<T, MailError> {
        let (env, after) = (Arc::clone(&self.env), Arc::clone(&self.env));
        let (value, _) = self
            .owner
            .run(
                move |db| {
                    let mut tx = Tx::new(db, &env);
                    let value = work(&mut tx)?;
                    Ok::<_, MailError>((value, tx.outcome()))
                },
                move |(_, outcome)| after.committed(outcome),
            )
            .await?;
        Ok(value)
    }
}

impl Engine {
    /// Asks for a transaction without waiting for it; it runs before any that is asked for later.
    pub(crate) fn post(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<(), MailError> + Send + 'static,
        failed: impl FnOnce(&Env) + Send + 'static,
    ) {
        let (env, after, instead) = (Arc::clone(&self.env), Arc::clone(&self.env), Arc::clone(&self.env));
        let posted = self.owner.post(
            move |db| {
                let mut tx = Tx::new(db, &env);
                work(&mut tx)?;
                Ok::<_, MailError>(tx.outcome())
            },
            move |outcome| after.committed(outcome),
            move |error| {
                tracing::warn!(%error, "a lease could not be written");
                failed(&instead);
            },
        );
        if !posted {
            tracing::debug!("mail is closing; a lease was not written");
        }
    }
}

/// Random bytes from the kernel.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], MailError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| MailError::Io { what: "no randomness".into(), source: error.into() })?;
    Ok(bytes)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.is_ascii() || !text.len().is_multiple_of(2) {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}
