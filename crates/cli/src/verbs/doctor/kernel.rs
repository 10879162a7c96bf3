//! What the system offers: terminals, process tables, limits, and means of isolation.

use rustix::process::{Resource, getrlimit};
use rustix::pty::OpenptFlags;

use super::Check;
use crate::human;

const FEW_DESCRIPTORS: u64 = 1024;
const TOO_FEW_DESCRIPTORS: u64 = 128;
/// Pages of pipe buffers per user below which new pipes shrink to one page.
const FEW_PIPE_PAGES: u64 = 4096;

pub(super) fn check() -> Vec<Check> {
    let mut checks = vec![terminal(), descriptors()];
    if cfg!(target_os = "linux") {
        checks.extend([processes(), pipes(), cgroups(), landlock(), namespaces()]);
    }
    checks
}

fn terminal() -> Check {
    let opened = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)
        .and_then(|pty| rustix::pty::grantpt(&pty).map(|()| pty))
        .and_then(|pty| rustix::pty::unlockpt(&pty).map(|()| pty))
        .and_then(|pty| rustix::pty::ptsname(&pty, Vec::new()));
    match opened {
        Ok(_) => Check::ok("terminals", "can be opened"),
        Err(error) => Check::fail(
            "terminals",
            format!("cannot be opened: {error}"),
            "Every session has one; none can start.",
            "Mount devpts at /dev/pts; in a container, with /dev/ptmx.",
        ),
    }
}

fn descriptors() -> Check {
    const NAME: &str = "open files";
    // The daemon takes what it may have.
    let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let found = if limit == u64::MAX { "no limit".to_owned() } else { format!("up to {limit}") };
    let means = "A daemon needs a few for each session and connection.";
    match limit {
        0..TOO_FEW_DESCRIPTORS => Check::fail(NAME, found, means, "Raise it: `ulimit -n 4096`."),
        TOO_FEW_DESCRIPTORS..FEW_DESCRIPTORS => {
            Check::warn(NAME, found, means, "Raise it: `ulimit -n 4096`.")
        }
        _ => Check::ok(NAME, found),
    }
}

fn processes() -> Check {
    let usable = std::fs::read_to_string("/proc/self/stat").is_ok()
        && std::fs::read_dir("/proc/self/task").is_ok_and(|mut tasks| tasks.next().is_some());
    if usable {
        return Check::ok("/proc", "usable");
    }
    Check::fail(
        "/proc",
        "cannot be read",
        "What a session started cannot be found, so it cannot be ended for sure.",
        "Mount proc at /proc.",
    )
}

fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn pipes() -> Check {
    const NAME: &str = "pipe buffers";
    let page = rustix::param::page_size() as u64;
    match number("/proc/sys/fs/pipe-user-pages-soft") {
        None => Check::ok(NAME, "limit unknown"),
        Some(0) => Check::ok(NAME, "no limit"),
        Some(pages) if pages < FEW_PIPE_PAGES => Check::warn(
            NAME,
            format!("{} for all pipes of a user", human::bytes(pages * page)),
            "With many sessions, new pipes shrink to one page and output flows slowly.",
            "As root: `sysctl fs.pipe-user-pages-soft=16384`.",
        ),
        Some(pages) => Check::ok(NAME, format!("{} for all pipes of a user", human::bytes(pages * page))),
    }
}

/// Found out by trying, as a session would.
fn cgroups() -> Check {
    const NAME: &str = "cgroups";
    let (enforced, missing) = trl_confine::limits();
    let found: Vec<String> = enforced.iter().map(|limit| format!("{} ({})", limit.what, limit.by)).collect();
    match missing.first() {
        None => Check::ok(NAME, format!("limits of whole sessions: {}", found.join(", "))),
        Some(first) => Check::warn(
            NAME,
            format!("{}: {}", first.what, first.why),
            "Optional: such limits hold for each process alone, or are refused; usage is told less exactly.",
            format!("Use {}.", first.remedy),
        ),
    }
}

/// Found out by trying, as a session would.
fn landlock() -> Check {
    const NAME: &str = "landlock";
    let means = "Optional: sessions cannot be isolated, and there are no automatic answers to mail.";
    let remedy =
        "Boot a kernel of 5.13 or later with `landlock` in its list of security modules, and with seccomp.";
    match trl_confine::check() {
        Ok(()) => Check::ok(NAME, "active, with seccomp"),
        Err(why) => Check::warn(NAME, why, means, remedy),
    }
}

/// Found out by trying, as a session would.
fn namespaces() -> Check {
    const NAME: &str = "user namespaces";
    let means = "Optional: isolated sessions are refused, unless they accept less (`best_effort`).";
    let (_, missing) = trl_confine::support();
    match missing.into_iter().next() {
        None => Check::ok(NAME, "available: sessions can be isolated (`workspace`, `strict`)"),
        Some(missing) => Check::warn(NAME, missing.why, means, missing.remedy),
    }
}
