//! The MCP server, as raw messages and with official clients.

mod channel;
pub(crate) mod client;
mod clients;
mod conforms;
mod faults;
mod files;
mod leaving;
mod mail;
mod recorded;
mod server;
mod waiting;
