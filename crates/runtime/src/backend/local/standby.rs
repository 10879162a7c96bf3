//! The host of the next session, started before anybody asks for one.
//!
//! A host has to be loaded and to get its keeper before it can take a session, which takes
//! longer than the shell itself needs to start. So while there are sessions, and a moment
//! longer, a host without one stands by. It ends when its connection does, so it does not
//! outlive the daemon, however the daemon ends.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::process::Child;

use crate::backend::Connection;

/// How long a host that has no session may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// A host process that has not been given a session yet.
#[derive(Debug)]
pub(super) struct SpareHost {
    pub(super) connection: Connection,
    pub(super) child: Child,
}

impl SpareHost {
    /// Closes its connection, upon which it ends; kills it if it does not.
    async fn dismiss(self) {
        drop(self.connection);
        let ended = end(self.child).await;
        tracing::debug!(?ended, "the standby host ended");
    }
}

/// Waits for the end of a host whose connection is closed.
pub(super) async fn end(mut child: Child) -> io::Result<()> {
    match tokio::time::timeout(END_TIMEOUT, child.wait()).await {
        Ok(ended) => ended.map(drop),
        Err(_) => child.kill().await,
    }
}

#[derive(Debug, Default)]
pub(super) struct Standby(Mutex<StandbyState>);

#[derive(Debug, Default)]
enum StandbyState {
    #[default]
    Empty,
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
        let StandbyState::Ready(mut spare) = std::mem::take(&mut *state) else { return None };
        matches!(spare.child.try_wait(), Ok(None)).then_some(spare)
    }

    /// Starts a standby host if there is none.
    pub(super) fn fill(&self, start: impl FnOnce() -> io::Result<SpareHost>) {
        let mut state = self.state();
        if matches!(*state, StandbyState::Empty) {
            match start() {
                Ok(spare) => *state = StandbyState::Ready(spare),
                // The next session tries again, and reports the error to its client.
                Err(error) => tracing::debug!(%error, "no standby host could be started"),
            }
        }
    }

    /// Ends the standby host.
    pub(super) async fn clear(&self) {
        if let Some(spare) = self.take() {
            spare.dismiss().await;
        }
    }

    /// Ends the standby host, and lets no other be started.
    pub(super) async fn close(&self) {
        let before = std::mem::replace(&mut *self.state(), StandbyState::Closed);
        if let StandbyState::Ready(spare) = before {
            spare.dismiss().await;
        }
    }
}
