//! The HTTP API of SWE-ReX's remote runtime, on sessions of a daemon.
//!
//! Programs that use SWE-ReX's client (SWE-agent, mini-swe-agent) run on `trl` without a change. [`serve`]
//! answers its routes; `shell.rs` has sessions and what runs in them (`command.rs` one command,
//! `verdict.rs` what is said about it), `execute.rs` commands without a
//! session, `files.rs` files. A failure is answered as an exception that the client raises
//! (`exception.rs`). `repeats.rs` gives a repeated request the answer of the first.

mod archive;
mod command;
mod exception;
mod execute;
mod files;
mod multipart;
mod repeats;
mod requests;
mod routes;
mod shell;
mod state;
mod text;
mod verdict;

pub use routes::serve;
pub use state::Settings;
