//! SIGTERM and SIGINT end the daemon in good order; a second one ends it at once.
//!
//! SIGHUP keeps its default: a terminal that closes ends the daemon as a crash would,
//! and the sessions stay for the next one. `nohup` therefore works as usual.

use tokio::signal::unix::{SignalKind, signal};

pub(crate) async fn told_to_end() {
    let (mut terminate, mut interrupt) =
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
            (Err(error), _) | (_, Err(error)) => {
                tracing::error!(%error, "signals cannot be heard");
                return std::future::pending().await;
            }
        };
    tokio::select! {
        _ = terminate.recv() => tracing::info!("SIGTERM: ending"),
        _ = interrupt.recv() => tracing::info!("SIGINT: ending"),
    }
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::warn!("a second signal: ending immediately; what is left is for the next daemon");
        std::process::exit(1);
    });
}
