//! The end of a process that is not our child.
//!
//! Linux tells it by a descriptor. Elsewhere the end of its connections has to do.

use rustix::event::{PollFd, PollFlags, poll};

/// A process that was alive when this was made.
#[derive(Debug)]
pub(crate) struct Watch(Option<std::os::fd::OwnedFd>);

impl Watch {
    #[cfg(target_os = "linux")]
    pub(crate) fn new(pid: u32) -> Watch {
        let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
        Watch(pid.and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn new(_pid: u32) -> Watch {
        Watch(None)
    }

    pub(crate) async fn gone(self) {
        let Some(handle) = self.0 else { return };
        // A thread may wait for it: whoever asks waits for nothing else.
        let waited = tokio::task::spawn_blocking(move || {
            let mut readable = [PollFd::new(&handle, PollFlags::IN)];
            while poll(&mut readable, None) == Err(rustix::io::Errno::INTR) {}
        });
        let _ = waited.await;
    }
}
