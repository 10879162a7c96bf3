//! `system.stats`

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trl_protocol::session::Usage;
use trl_protocol::system::Stats;

use crate::ops::session::list;
use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>) -> Stats {
    let sessions = list::living(runtime).await;
    Stats {
        active_sessions: runtime.registry.count(),
        total_commands_run: runtime.commands.load(Ordering::Relaxed),
        uptime_s: runtime.started.elapsed().as_secs_f64(),
        memory_rss_bytes: trl_sys::process::resident_bytes("self"),
        open_fds: trl_sys::process::open_descriptors(),
        running_commands: sessions.iter().filter(|session| session.running.is_some()).count(),
        connections: runtime.connections(),
        usage: sessions
            .iter()
            .filter_map(|session| session.confinement.usage)
            .fold(Usage::default(), Usage::and),
    }
}
