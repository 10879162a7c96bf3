//! Landlock for files, ports and other processes; seccomp for what Landlock does not cover.

use std::collections::BTreeMap;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

pub(super) const NAME: &str = "landlock+seccomp";

/// The newest that this file was written for; an older kernel enforces what it knows of it.
const NEWEST: ABI = ABI::V6;
/// Where programs and what they need lie. `/proc/self` is the command's own: its pid stays the same.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix",
    "/run/current-system",
    "/proc/self",
    "/proc/sys",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/dev/random",
    "/dev/urandom",
];
const SINKS: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];
const MOST_OPEN_FILES: u64 = 512;
const LARGEST_FILE: u64 = 256 << 20;

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub(super) fn check() -> Result<(), String> {
    TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| format!("seccomp filters are not known for {}", std::env::consts::ARCH))?;
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create)
        .map(drop)
        .map_err(|error| format!("this kernel has no Landlock, so commands cannot be confined: {error}"))
}

pub(super) fn enter(dir: &Path, named: &[&Path], network: bool) -> Result<(), String> {
    check()?;
    for (what, most) in
        [(Resource::Core, 0), (Resource::Nofile, MOST_OPEN_FILES), (Resource::Fsize, LARGEST_FILE)]
    {
        setrlimit(what, Rlimit { current: Some(most), maximum: Some(most) }).map_err(told)?;
    }
    give_up_files(dir, named, network)?;
    seccompiler::apply_filter(&forbidden_calls(network)?).map_err(told)
}

fn give_up_files(dir: &Path, named: &[&Path], network: bool) -> Result<(), String> {
    let read = AccessFs::from_read(NEWEST);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|rules| rules.scope(Scope::from_all(NEWEST)))
        .map_err(told)?;
    if !network {
        rules = rules.handle_access(AccessNet::from_all(NEWEST)).map_err(told)?;
    }
    let mut rules = rules.create().map_err(told)?;
    for path in SYSTEM.iter().map(Path::new).chain(named.iter().copied()) {
        rules = allow(rules, path, read)?;
    }
    for path in SINKS {
        rules = allow(rules, Path::new(path), AccessFs::from_file(ABI::V1))?;
    }
    allow(rules, dir, AccessFs::from_all(NEWEST))?.restrict_self().map(drop).map_err(told)
}

/// What is not there needs no rule. A rule for a file cannot speak of directories.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    let Ok(place) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    rules.add_rule(PathBeneath::new(place, access)).map_err(told)
}

/// Sockets (Landlock knows of TCP alone), rings that make them by another door, and ways out of
/// the process group by which the command is ended.
fn forbidden_calls(network: bool) -> Result<BpfProgram, String> {
    let sockets = if network { vec![unix_sockets()?] } else { Vec::new() };
    let calls: BTreeMap<i64, Vec<SeccompRule>> = [
        (libc::SYS_socket, sockets),
        (libc::SYS_io_uring_setup, Vec::new()),
        (libc::SYS_setsid, Vec::new()),
        (libc::SYS_setpgid, Vec::new()),
    ]
    .into();
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(told)?;
    SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(libc::EACCES as u32), arch)
        .and_then(BpfProgram::try_from)
        .map_err(told)
}

fn unix_sockets() -> Result<SeccompRule, String> {
    let domain = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, libc::AF_UNIX as u64)
        .map_err(told)?;
    SeccompRule::new(vec![domain]).map_err(told)
}
