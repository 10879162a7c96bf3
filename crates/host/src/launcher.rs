//! Starts the hosts of a daemon on this machine.
//!
//! To load the program takes longer than most of what a host does before it has its shell. So one process loads it,
//! and forks for each host. It does nothing else, in one thread, so the copies may do whatever it may. It ends with
//! the daemon's end of its socket; the hosts do not.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags};
use trl_confine::linux::cgroups;
use trl_sys::descriptors;

/// Groups are removed by the host or its keeper; how often they are looked for if both were killed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);

/// Each byte that comes asks for a host. With it come the host's connection to the daemon, and where it writes
/// what it has to say when nobody is connected. The answer is the pid of its keeper, or the negative number of an error.
pub(crate) fn run() -> io::Result<()> {
    crate::detach();
    let daemon = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(&crate::null()?)?;
    // What is the same for every host.
    cgroups::sweep();
    let mut swept = Instant::now();
    trl_sys::clock::boot_id();
    // What ends is not waited for.
    // SAFETY: ignoring a signal has no preconditions.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    while let Some((connection, log)) = next_request(&daemon)? {
        // SAFETY: there is only this thread, so the child may do whatever the parent may.
        let answer = match unsafe { libc::fork() } {
            -1 => -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN),
            0 => {
                drop(daemon);
                return become_host(connection, log);
            }
            keeper => keeper,
        };
        rustix::net::send(&daemon, &answer.to_le_bytes(), SendFlags::NOSIGNAL)?;
        if swept.elapsed() > SWEEP_INTERVAL {
            cgroups::sweep();
            swept = Instant::now();
        }
    }
    Ok(())
}

/// None at the daemon's end.
fn next_request(daemon: &impl AsFd) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
    let mut byte = [0];
    let (count, fds) = loop {
        match descriptors::receive(daemon, &mut byte, RecvFlags::empty()) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            received => break received?,
        }
    };
    let mut fds = fds.into_iter();
    match (count, fds.next(), fds.next()) {
        (0, _, _) => Ok(None),
        (_, Some(connection), Some(log)) => Ok(Some((connection, log))),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn become_host(connection: OwnedFd, log: OwnedFd) -> io::Result<()> {
    // SAFETY: setting a default disposition has no preconditions.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    rustix::stdio::dup2_stderr(&log)?;
    drop(log);
    // Its keeper has a session of its own as well: what is sent to the launcher's is not for it.
    rustix::process::setsid().ok();
    let connection = UnixStream::from(connection);
    match crate::become_host() {
        Ok(()) => crate::serve(connection),
        Err(error) => crate::host::refuse(connection, &error),
    }
}
