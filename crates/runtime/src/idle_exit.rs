//! Ends a daemon that was started with an idle limit and has been unused for that long.
//!
//! A daemon is in use while it has sessions, clients, or agents with a live session. Held
//! mail and packets for a relay that is away do not count: the next daemon handles them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::runtime::{Inner, Stop};

/// Checks per idle period. Agents' heartbeats expire without an event, so this has to poll.
const CHECKS: u32 = 6;

pub(crate) async fn watch(inner: Arc<Inner>, most: Duration) {
    let mut last_needed = Instant::now();
    loop {
        sleep(most / CHECKS).await;
        if inner.is_needed().await {
            last_needed = Instant::now();
        } else if last_needed.elapsed() >= most {
            tracing::info!(seconds = most.as_secs_f64(), "this daemon is idle and ends");
            inner.request_stop(Stop { keep_sessions: true });
            return;
        }
    }
}
