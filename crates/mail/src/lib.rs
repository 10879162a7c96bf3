//! Mail between the sessions of agents.
pub mod envelope;
pub mod identity;
pub mod label;
pub mod seal;
