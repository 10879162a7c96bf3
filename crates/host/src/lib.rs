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
mod commands;
mod driver;
mod host;
mod keeper;
mod revival;
mod shell;
mod shell_state;
mod shutdown;
mod spare;
mod strays;
mod subscribers;
mod terminal;
mod timer;
mod tree;

use std::io;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

/// Runs the host whose first daemon is on the other end of standard input.
pub fn run() -> ExitCode {
    match start() {
        Ok(()) => ExitCode::SUCCESS,
        // The daemon has got the fault, or is gone; there is nobody else to tell.
        Err(_) => ExitCode::FAILURE,
    }
}

fn start() -> io::Result<()> {
    // A session of its own: the daemon's terminal and process group do not reach it.
    // It fails only for a group leader, which a fresh child is not.
    rustix::process::setsid().ok();
    close_foreign_descriptors();
    keeper::stand_behind()?;
    // The host leads a session of its own, too.
    rustix::process::setsid().ok();
    // A limit on file sizes is an error of a write, not the end of the session.
    // SAFETY: ignoring a signal has no preconditions.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let first = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
    let null = rustix::fs::open(c"/dev/null", flags, rustix::fs::Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    host::Host::create(first)?.run()
}

/// What the daemon's own parent left open would live on here for days: somebody's
/// pipe that never ends, somebody's lock that is never released.
fn close_foreign_descriptors() {
    // SAFETY: nothing in this process has opened a descriptor above 2 yet.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
}
