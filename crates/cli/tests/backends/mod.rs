//! What every backend must do, tried with real hosts and shells.
//!
//! The runtime is used directly, as the daemon uses it, so that a test can bring its own
//! backend. A daemon is killed by dropping its event loop with everything on it: its hosts
//! see their connections end, as they do when a daemon process is killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "that is how a test fails"
)]

mod choice;
mod clocks;
mod conformance;
mod container;
mod daemon;
mod far_relay;
mod granted;
mod listed;
mod local;
mod pipe;
mod remote;
mod ssh;

/// The statically linked host program, if `scripts/build-host` has made it.
fn static_host() -> Option<std::path::PathBuf> {
    let name = format!("trl-host-{}", std::env::consts::ARCH);
    Some(trl_testkit::trl!().with_file_name(name)).filter(|path| path.is_file())
}
