//! The process behind a host connection, for the case that it answers no more.
//!
//! A pid alone may by then be somebody else's, so a handle is taken while the host is
//! known to be alive. Where the kernel has none, a host that is stuck stays.

use std::os::fd::OwnedFd;

use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(crate) struct HostProcess {
    pub(crate) pid: u32,
    handle: Option<OwnedFd>,
}

impl HostProcess {
    /// Of a process that is alive now: a child not yet waited for, or the peer of a living connection.
    pub(crate) fn of(pid: u32) -> HostProcess {
        HostProcess { pid, handle: open(pid) }
    }

    /// Ends it at once; false if that cannot be done safely.
    pub(crate) fn kill(&self) -> bool {
        self.handle.as_ref().is_some_and(|handle| signal(handle, Signal::KILL))
    }

    /// Waits until it has ended. At once where the kernel cannot tell.
    pub(crate) async fn gone(&self) {
        let Some(handle) = self.handle.as_ref().and_then(|handle| handle.try_clone().ok()) else { return };
        // SAFETY: the descriptor is owned by what is registered, and closed only after it.
        let watched = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) };
        if let Ok(handle) = watched {
            // Readable is what the handle of a dead process is.
            handle.readable().await.ok();
        }
    }

    /// One that somebody has stopped goes on, to hear what it is told.
    pub(crate) fn wake(&self) {
        self.handle.as_ref().map(|handle| signal(handle, Signal::CONT));
    }
}

#[cfg(target_os = "linux")]
fn open(pid: u32) -> Option<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}

#[cfg(target_os = "linux")]
fn signal(handle: &OwnedFd, signal: Signal) -> bool {
    rustix::process::pidfd_send_signal(handle, signal).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn open(_pid: u32) -> Option<OwnedFd> {
    None
}

#[cfg(not(target_os = "linux"))]
fn signal(_handle: &OwnedFd, _signal: Signal) -> bool {
    false
}
