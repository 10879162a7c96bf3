//! One living shell and everything it starts: the session host.
//!
//! A small single-threaded process per session. It owns the shell, its terminal,
//! its pipes, its deadlines and its journal, and outlives the daemon that started
//! it. Daemons speak to it over the wire of `trl_protocol::wire`: the first one on
//! its standard input, later ones over its socket.
//!
//! Every source (shell, pipes, timer, signals, daemons) becomes one event in one loop
//! (`host/event_loop.rs`). What follows for the shell is decided by a state machine without I/O
//! (`driver/`), and carried out by the loop. There are no threads and no locks.

mod activity;
mod awaited;
mod cage;
mod commands;
mod driver;
pub mod far;
mod files;
mod host;
mod inside;
mod keeper;
mod launcher;
mod port;
mod rare;
mod resolve;
mod revival;
mod shell;
mod shell_state;
mod shutdown;
mod spare;
mod startup;
mod strays;
mod subscribers;
mod terminal;
mod timer;
mod tree;
mod usage;
mod workers;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Starts hosts for the daemon on the other end of standard input.
pub fn run() -> ExitCode {
    match launcher::run() {
        Ok(()) => ExitCode::SUCCESS,
        // The daemon has got the fault, or is gone; there is nobody else to tell.
        Err(_) => ExitCode::FAILURE,
    }
}

/// A session of its own: the terminal and process group of whoever started it do not reach it.
fn detach() {
    // It fails only for a group leader, which a fresh child is not.
    rustix::process::setsid().ok();
    close_descriptors(3, libc::c_uint::MAX);
}

/// The same for a process that nobody is to wait for, with one descriptor kept.
fn detach_keeping(kept: OwnedFd) -> io::Result<OwnedFd> {
    rustix::process::setsid().ok();
    let null = null()?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    drop(null);
    close_all_but(&kept)?;
    Ok(kept)
}

/// Goes on behind a keeper, with the signals that a host wants.
fn become_host() -> io::Result<()> {
    keeper::stand_behind()?;
    // The host leads a session of its own, too.
    rustix::process::setsid().ok();
    // A limit on file sizes is an error of a write, not the end of the session.
    // SAFETY: ignoring a signal has no preconditions.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    Ok(())
}

/// Runs the host for a daemon that brings its session over this connection.
fn serve(first: UnixStream) -> io::Result<()> {
    host::Host::create(first)?.run()
}

fn null() -> io::Result<OwnedFd> {
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::open(c"/dev/null", flags, rustix::fs::Mode::empty())?)
}

/// Leaves only the standard streams and this one.
fn close_all_but(kept: &impl AsRawFd) -> io::Result<()> {
    let number = libc::c_uint::try_from(kept.as_raw_fd()).map_err(io::Error::other)?;
    if number > 3 {
        close_descriptors(3, number - 1);
    }
    close_descriptors(number + 1, libc::c_uint::MAX);
    Ok(())
}

/// What the daemon's own parent left open would live on here for days: somebody's
/// pipe that never ends, somebody's lock that is never released.
fn close_descriptors(first: libc::c_uint, last: libc::c_uint) {
    // SAFETY: nothing in this process uses one of these descriptors.
    unsafe { libc::close_range(first, last, 0) };
}
