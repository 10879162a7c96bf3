//! Ways in: bytes to requests, replies and events to bytes, and nothing else.
//!
//! [`serve`] runs a daemon with the transports it is told to. All of them lead to
//! [`trl_runtime::Runtime::dispatch`]; none decides anything about a session.

mod connection;
mod http;
mod in_process;
mod json_writer;
mod line_reader;
mod lock;
mod mcp;
mod outbox;
mod path_watch;
mod request_line;
mod serve;
mod stdio;
mod unix;
mod written;

pub use http::{
    HttpConfig, HttpError, Patience, TlsError, TlsFiles, TokenError, Tokens, UnauthenticatedLimits,
};
pub use serve::{GatewayConfig, ServeError, serve, serve_blocking};
pub use unix::SocketError;
