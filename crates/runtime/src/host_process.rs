//! The processes behind a host connection, for the case that it answers no more.
//!
//! A pid alone may by then be somebody else's, so a handle is taken while the host is
//! known to be alive. Where the kernel has none, a host that is stuck stays.
//!
//! A host has a keeper: its parent, and a copy of it, which ends what the host has started
//! when the host itself is killed. The session is over when both are gone.

use std::os::fd::OwnedFd;

use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use trl_sys::pidfd::ProcessHandle;
use trl_sys::process;

use crate::config::Config;

#[derive(Debug)]
pub(crate) struct HostProcess {
    pub(crate) pid: u32,
    handle: Option<ProcessHandle>,
    keeper: Option<ProcessHandle>,
}

impl HostProcess {
    /// Of a process that is alive now: a child not yet waited for, or the peer of a living connection.
    pub(crate) fn of(pid: u32) -> HostProcess {
        let keeper = keeper_of(pid).and_then(ProcessHandle::open);
        HostProcess { pid, handle: ProcessHandle::open(pid), keeper }
    }

    /// Ends it at once; false if that cannot be done safely.
    pub(crate) fn kill(&self) -> bool {
        self.handle.as_ref().is_some_and(|handle| handle.signal(Signal::KILL))
    }

    /// Waits until it has ended, and what it started with it. At once where the kernel cannot tell.
    pub(crate) async fn gone(&self) {
        for handle in [&self.handle, &self.keeper].into_iter().flatten() {
            let Ok(handle) = handle.try_clone().map(OwnedFd::from) else { continue };
            // SAFETY: the descriptor is owned by what is registered, and closed only after it.
            let watched = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) };
            if let Ok(handle) = watched {
                // Readable is what the handle of a dead process is.
                handle.readable().await.ok();
            }
        }
    }

    /// One that somebody has stopped goes on, to hear what it is told.
    pub(crate) fn wake(&self) {
        self.handle.as_ref().map(|handle| handle.signal(Signal::CONT));
    }
}

/// Whether that process is a host: one that was started with such words.
pub(crate) fn is_host(pid: u32, config: &Config) -> bool {
    let last = config.host_args.last().map(|word| word.as_encoded_bytes()).unwrap_or_default();
    let words = process::command_line(pid).unwrap_or_default();
    !last.is_empty() && words.strip_suffix(b"\0").is_some_and(|words| words.ends_with(last))
}

/// A host's parent, if it was started with the same words: nobody else is.
fn keeper_of(pid: u32) -> Option<u32> {
    let parent: u32 = process::status_field(pid, "PPid")?.parse().ok()?;
    (process::command_line(pid)? == process::command_line(parent)?).then_some(parent)
}
