//! Talks to a trl daemon as anyone would: over its Unix socket, a line of JSON each way.
//!
//! [`Client::connect`] starts a daemon if there is none and it may; [`Client::call`]
//! asks one thing; [`Client::stream`] runs a command and hears it live, also across
//! a restart of the daemon. The crate reads neither environment nor home directory:
//! where things are is told by [`Options`].

mod changes;
mod client;
mod connection;
mod conversation;
mod error;
mod exit;
mod find_session;
mod head_tail;
pub mod home_mark;
mod message;
mod options;
mod patience;
pub mod readiness;
pub mod remote;
mod start;
mod stream;
mod view;

pub use changes::Changes;
pub use client::Client;
pub use connection::MAX_SOCKET_PATH;
pub use conversation::{Conversation, Held};
pub use error::{Error, Result};
pub use find_session::{FoundSession, How};
pub use head_tail::{Cut, HeadTail};
pub use message::Event;
pub use options::{Options, Start};
pub use stream::{ExecStream, Step};
pub use view::{SessionView, ViewEvent};
