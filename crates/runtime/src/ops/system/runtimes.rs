//! `system.runtimes`: where sessions can be made. This daemon reaches its own machine.

use trl_protocol::system::{RuntimeFound, RuntimeKind, Runtimes};

use super::info;
use crate::runtime::Inner;

pub(crate) fn perform(runtime: &Inner) -> Runtimes {
    let about = info::perform(runtime);
    let names = rustix::system::uname();
    let local = RuntimeFound {
        name: "local".to_owned(),
        kind: RuntimeKind::Local,
        available: runtime.registry.count() < about.limits.max_sessions,
        default: true,
        version: about.version,
        hostname: names.nodename().to_string_lossy().into_owned(),
        os: names.sysname().to_string_lossy().into_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        shells: about.shells,
        isolation: about.isolation,
        active_sessions: runtime.registry.count(),
        max_sessions: about.limits.max_sessions,
    };
    Runtimes { runtimes: vec![local] }
}
