//! `session.…`

pub(crate) mod attach;
pub(crate) mod bind;
pub(crate) mod create;
pub(crate) mod destroy;
pub(crate) mod fork;
pub(crate) mod info;
pub(crate) mod input;
pub(crate) mod list;
pub(crate) mod rename;
pub(crate) mod resize;
pub(crate) mod restart;
