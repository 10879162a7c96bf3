//! The line protocol on stdin and stdout, for a daemon that is somebody's child.

use tokio::sync::watch;
use trl_runtime::Runtime;

use crate::connection::{Connection, Phase};

/// Serves until stdin ends and everything is answered.
pub(crate) async fn serve(runtime: Runtime, phase: watch::Receiver<Phase>) {
    // A parent that is gone shows when stdout is written to; until then nobody is missed.
    let hung_up = std::future::pending();
    Connection::new(runtime, phase).serve(tokio::io::stdin(), tokio::io::stdout(), hung_up).await;
}
