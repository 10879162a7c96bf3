//! The end of a process that is not our child.
//!
//! Linux tells it by a descriptor. Elsewhere the end of its connections has to do.

use trl_sys::pidfd::ProcessHandle;

/// A process that was alive when this was made.
#[derive(Debug)]
pub(crate) struct Watch(Option<ProcessHandle>);

impl Watch {
    pub(crate) fn new(pid: u32) -> Watch {
        Watch(ProcessHandle::open(pid))
    }

    pub(crate) async fn gone(self) {
        let Some(handle) = self.0 else { return };
        // A thread may wait for it: whoever asks waits for nothing else.
        let waited = tokio::task::spawn_blocking(move || handle.wait(None));
        let _ = waited.await;
    }
}
