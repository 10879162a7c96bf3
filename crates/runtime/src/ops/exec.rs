//! `exec.…`

pub(crate) mod attach;
pub(crate) mod bind;
pub(crate) mod cancel;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod output;
mod place;
pub(crate) mod relay;
pub(crate) mod resize;
pub(crate) mod run;
pub(crate) mod screen;
mod soft;
pub(crate) mod spec;
pub(crate) mod start;
pub(crate) mod stream;
mod subject;
pub(crate) mod wait;
pub(crate) mod write;
