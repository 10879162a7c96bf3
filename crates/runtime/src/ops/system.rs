//! `system.…`

pub(crate) mod info;
pub(crate) mod ping;
pub(crate) mod shutdown;
pub(crate) mod stats;
