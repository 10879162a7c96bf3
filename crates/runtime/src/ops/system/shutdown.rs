//! `system.shutdown`: the answer goes out first, then the daemon ends.

use trl_protocol::system::{ShutdownParams, ShuttingDown};

use crate::runtime::{Inner, Stop};

pub(crate) fn perform(runtime: &Inner, params: &ShutdownParams) -> ShuttingDown {
    let keep_sessions = params.keep_sessions || runtime.config.keep_sessions;
    runtime.request_stop(Stop { keep_sessions });
    ShuttingDown { pid: std::process::id(), keep_sessions }
}
