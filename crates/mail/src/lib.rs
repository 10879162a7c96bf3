//! Mail between the sessions of agents: identity, labels, routing, sealing, store, relays.
//!
//! [`Mail`] is what a daemon opens and asks; [`envelope`] is what people who debug use.
//! One owner at a time holds the state, by a kernel lock; everything durable is in
//! SQLite, in transactions, on a thread of its own, so nothing here blocks the caller's
//! event loop. No listener, no terminal, no environment variable is touched.

pub mod clock;
pub mod config;
mod engine;
pub mod envelope;
mod error;
pub mod identity;
pub mod label;
pub mod lock;
pub mod presence;
pub mod registry;
pub mod relay;
pub mod routing;
pub mod seal;
#[cfg(test)]
mod secrets;
mod state;
pub mod steps;
mod store;

pub use config::MailConfig;
pub use engine::{
    Caller, GrantedRuntime, GrantedRuntimes, IdleAgent, IdleAgents, Mail, MailReply, MailRequest, Parties,
    Subscription,
};
pub use error::MailError;
