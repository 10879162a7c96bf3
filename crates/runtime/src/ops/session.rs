//! `session.…`

pub(crate) mod bind;
pub(crate) mod create;
pub(crate) mod destroy;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod restart;
