//! What every backend must do, tried with real hosts and shells.
//!
//! The runtime is used directly, as the daemon uses it, so that a test can bring its own
//! backend. A daemon is killed by dropping its event loop with everything on it: its hosts
//! see their connections end, as they do when a daemon process is killed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "that is how a test fails")]

mod conformance;
mod daemon;
mod local;
mod pipe;
