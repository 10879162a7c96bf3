//! Mail between the sessions of agents.
pub mod envelope;
pub mod label;
