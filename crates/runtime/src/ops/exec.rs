//! `exec.…`

pub(crate) mod attach;
pub(crate) mod bind;
pub(crate) mod cancel;
pub(crate) mod info;
pub(crate) mod list;
pub(crate) mod output;
mod relay;
pub(crate) mod run;
mod spec;
pub(crate) mod start;
pub(crate) mod stream;
pub(crate) mod wait;
pub(crate) mod write;
