//! The processes behind a local host, for the case that it does not answer.
//!
//! A pid alone may belong to another process by then, so a pidfd is taken while the host is
//! known to be alive. Where the kernel has no pidfds, a host that is stuck stays.
//!
//! A host has a keeper: its parent, and a copy of it, which ends what the host has started
//! when the host itself is killed. The session is over when both are gone.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use rustix::process::Signal;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use trl_protocol::wire::DAEMON_PID;
use trl_sys::pidfd::ProcessHandle;
use trl_sys::process;

use crate::backend::{BoxFuture, HostHandle};

#[derive(Debug)]
pub(crate) struct HostProcess {
    pid: u32,
    handle: Option<ProcessHandle>,
    keeper: Option<ProcessHandle>,
}

impl HostProcess {
    /// Of one that has just been started, whose keeper is known.
    pub(super) fn started(pid: u32, keeper: Option<ProcessHandle>) -> HostProcess {
        HostProcess { pid, handle: ProcessHandle::open(pid), keeper }
    }

    /// Of a process that is alive now: a child not yet waited for, or the peer of a living connection.
    pub(crate) fn of(pid: u32) -> HostProcess {
        let keeper = keeper_of(pid).and_then(ProcessHandle::open);
        HostProcess { pid, handle: ProcessHandle::open(pid), keeper }
    }
}

impl HostHandle for HostProcess {
    fn describe(&self) -> String {
        format!("pid {}", self.pid)
    }

    fn kill(&self) -> BoxFuture<'_, bool> {
        let killed = self.handle.as_ref().is_some_and(|handle| handle.signal(Signal::KILL));
        Box::pin(std::future::ready(killed))
    }

    fn gone(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for handle in [&self.handle, &self.keeper].into_iter().flatten() {
                end_of(handle).await;
            }
        })
    }

    fn resume(&self) {
        self.handle.as_ref().map(|handle| handle.signal(Signal::CONT));
    }

    fn is_stopped(&self) -> bool {
        process::status_field(self.pid, "State").is_some_and(|state| state.starts_with(['T', 't']))
    }
}

/// Waits until the process has ended.
pub(super) async fn end_of(process: &ProcessHandle) {
    let Ok(handle) = process.try_clone().map(OwnedFd::from) else { return };
    // SAFETY: the descriptor is owned by what is registered, and closed only after it.
    let watched = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) };
    if let Ok(handle) = watched {
        // The pidfd of a dead process is readable.
        handle.readable().await.ok();
    }
}

/// Whether that process is a host: one that was started with these arguments.
pub(super) fn is_host(pid: u32, host_args: &[OsString]) -> bool {
    let last = host_args.last().map(|word| word.as_encoded_bytes()).unwrap_or_default();
    let words = process::command_line(pid).unwrap_or_default();
    !last.is_empty() && words.strip_suffix(b"\0").is_some_and(|words| words.ends_with(last))
}

/// The host of a keeper that this daemon had started. Looked at after the handle was taken, so that it is the very
/// process that was looked at.
pub(super) fn host_of(keeper: u32) -> Option<ProcessHandle> {
    let keeper = i32::try_from(keeper).ok()?;
    let mark = format!("{DAEMON_PID}={}", std::process::id());
    process::children(keeper).into_iter().find_map(|pid| {
        let handle = ProcessHandle::open(pid)?;
        let is_ours = process::environment(pid)?.split(|&byte| byte == 0).any(|it| it == mark.as_bytes());
        (is_ours && process::stat(pid)?.parent == keeper).then_some(handle)
    })
}

/// A host's parent, if it was started with the same arguments: its keeper. The launcher has these too, but is no
/// host's parent.
fn keeper_of(pid: u32) -> Option<u32> {
    let parent: u32 = process::status_field(pid, "PPid")?.parse().ok()?;
    (process::command_line(pid)? == process::command_line(parent)?).then_some(parent)
}
