//! Durable state: one SQLite file, one thread that owns it, everything in transactions.

mod owner;
mod schema;
mod witness;

pub(crate) use owner::{Owner, OwnerGone, open_database};
pub(crate) use schema::prepare;
pub(crate) use witness::{SEAL_BLOCK, Witness, WitnessFile};
