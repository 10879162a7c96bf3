//! `system.…`

pub(crate) mod info;
pub(crate) mod ping;
pub(crate) mod runtimes;
pub(crate) mod shutdown;
pub(crate) mod stats;
