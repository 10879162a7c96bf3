//! What each verb does: one file per verb, named like it.

pub(crate) mod events;
pub(crate) mod exec;
pub(crate) mod file;
pub(crate) mod mail;
pub(crate) mod runtime;
pub(crate) mod session;
pub(crate) mod system;
