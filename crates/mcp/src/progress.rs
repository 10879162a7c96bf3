//! Progress notifications: that a command is alive, and its last line.

use std::future::Future;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use tokio::time::{Instant, MissedTickBehavior};

/// How often a client that asked for progress hears of it.
pub(crate) const EVERY: Duration = Duration::from_millis(500);

/// Where a call's progress goes, if the client asked for it.
#[derive(Debug, Clone)]
pub(crate) struct Teller {
    to: Option<(Peer<RoleServer>, ProgressToken)>,
    began: Instant,
}

impl Teller {
    pub(crate) fn new(peer: Peer<RoleServer>, token: Option<ProgressToken>) -> Teller {
        Teller { to: token.map(|token| (peer, token)), began: Instant::now() }
    }

    pub(crate) fn wanted(&self) -> bool {
        self.to.is_some()
    }

    /// Waits for something, and tells that we do.
    pub(crate) async fn while_waiting<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut ticks = tokio::time::interval_at(Instant::now() + EVERY, EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = ticks.tick(), if self.wanted() => self.tell(None).await,
            }
        }
    }

    /// The seconds that have passed count as progress: they grow, whatever the command does.
    pub(crate) async fn tell(&self, last_line: Option<String>) {
        let Some((peer, token)) = &self.to else { return };
        let passed = self.began.elapsed().as_secs_f64();
        let param = ProgressNotificationParam::new(token.clone(), passed)
            .with_message(last_line.unwrap_or_else(|| format!("running for {passed:.0} s")));
        if let Err(error) = peer.notify_progress(param).await {
            tracing::debug!(%error, "a progress notification was not sent");
        }
    }
}
