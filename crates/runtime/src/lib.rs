//! Decisions about sessions and commands: which session, which host, within what limits.
//!
//! A transport gives a [`Request`](trl_protocol::Request) to [`Runtime::dispatch`] and
//! gets a reply or a fault back; the events of a streaming request go to its
//! [`EventSink`]. What happens inside a session (order, deadlines, output) is decided
//! by its host process, so that it goes on without a daemon. This crate knows neither
//! listeners nor terminals, and reads neither the environment nor a home directory.

mod adoption;
pub mod backend;
mod backends;
mod blocking;
mod caller;
mod config;
mod connection_bound;
mod dispatch;
mod environment;
mod feed;
mod granted;
mod grants;
mod health;
mod idle_exit;
mod kept_state;
mod link;
mod lookup;
mod mail_wake;
mod mailroom;
mod metrics;
mod ops;
mod output;
mod place;
mod proxy;
pub mod quiet_stream;
mod registry;
mod remote;
mod root_shell;
mod runtime;
mod runtime_choice;
mod seconds;
mod session;
mod signal;
mod temporary;
mod text;
mod watching;

pub use backend::{BoxFuture, HostDirsError};
pub use caller::{Caller, EventSink, Gone, Presence};
pub use config::{Config, NamedRuntime};
pub use grants::GrantKey;
pub use grants::reach::{Announce, Announced, Served};
pub use metrics::{CLASSES, MethodMetrics, Metrics};
pub use runtime::{Connected, Runtime, StartError, Stop};
pub use trl_sys::private::{DirError, make_private};
