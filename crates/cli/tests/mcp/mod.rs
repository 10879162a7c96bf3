//! The MCP server, as raw messages and with official clients.

mod client;
mod clients;
mod conforms;
mod faults;
mod mail;
mod recorded;
mod server;
mod waiting;
