//! The host of the next session, started before anybody asks for one.
//!
//! A host has to be forked, and to get its keeper and its control groups, before it can take a session. So while there are sessions, and a moment
//! longer, a host without one stands by. It ends when its connection does, so it does not
//! outlive the daemon, however the daemon ends.

use std::future::Future;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Signal, WaitId, WaitIdOptions};
use trl_sys::pidfd::ProcessHandle;

use super::process;
use crate::backend::Connection;

/// How long a host that has no session may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// A host process that has not been given a session yet.
#[derive(Debug)]
pub(super) struct SpareHost {
    pub(super) connection: Connection,
    pub(super) keeper: Keeper,
}

/// The keeper of a host: it ends after its host.
#[derive(Debug)]
pub(super) struct Keeper {
    pid: u32,
    handle: Option<ProcessHandle>,
}

impl SpareHost {
    pub(super) fn new(connection: Connection, keeper: u32) -> SpareHost {
        SpareHost { connection, keeper: Keeper { pid: keeper, handle: ProcessHandle::open(keeper) } }
    }

    /// Closes its connection, upon which it ends.
    async fn dismiss(self) {
        drop(self.connection);
        self.keeper.end().await;
    }
}

impl Keeper {
    pub(super) fn handle(&self) -> Option<ProcessHandle> {
        self.handle.as_ref().and_then(|handle| handle.try_clone().ok())
    }

    fn is_alive(&self) -> bool {
        // One that cannot be looked at is tried.
        self.handle.as_ref().is_none_or(|handle| !handle.wait(Some(Duration::ZERO)))
    }

    /// Waits for the end of a host whose connection is closed. One that does not end, such as one that was
    /// stopped, is killed.
    pub(super) async fn end(self) {
        let ended = tokio::time::timeout(END_TIMEOUT, self.reap()).await;
        tracing::debug!(?ended, "a host without a session ended");
        if ended.is_err() {
            self.kill_host();
            let ended = tokio::time::timeout(END_TIMEOUT, self.reap()).await;
            tracing::warn!(?ended, "a host without a session was killed");
        }
    }

    /// The keeper ends whatever its host leaves, and then itself.
    fn kill_host(&self) {
        process::host_of(self.pid).map(|host| host.signal(Signal::KILL));
        self.handle.as_ref().map(|keeper| keeper.signal(Signal::CONT));
    }

    /// Waits for the end of a host, whoever its parent is.
    pub(super) async fn reap(&self) {
        let Some(handle) = &self.handle else { return };
        process::end_of(handle).await;
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        // As a rule it is the launcher's child, and not waited for.
        rustix::process::waitid(WaitId::PidFd(handle.as_fd()), how).ok();
    }
}

#[derive(Debug, Default)]
pub(super) struct Standby(Mutex<StandbyState>);

#[derive(Debug, Default)]
enum StandbyState {
    #[default]
    Empty,
    Starting,
    Ready(SpareHost),
    /// The daemon ends: no further host is started.
    Closed,
}

impl Standby {
    fn state(&self) -> MutexGuard<'_, StandbyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The standby host, if it is still alive.
    pub(super) fn take(&self) -> Option<SpareHost> {
        let mut state = self.state();
        let StandbyState::Ready(_) = &*state else { return None };
        let StandbyState::Ready(spare) = std::mem::take(&mut *state) else { return None };
        spare.keeper.is_alive().then_some(spare)
    }

    /// Starts a standby host if there is none.
    pub(super) async fn fill(&self, start: impl Future<Output = io::Result<SpareHost>>) {
        match &mut *self.state() {
            state @ StandbyState::Empty => *state = StandbyState::Starting,
            _ => return,
        }
        let started = start.await;
        let unwanted = match (&mut *self.state(), started) {
            (state @ StandbyState::Starting, Ok(spare)) => {
                *state = StandbyState::Ready(spare);
                None
            }
            (state @ StandbyState::Starting, Err(error)) => {
                // The next session tries again, and reports the error to its client.
                tracing::debug!(%error, "no standby host could be started");
                *state = StandbyState::Empty;
                None
            }
            (_, started) => started.ok(),
        };
        if let Some(spare) = unwanted {
            spare.dismiss().await;
        }
    }

    /// Ends the standby host, unless there is use for it.
    pub(super) async fn clear_if(&self, is_unused: impl Fn() -> bool) {
        let before = match &mut *self.state() {
            StandbyState::Closed => return,
            state if is_unused() => std::mem::take(state),
            _ => return,
        };
        before.dismiss().await;
    }

    /// Ends the standby host, and lets no other be started.
    pub(super) async fn close(&self) {
        let before = std::mem::replace(&mut *self.state(), StandbyState::Closed);
        before.dismiss().await;
    }
}

impl StandbyState {
    /// One that is still starting is dismissed when it has started.
    async fn dismiss(self) {
        if let StandbyState::Ready(spare) = self {
            spare.dismiss().await;
        }
    }
}
