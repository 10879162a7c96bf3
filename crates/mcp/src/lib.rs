//! Sessions and mail as tools that models use, by the Model Context Protocol.
//!
//! [`Server`] answers one MCP client; [`serve_stdio`] gives it stdin and stdout,
//! [`http_route`] a path of an HTTP listener. Behind it stands a [`trl_client::Client`],
//! whose daemon may be elsewhere or in this very process. `tools/` has one file per tool:
//! its arguments, what it answers, and the requests it makes of both.

mod channel;
mod connection_bound;
mod fault;
mod follow;
mod guest;
mod http;
mod letters;
mod plain;
mod profile;
mod progress;
mod readings;
mod report;
mod schema;
mod server;
mod settings;
mod stdio;
mod toolbox;
mod tools;
mod wording;

pub use http::{Guests, http_route};
pub use profile::{Profile, UnknownProfile};
pub use server::Server;
pub use settings::{Channel, Settings};
pub use stdio::{StdioError, serve_stdio};
pub use toolbox::definitions;
