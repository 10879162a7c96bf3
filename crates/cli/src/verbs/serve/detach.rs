//! A daemon started on demand lets go of everything that was its client's: the terminal,
//! the process group, the working directory, and every descriptor it was handed.
//!
//! stdout stays until the one line of readiness is written, then it is `/dev/null`.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use trl_client::readiness::Readiness;

/// First of all, before anything is opened.
pub(super) fn leave_terminal() {
    // Fails only for the leader of a process group, who has no client to leave.
    let _ = rustix::process::setsid();
    close_inherited();
}

/// What the client's parent left open (the other end of its pipes) would be open for as
/// long as we live, and whoever waits for its end would wait as long.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/dev/fd") else { return };
    let inherited: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    // Among them was the descriptor of the listing itself, which is closed by now; the
    // number may not be in use again, since nothing else runs in this process yet.
    for fd in inherited {
        // SAFETY: no part of this process owns a descriptor above 2 yet: nothing has been
        // opened since its start but the listing, and that is closed. Of a number that is
        // not open, closing is an error without effect, hence the probe.
        unsafe {
            let probe = rustix::fd::BorrowedFd::borrow_raw(fd);
            if rustix::io::fcntl_getfd(probe).is_ok() {
                rustix::io::close(fd);
            }
        }
    }
}

/// Tells the client, then lets go of its pipe and of its directory.
pub(super) fn announce(said: &Readiness) {
    // A client that has gone meanwhile is no reason to end.
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(&said.to_line()).and_then(|()| stdout.flush());
    match rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()) {
        Ok(null) => {
            if let Err(error) = rustix::stdio::dup2_stdout(&null) {
                tracing::warn!(%error, "stdout stays open");
            }
        }
        Err(error) => tracing::warn!(%error, "stdout stays open"),
    }
    if let Err(error) = std::env::set_current_dir("/") {
        tracing::warn!(%error, "the working directory stays in use");
    }
}

pub(super) fn is_served(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

/// Waits until the process has ended, or the time is over.
pub(super) fn wait_for_exit(pid: Option<u32>, most: Duration) {
    match pid.and_then(trl_sys::pidfd::ProcessHandle::open) {
        Some(process) => {
            process.wait(Some(most));
        }
        // Without a handle on it, only the time can be waited for.
        None => std::thread::park_timeout(most),
    }
}
