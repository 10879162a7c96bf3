//! `system.runtimes`: where sessions can be made, as far as is known now.

use trl_protocol::Fault;
use trl_protocol::system::{PlaceFacts, RuntimeFound, RuntimeKind, RuntimeState, Runtimes, SystemInfo};

use super::info;
use crate::caller::Caller;
use crate::config::NamedRuntime;
use crate::grants::rules;
use crate::health::RuntimeHealth;
use crate::place::Place;
use crate::runtime::Inner;

pub(crate) fn perform(runtime: &Inner) -> Runtimes {
    let about = info::perform(runtime);
    let mut runtimes = vec![local(runtime, &about)];
    let mut named = Vec::new();
    for it in &runtime.config.runtimes {
        match Place::find(runtime, &it.name) {
            Ok(place) => {
                named.push(place.name().to_owned());
                runtimes.push(elsewhere(runtime, &runtimes[0], &place, Some(it)));
            }
            Err(fault) => {
                tracing::warn!(runtime = it.name, message = %fault.message, "a runtime is of no use")
            }
        }
    }
    let granted = runtime.remotes.granted();
    let granted = granted.iter().filter_map(|name| Place::find(runtime, name).ok());
    let used = runtime.remotes.used(&runtime.config).into_iter().map(Place::Daemon);
    let backends = runtime.backends.all().into_iter().skip(1).map(Place::Hosts);
    for place in granted.chain(backends).chain(used) {
        if !named.iter().any(|name| name == place.name()) {
            named.push(place.name().to_owned());
            let found = elsewhere(runtime, &runtimes[0], &place, None);
            // An address that somebody has tried in vain is no runtime that anyone has.
            if found.granted_by.is_some() || found.sessions > 0 || found.state != RuntimeState::Unreachable {
                runtimes.push(found);
            }
        }
    }
    Runtimes { runtimes }
}

/// Under a grant there is only this machine, with what the grant leaves of it.
pub(crate) fn for_caller(runtime: &Inner, caller: &Caller) -> Result<Runtimes, Fault> {
    let Some(key) = &caller.grant else { return Ok(perform(runtime)) };
    let grant = runtime.grants.active(key)?;
    let mut here = local(runtime, &info::perform(runtime));
    here.sessions = grant.sessions.iter().filter(|id| runtime.registry.is_present(**id)).count();
    here.active_sessions = here.sessions;
    here.max_sessions = grant.max_sessions.map_or(here.max_sessions, |most| most.min(here.max_sessions));
    here.available &= here.sessions < here.max_sessions;
    here.isolation.retain(|name| rules::is_enough(&grant, name));
    Ok(Runtimes { runtimes: vec![here] })
}

fn local(runtime: &Inner, about: &SystemInfo) -> RuntimeFound {
    let names = rustix::system::uname();
    let sessions = runtime.registry.count_on(runtime.backends.default().name());
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    RuntimeFound {
        name: runtime.backends.default().name().to_owned(),
        target: None,
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
        granted_by: None,
        expires_at: None,
    }
}

fn elsewhere(
    runtime: &Inner,
    here: &RuntimeFound,
    place: &Place,
    named: Option<&NamedRuntime>,
) -> RuntimeFound {
    let RuntimeHealth { state, reason, since, facts, rtt_ms, .. } = runtime.health.of(place);
    let is_container = place.kind() == RuntimeKind::Container;
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
    let isolation = match place {
        Place::Hosts(backend) if is_container && backend.is_near() => {
            ["none", "workspace", "strict"].map(str::to_owned).to_vec()
        }
        _ => facts.isolation,
    };
    let sessions = runtime.registry.count_on(place.name());
    // Another daemon may have less room than is configured here.
    let room_there = facts.free_sessions.map(|free| free + sessions);
    let allowed = named.and_then(|named| named.max_sessions).unwrap_or(here.max_sessions);
    let max_sessions = room_there.map_or(allowed, |room| room.min(allowed));
    let grant = match named {
        Some(_) => None,
        None => runtime.remotes.grant(place.name()),
    };
    RuntimeFound {
        name: named.map_or_else(|| place.name().to_owned(), |named| named.name.clone()),
        target: named.map(|named| named.target.clone()),
        kind: place.kind(),
        state,
        reason,
        since,
        available: state != RuntimeState::Unreachable && sessions < max_sessions,
        default: false,
        version: facts.version.unwrap_or_else(|| here.version.clone()),
        hostname: facts.hostname,
        os: facts.os,
        arch: facts.arch,
        cpus: facts.cpus,
        shells: facts.shells,
        isolation,
        active_sessions: sessions,
        sessions,
        max_sessions,
        labels: named.map(|named| named.labels.clone()).unwrap_or_default(),
        memory_bytes: facts.memory_bytes,
        load: facts.load,
        rtt_ms,
        granted_by: grant.as_ref().map(|grant| grant.granted_by.clone()),
        expires_at: grant.and_then(|grant| grant.expires_at),
    }
}
