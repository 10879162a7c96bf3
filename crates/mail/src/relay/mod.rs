//! Between daemons: a directory of public keys and a mailbox for each address.
//!
//! A relay sees addresses, lengths and ciphertext. It may hand a packet over twice,
//! lose what it has not acknowledged to the publisher, and redeliver what was not
//! acknowledged by the reader; it keeps the order of one publisher's packets in one
//! mailbox. Everything beyond that is the engine's work, for every relay alike.

pub mod broker;
pub mod conformance;
mod embedded;
mod packet_cache;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::identity::Address;
use crate::seal::{Bundle, SignedKey};

pub use embedded::{EmbeddedLimits, EmbeddedRelay};

/// Answers a question about an agent's live sessions; `None` where it is not the asker's to know.
pub type Answering =
    Box<dyn Fn(Address) -> Pin<Box<dyn Future<Output = Option<Vec<String>>> + Send>> + Send + Sync>;

/// Whether an agent is there, as its own daemon tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// Its daemon is connected; these of its sessions are live.
    Online(Vec<String>),
    /// Its daemon is connected, and does not tell us.
    NotTold,
    /// Nobody answered.
    Away,
}

pub type Pending<'a, T> = Pin<Box<dyn Future<Output = Result<T, RelayError>> + Send + 'a>>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    /// Try again later; nothing was refused.
    #[error("the relay cannot be reached: {0}")]
    Unreachable(String),
    #[error("the relay is misconfigured: {0}")]
    Misconfigured(String),
    /// It may have lost the newest of what it took: publish again what has no receipt.
    #[error("the relay was restarted")]
    Renewed,
    #[error("the relay is closed")]
    Closed,
    #[error(
        "this build of trl has no relay between machines (it was built without the feature `relay-nats`); \
         remove the setting TRL_RELAY, or use a build that has it"
    )]
    NotInThisBuild,
}

/// A packet on its way to the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub from: Address,
    pub to: Address,
    /// Hash of the ciphertext; publishing it again while it is stored changes nothing.
    pub id: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Published {
    /// Kept until the reader acknowledges it.
    Stored,
    Refused(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    UnknownMailbox,
    MailboxFull,
    TooLarge,
}

/// A packet from the relay; `token` acknowledges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incoming {
    pub token: u64,
    pub from: Address,
    pub bytes: Vec<u8>,
}

/// What starts a session with someone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub bundle: Bundle,
    /// Given to nobody else; missing when all are used, then the bundle's fallback serves.
    pub one_time_key: Option<SignedKey>,
}

pub trait Relay: fmt::Debug + Send + Sync + 'static {
    fn name(&self) -> &'static str;

    /// Longest packet it carries.
    fn max_packet_bytes(&self) -> usize;

    /// Makes the mailbox if it is new, replaces the bundle, and adds one-time keys.
    fn announce<'a>(&'a self, who: &'a Address, bundle: Bundle, keys: Vec<SignedKey>) -> Pending<'a, ()>;

    fn bundle<'a>(&'a self, who: &'a Address) -> Pending<'a, Option<Bundle>>;

    fn unclaimed_keys<'a>(&'a self, who: &'a Address) -> Pending<'a, usize>;

    /// `None` if there is no such address.
    fn claim<'a>(&'a self, who: &'a Address) -> Pending<'a, Option<Claim>>;

    /// One answer for each packet, in order; packets are stored in order.
    fn publish(&self, packets: Vec<Outgoing>) -> Pending<'_, Vec<Published>>;

    /// Asks the daemon of `who`, on behalf of `from`. A relay of one machine has nobody to ask.
    fn presence<'a>(&'a self, _from: &'a Address, _who: &'a Address) -> Pending<'a, Presence> {
        Box::pin(std::future::ready(Ok(Presence::Away)))
    }

    /// Answers such questions about `who`, for as long as it is polled.
    fn attend<'a>(&'a self, _who: &'a Address, _answer: Answering) -> Pending<'a, ()> {
        Box::pin(std::future::pending())
    }

    /// Resolves when another process answers than the one that was last published to: it may have
    /// lost the newest of that. A relay of one machine has no such thing.
    fn renewed(&self) -> Pending<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Reads from the oldest packet that was not acknowledged.
    fn mailbox(&self, who: &Address) -> Box<dyn Mailbox>;
}

pub trait Mailbox: fmt::Debug + Send + 'static {
    /// Waits until there is at least one.
    fn next(&mut self, limit: usize) -> Pending<'_, Vec<Incoming>>;

    /// May be forgotten in a crash; the packet then comes again.
    fn ack(&mut self, tokens: Vec<u64>) -> Pending<'_, ()>;
}
