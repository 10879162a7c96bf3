//! `system.ping`

use trl_protocol::system::Pong;

use crate::runtime::Inner;

pub(crate) fn perform(runtime: &Inner) -> Pong {
    Pong { uptime_s: runtime.started.elapsed().as_secs_f64(), version: runtime.config.version.clone() }
}
