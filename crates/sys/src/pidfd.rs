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

    /// How the process ended, as `wait` would tell its parent. Known once its parent has asked, and only by
    /// Linux 6.15 and later.
    #[cfg(target_os = "linux")]
    pub fn exit_status(&self) -> Option<i32> {
        use std::os::fd::AsRawFd as _;
        let mut info = Info { mask: INFO_EXIT, ..Info::default() };
        // SAFETY: the kernel reads and writes a structure of ours, whose size is part of the request.
        let asked = unsafe { libc::ioctl(self.0.as_raw_fd(), GET_INFO as _, &raw mut info) };
        (asked == 0 && info.mask & INFO_EXIT != 0).then_some(info.exit_code)
    }

    #[cfg(not(target_os = "linux"))]
    pub fn exit_status(&self) -> Option<i32> {
        None
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

/// The first version of the kernel's `struct pidfd_info`.
#[cfg(target_os = "linux")]
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

#[cfg(target_os = "linux")]
const INFO_EXIT: u64 = 1 << 3;
/// `_IOWR(0xff, 11, struct pidfd_info)`
#[cfg(target_os = "linux")]
const GET_INFO: u32 = (3 << 30) | ((size_of::<Info>() as u32) << 16) | (0xff << 8) | 11;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_handle_outlives_its_process_and_reaches_nobody_else() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let handle = ProcessHandle::open(child.id()).unwrap();
        assert!(!handle.wait(Some(Duration::ZERO)) && handle.exit_status().is_none());
        assert!(handle.signal(Signal::KILL));
        assert!(handle.wait(Some(Duration::from_secs(30))));
        child.wait().unwrap();
        assert!(!handle.signal(Signal::KILL), "a reaped process receives nothing");
        let told = handle.exit_status();
        assert!(told.is_none_or(|status| status == Signal::KILL.as_raw()), "{told:?}");
        assert!(ProcessHandle::open(0).is_none() && ProcessHandle::open(u32::MAX).is_none());
    }
}
