//! The harness of the black-box tests: an independent witness of what `trl` does.
//!
//! It knows the wire contract and `/proc`, and shares no code with the client or
//! the daemon, so that a mistake in either cannot hide itself. [`Daemon`] is
//! hermetic: its own home, its own environment, and on drop it is ended as an
//! operator would end it and then searched for anything left behind.
//!
//! Everything here reports by panicking, with what the daemon logged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a harness reports by failing the test"
)]

mod broker;
mod connection;
mod coverage;
mod daemon;
mod every;
mod fuzz;
pub mod hostile;
mod http;
mod leftovers;
pub mod needs;
pub mod numbers;
mod person;
mod port;
pub mod process;
mod proxy;
mod ran;
mod session;
mod shell;
mod shrink;
mod wait;
mod ws;

pub use broker::Broker;
pub use connection::{Answer, Connection, Event, event_bytes};
pub use daemon::{Builder, Daemon};
pub use every::{every, every_file_is_named};
pub use fuzz::{Dice, fuzz};
pub use http::{Http, HttpAnswer, read_answer, read_chunk};
pub use leftovers::Leftovers;
pub use person::{Person, emulator, seen};
pub use port::own_port;
pub use proxy::Proxy;
pub use ran::Ran;
pub use session::Session;
pub use shell::Shell;
pub use shrink::smallest;
pub use wait::{GUARD, wait_until};
pub use ws::WebSocket;

/// The binary under test; only the package that builds it knows where it is.
#[macro_export]
macro_rules! trl {
    () => {
        ::std::path::Path::new(env!("CARGO_BIN_EXE_trl"))
    };
}

/// A running daemon with its defaults.
#[macro_export]
macro_rules! daemon {
    () => {
        $crate::Daemon::builder($crate::trl!()).start()
    };
}

/// Makes of each `fn case(shell: Shell)` one test per shell.
#[macro_export]
macro_rules! in_each_shell {
    ($($case:ident),* $(,)?) => {$(
        mod $case {
            #[test]
            fn bash() {
                super::$case($crate::Shell::Bash);
            }
            #[test]
            fn zsh() {
                super::$case($crate::Shell::Zsh);
            }
            #[test]
            fn sh() {
                super::$case($crate::Shell::Sh);
            }
        }
    )*};
}
