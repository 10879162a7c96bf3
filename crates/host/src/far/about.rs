//! What this place is like, for whoever chooses where a session runs.

use std::io::{self, Write as _};

use trl_protocol::system::{PlaceFacts, ShellFound};
use trl_sys::shells::{self, Search};

pub(super) fn run() -> io::Result<()> {
    let mut line = serde_json::to_vec(&facts())?;
    line.push(b'\n');
    io::stdout().write_all(&line)
}

/// Of the machine, or of the container, in which this runs.
pub fn facts() -> PlaceFacts {
    let path = std::env::var("PATH").unwrap_or_default();
    let told =
        |shell: shells::FoundShell| ShellFound { name: shell.name, path: shell.path.display().to_string() };
    let names = rustix::system::uname();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let memory = read("/proc/meminfo").lines().find_map(|line| {
        let kilobytes = line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB")?;
        kilobytes.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
    });
    PlaceFacts {
        hostname: names.nodename().to_string_lossy().into_owned(),
        os: names.sysname().to_string_lossy().into_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: memory,
        load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()),
        shells: shells::installed(Search { path: &path, preferred: None }).into_iter().map(told).collect(),
        isolation: trl_confine::support().0.iter().map(|profile| profile.name().to_owned()).collect(),
        version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        free_sessions: None,
    }
}
