//! Requests about files, done by a worker (`crate::workers`).
//!
//! `work.rs` does what is asked, `path.rs` finds files without following links behind the
//! caller's back, `fault.rs` says what went wrong.

mod edit;
mod fault;
mod glob;
mod list;
mod path;
mod read;
mod work;
mod write;

pub(crate) use work::perform;

#[cfg(test)]
mod tests;
