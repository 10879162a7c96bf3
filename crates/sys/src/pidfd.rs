//! A handle on one process that is not our child.
//!
//! A pid may be reused once its process has been reaped; a handle keeps referring to the process it was opened
//! for. Only Linux has such handles. Elsewhere [`ProcessHandle::open`] returns `None`, and callers
//! use whatever weaker sign they have.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

/// Its descriptor becomes readable when the process ends.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// `None` if there is no such process, or no handles on this system.
    #[cfg(target_os = "linux")]
    pub fn open(pid: impl TryInto<i32>) -> Option<ProcessHandle> {
        let pid = rustix::process::Pid::from_raw(pid.try_into().ok()?)?;
        let flags = rustix::process::PidfdFlags::empty();
        rustix::process::pidfd_open(pid, flags).ok().map(ProcessHandle)
    }

    #[cfg(not(target_os = "linux"))]
    pub fn open(_pid: impl TryInto<i32>) -> Option<ProcessHandle> {
        None
    }

    /// Whether the process was still there to receive the signal.
    #[cfg(target_os = "linux")]
    pub fn signal(&self, signal: Signal) -> bool {
        rustix::process::pidfd_send_signal(&self.0, signal).is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    pub fn signal(&self, _signal: Signal) -> bool {
        false
    }

    /// Blocks until the process has ended, or for `timeout`. Returns whether it has ended.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.map(|timeout| std::time::Instant::now() + timeout);
        loop {
            let left = deadline.map(|at| at.saturating_duration_since(std::time::Instant::now()));
            let left = left.map(|left| Timespec::try_from(left).unwrap_or_default());
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], left.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                Ok(ready) => return ready > 0,
                Err(_) => return false,
            }
        }
    }

    pub fn try_clone(&self) -> std::io::Result<ProcessHandle> {
        self.0.try_clone().map(ProcessHandle)
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<ProcessHandle> for OwnedFd {
    fn from(handle: ProcessHandle) -> OwnedFd {
        handle.0
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_handle_outlives_its_process_and_reaches_nobody_else() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let handle = ProcessHandle::open(child.id()).unwrap();
        assert!(!handle.wait(Some(Duration::ZERO)));
        assert!(handle.signal(Signal::KILL));
        assert!(handle.wait(Some(Duration::from_secs(30))));
        child.wait().unwrap();
        assert!(!handle.signal(Signal::KILL), "a reaped process receives nothing");
        assert!(ProcessHandle::open(0).is_none() && ProcessHandle::open(u32::MAX).is_none());
    }
}
