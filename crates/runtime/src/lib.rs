//! Decisions about sessions and commands: which session, which host, within what limits.
//!
//! A transport gives a [`Request`](trl_protocol::Request) to [`Runtime::dispatch`] and
//! gets a reply or a fault back; the events of a streaming request go to its
//! [`EventSink`]. What happens inside a session (order, deadlines, output) is decided
//! by its host process, so that it goes on without a daemon. This crate knows neither
//! listeners nor terminals, and reads neither the environment nor a home directory.

mod adoption;
mod aside;
mod birth;
mod bonds;
mod caller;
mod config;
mod dispatch;
mod environment;
mod feed;
mod host_process;
mod leisure;
mod link;
mod mailroom;
mod memory;
mod metrics;
mod ops;
mod orphans;
mod output;
pub mod quiet_stream;
mod registry;
mod remains;
mod runtime;
mod seconds;
mod session;
mod shells;
mod signal;
mod standby;
mod text;
mod waking;
mod watching;

pub use caller::{Caller, EventSink, Gone, Presence};
pub use config::Config;
pub use metrics::{CLASSES, MethodMetrics, Metrics};
pub use runtime::{Connected, Runtime, StartError, Stop};
pub use trl_sys::private::{DirError, make_private};
