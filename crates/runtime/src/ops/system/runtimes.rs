//! `system.runtimes`: where sessions can be made, as far as is known now.

use std::sync::Arc;

use trl_protocol::system::{PlaceFacts, RuntimeFound, RuntimeKind, RuntimeState, Runtimes, SystemInfo};

use super::info;
use crate::backend::Backend;
use crate::config::NamedRuntime;
use crate::health::RuntimeHealth;
use crate::runtime::Inner;

pub(crate) fn perform(runtime: &Inner) -> Runtimes {
    let about = info::perform(runtime);
    let mut runtimes = vec![local(runtime, &about)];
    let mut named = Vec::new();
    for it in &runtime.config.runtimes {
        match runtime.backends.find(&runtime.config, &it.name) {
            Ok(backend) => {
                named.push(backend.name().to_owned());
                runtimes.push(elsewhere(runtime, &runtimes[0], &backend, Some(it)));
            }
            Err(fault) => {
                tracing::warn!(runtime = it.name, message = %fault.message, "a runtime is of no use")
            }
        }
    }
    for backend in runtime.backends.all().into_iter().skip(1) {
        if !named.iter().any(|name| name == backend.name()) {
            runtimes.push(elsewhere(runtime, &runtimes[0], &backend, None));
        }
    }
    Runtimes { runtimes }
}

fn local(runtime: &Inner, about: &SystemInfo) -> RuntimeFound {
    let names = rustix::system::uname();
    let sessions = runtime.registry.count_on(runtime.backends.default().name());
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    RuntimeFound {
        name: runtime.backends.default().name().to_owned(),
        kind: runtime.backends.default().kind(),
        state: RuntimeState::Ready,
        reason: None,
        since: runtime.started_at.clone(),
        available: runtime.registry.count() < about.limits.max_sessions,
        default: true,
        version: about.version.clone(),
        hostname: names.nodename().to_string_lossy().into_owned(),
        os: names.sysname().to_string_lossy().into_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        shells: about.shells.clone(),
        isolation: about.isolation.clone(),
        active_sessions: sessions,
        sessions,
        max_sessions: about.limits.max_sessions,
        labels: Vec::new(),
        memory_bytes: read("/proc/meminfo").lines().find_map(|line| {
            let kilobytes = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?;
            kilobytes.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
        }),
        load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()),
        rtt_ms: Some(0.0),
    }
}

fn elsewhere(
    runtime: &Inner,
    here: &RuntimeFound,
    backend: &Arc<dyn Backend>,
    named: Option<&NamedRuntime>,
) -> RuntimeFound {
    let RuntimeHealth { state, reason, since, facts, rtt_ms, .. } = runtime.health.of(backend);
    let is_container = backend.kind() == RuntimeKind::Container;
    let facts = facts.unwrap_or_else(|| match is_container {
        // A container is on this machine.
        true => PlaceFacts {
            os: here.os.clone(),
            arch: here.arch.clone(),
            cpus: here.cpus,
            memory_bytes: here.memory_bytes,
            load: here.load,
            ..PlaceFacts::default()
        },
        false => PlaceFacts::default(),
    });
    // What an engine does for containers that it makes for sessions.
    let profiles = if is_container && backend.is_near() { &["none", "workspace", "strict"][..] } else { &[] };
    let sessions = runtime.registry.count_on(backend.name());
    let max_sessions = named.and_then(|named| named.max_sessions).unwrap_or(here.max_sessions);
    RuntimeFound {
        name: named.map_or_else(|| backend.name().to_owned(), |named| named.name.clone()),
        kind: backend.kind(),
        state,
        reason,
        since,
        available: state != RuntimeState::Unreachable && sessions < max_sessions,
        default: false,
        version: here.version.clone(),
        hostname: facts.hostname,
        os: facts.os,
        arch: facts.arch,
        cpus: facts.cpus,
        shells: facts.shells,
        isolation: profiles.iter().map(|profile| (*profile).to_owned()).collect(),
        active_sessions: sessions,
        sessions,
        max_sessions,
        labels: named.map(|named| named.labels.clone()).unwrap_or_default(),
        memory_bytes: facts.memory_bytes,
        load: facts.load,
        rtt_ms,
    }
}
