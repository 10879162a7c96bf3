//! A daemon that was asked to ends by itself when nobody has needed it for a while.
//!
//! Needed is one that has sessions, clients, or agents with a live session. What only waits
//! (held mail, a packet for a relay that is away) is looked after by the next daemon.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::runtime::{Inner, Stop};

/// Looks so often in the time that nobody may need it. A heartbeat runs out without an event.
const LOOKS: u32 = 6;

pub(crate) async fn watch(inner: Arc<Inner>, most: Duration) {
    let mut needed_at = Instant::now();
    loop {
        sleep(most / LOOKS).await;
        if inner.is_needed().await {
            needed_at = Instant::now();
        } else if needed_at.elapsed() >= most {
            tracing::info!(seconds = most.as_secs_f64(), "nobody has needed this daemon; it ends");
            inner.request_stop(Stop { keep_sessions: true });
            return;
        }
    }
}
