//! Control groups: limits and usage of everything that a session starts, and its end at once.
//!
//! Version 2 is used where a group is delegated to this user (or the user is root), version 1 where its
//! hierarchies are mounted and writable. A group is made below the one that this process is in. Every session has
//! one where that is possible, also without limits: it accounts for the session, and ends it at once.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};

/// Where a daemon's own processes go when its group is divided: a group with limits has no processes of its own.
const DAEMONS: &str = "trl-daemon";
/// What groups of sessions begin with.
const PREFIX: &str = "trl-session-";
const PERIOD_US: u64 = 100_000;

/// What is to be bounded.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wanted {
    pub memory: Option<u64>,
    pub pids: Option<u64>,
    /// Processors' worth of time.
    pub cpu: Option<f64>,
}

/// What a session has used.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    pub cpu_s: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub memory_peak_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub throttled_s: Option<f64>,
}

/// How often limits were hit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hits {
    pub memory: u64,
    pub pids: u64,
}

/// Where this process is in which hierarchy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Layout {
    unified: Option<PathBuf>,
    /// By controller.
    v1: BTreeMap<String, PathBuf>,
}

/// The groups of one session; removed when dropped, if nothing is in them.
#[derive(Debug, Default)]
pub struct Groups {
    layout: Layout,
    name: String,
    unified: Option<PathBuf>,
    v1: BTreeMap<String, PathBuf>,
    /// Limits that are enforced: which, and by what.
    pub enforced: Vec<(&'static str, String)>,
    /// Limits that are not: which, and why.
    pub missing: Vec<(&'static str, String)>,
}

impl Layout {
    /// The same for as long as the process lives, and for its copies: that is looked up once.
    fn known() -> &'static Layout {
        static KNOWN: OnceLock<Layout> = OnceLock::new();
        KNOWN.get_or_init(Layout::here)
    }

    fn here() -> Layout {
        let own = trl_sys::process::read_text("/proc/self/cgroup").unwrap_or_default();
        let mounts = trl_sys::process::read_text("/proc/self/mountinfo").unwrap_or_default();
        Layout::parse(&own, &mounts)
    }

    fn parse(own: &str, mounts: &str) -> Layout {
        let mut layout = Layout::default();
        let own: Vec<(Vec<&str>, &str)> = own
            .lines()
            .filter_map(|line| {
                let mut fields = line.splitn(3, ':').skip(1);
                Some((fields.next()?.split(',').collect(), fields.next()?))
            })
            .collect();
        for line in mounts.lines() {
            let Some((left, right)) = line.split_once(" - ") else { continue };
            let left: Vec<&str> = left.split(' ').collect();
            let right: Vec<&str> = right.split(' ').collect();
            let (Some(root), Some(place), Some(kind), Some(options)) =
                (left.get(3), left.get(4), right.first(), right.get(2))
            else {
                continue;
            };
            let below = |path: &str| {
                let path = path.strip_prefix(*root).unwrap_or(path).trim_start_matches('/');
                if path.is_empty() { PathBuf::from(place) } else { Path::new(place).join(path) }
            };
            match *kind {
                "cgroup2" => {
                    let path = own.iter().find(|(names, _)| names == &[""]).map(|(_, path)| below(path));
                    layout.unified = layout.unified.or(path);
                }
                "cgroup" => {
                    for name in options.split(',') {
                        if let Some((_, path)) = own.iter().find(|(names, _)| names.contains(&name)) {
                            layout.v1.entry(name.to_owned()).or_insert_with(|| below(path));
                        }
                    }
                }
                _ => {}
            }
        }
        layout
    }

    /// Removes groups of sessions by the pid of their host.
    fn remove_groups_if(&self, is_gone: impl Fn(&str) -> bool) {
        for own in self.v1.values().chain(&self.unified) {
            for entry in fs::read_dir(base(own)).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
                if owner.is_some_and(&is_gone) {
                    // The kernel refuses as long as somebody is in it.
                    fs::remove_dir(entry.path()).ok();
                }
            }
        }
    }
}

/// Removes the groups of hosts that are gone and could not remove them themselves.
pub fn sweep() {
    Layout::known().remove_groups_if(|host| host.parse().is_ok_and(trl_sys::process::is_dead));
}

/// The group in which sessions' groups are made: not one of these itself.
fn base(dir: &Path) -> &Path {
    let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match dir.parent() {
        Some(parent) if name == DAEMONS || name.starts_with(PREFIX) => parent,
        _ => dir,
    }
}

fn has_words(file: &Path, word: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_ascii_whitespace().any(|found| found == word))
}

/// Has the kernel account for a controller in groups below this one.
fn delegate(base: &Path, controller: &str) -> io::Result<()> {
    let control = base.join("cgroup.subtree_control");
    if has_words(&control, controller) {
        return Ok(());
    }
    if !has_words(&base.join("cgroup.controllers"), controller) {
        return Err(io::Error::other(format!(
            "the controller {controller} is not delegated to {}",
            base.display()
        )));
    }
    let enable = || fs::write(&control, format!("+{controller}"));
    match enable() {
        // It has processes of its own: they go into a group beside the sessions'.
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            let own = base.join(DAEMONS);
            fs::create_dir(&own).or_else(|error| if own.is_dir() { Ok(()) } else { Err(error) })?;
            for pid in fs::read_to_string(base.join("cgroup.procs"))?.lines() {
                fs::write(own.join("cgroup.procs"), pid)?;
            }
            enable()
        }
        enabled => enabled,
    }
}

impl Groups {
    /// Groups for this process's session, as far as they can be had. They account for it; limits may follow.
    pub fn make() -> Groups {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        // Whether it is still needed is seen by whether this process is.
        Groups::below(Layout::known().clone(), &format!("{}-{:x}", std::process::id(), since.as_nanos()))
    }

    fn below(layout: Layout, name: &str) -> Groups {
        let mut groups = Groups::default();
        groups.layout = layout;
        groups.name = format!("{PREFIX}{name}");
        groups.unified = groups.layout.unified.clone().and_then(|own| groups.make_in(&own).ok());
        // Each group takes time to make, to join and to remove: only what the unified one cannot do.
        let has = |file: &str| groups.unified.as_ref().is_some_and(|dir| dir.join(file).exists());
        // Without this, what is to end is held still first.
        let (can_kill, knows_time) = (has("cgroup.kill"), has("cpu.stat"));
        let needed = [("memory", true), ("cpuacct", !knows_time), ("freezer", !can_kill)];
        for (controller, _) in needed.into_iter().filter(|(_, is_needed)| *is_needed) {
            groups.join_v1(controller).ok();
        }
        groups
    }

    /// Sets these limits. What cannot be had is listed as missing.
    pub fn bound(&mut self, wanted: Wanted) {
        self.bound_one("memory", wanted.memory.map(|bytes| bytes.to_string()), |group, value| {
            let file = if group.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
            fs::write(group.dir.join(file), value)?;
            // Without swap the limit means what it says. Not every kernel accounts for swap.
            let (swap, most) = match group.is_v2 {
                true => ("memory.swap.max", "0"),
                false => ("memory.memsw.limit_in_bytes", value),
            };
            fs::write(group.dir.join(swap), most).ok();
            Ok(())
        });
        self.bound_one("pids", wanted.pids.map(|most| most.to_string()), |group, value| {
            fs::write(group.dir.join("pids.max"), value)
        });
        let quota = wanted.cpu.map(|cpus| ((cpus * PERIOD_US as f64) as u64).max(1000).to_string());
        self.bound_one("cpu", quota, |group, value| {
            if group.is_v2 {
                return fs::write(group.dir.join("cpu.max"), format!("{value} {PERIOD_US}"));
            }
            fs::write(group.dir.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            fs::write(group.dir.join("cpu.cfs_quota_us"), value)
        });
    }

    fn bound_one(
        &mut self,
        controller: &'static str,
        value: Option<String>,
        set: impl FnOnce(&Member<'_>, &str) -> io::Result<()>,
    ) {
        let Some(value) = value else { return };
        let v2 = self
            .layout
            .unified
            .as_ref()
            .zip(self.unified.as_ref())
            .map(|(unified, dir)| delegate(base(unified), controller).map(|()| (dir.clone(), true)));
        let found = match v2 {
            Some(Ok(found)) => Ok(found),
            Some(Err(_)) | None => self.join_v1(controller).map(|dir| (dir, false)),
        };
        let done = found.and_then(|(dir, is_v2)| {
            set(&Member { dir: &dir, is_v2 }, &value)?;
            Ok(if is_v2 { "cgroup v2" } else { "cgroup v1" })
        });
        match done {
            Ok(version) => self.enforced.push((controller, format!("{version} {controller} controller"))),
            Err(error) => self.missing.push((controller, error.to_string())),
        }
    }

    fn join_v1(&mut self, controller: &str) -> io::Result<PathBuf> {
        if let Some(dir) = self.v1.get(controller) {
            return Ok(dir.clone());
        }
        let own = self.layout.v1.get(controller).cloned().ok_or_else(|| {
            io::Error::other(format!("no cgroup with the controller {controller} is mounted or delegated"))
        })?;
        let dir = self.make_in(&own)?;
        self.v1.insert(controller.to_owned(), dir.clone());
        Ok(dir)
    }

    /// A group beside or below the one that this process is in.
    fn make_in(&self, own: &Path) -> io::Result<PathBuf> {
        let dir = base(own).join(&self.name);
        fs::create_dir(&dir)?;
        Ok(dir)
    }

    /// Whether it has limits, and not only accounts.
    pub fn is_bounded(&self) -> bool {
        !self.enforced.is_empty()
    }

    /// `cgroup.procs` of each, to be written by who joins.
    pub fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        let dirs = self.v1.values().chain(&self.unified);
        let open = |dir: &PathBuf| {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            Ok(rustix::fs::open(dir.join("cgroup.procs"), flags, Mode::empty())?)
        };
        dirs.map(open).collect()
    }

    /// Whether nobody has removed them.
    pub fn are_there(&self) -> bool {
        self.v1.values().chain(&self.unified).all(|dir| dir.exists())
    }

    pub fn is_empty(&self) -> bool {
        self.unified.is_none() && self.v1.is_empty()
    }

    /// Ends everything in them at once. False if that is not possible here.
    pub fn kill(&self) -> bool {
        if let Some(unified) = &self.unified
            && fs::write(unified.join("cgroup.kill"), "1").is_ok()
        {
            return true;
        }
        let Some(freezer) = self.v1.get("freezer") else { return false };
        if fs::write(freezer.join("freezer.state"), "FROZEN").is_err() {
            return false;
        }
        await_frozen(freezer);
        let pids = fs::read_to_string(freezer.join("cgroup.procs")).unwrap_or_default();
        for pid in pids.lines().filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?)) {
            // Frozen, so nobody has forked or ended since.
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok();
        }
        fs::write(freezer.join("freezer.state"), "THAWED").is_ok()
    }

    pub fn hits(&self) -> Hits {
        let v2 = |file: &str, field: &str| counter(self.unified.as_ref()?.join(file), field);
        let v1 =
            |controller: &str, file: &str, field: &str| counter(self.v1.get(controller)?.join(file), field);
        Hits {
            memory: v2("memory.events", "oom_kill")
                .or_else(|| v1("memory", "memory.oom_control", "oom_kill"))
                .unwrap_or(0),
            pids: v2("pids.events", "max").or_else(|| v1("pids", "pids.events", "max")).unwrap_or(0),
        }
    }

    pub fn usage(&self) -> Usage {
        let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
        let v2 = |file: &str| number(self.unified.as_ref()?.join(file));
        let v1 = |controller: &str, file: &str| number(self.v1.get(controller)?.join(file));
        let cpu_stat = |field: &str| counter(self.unified.as_ref()?.join("cpu.stat"), field);
        let throttled = self.v1.get("cpu").and_then(|dir| counter(dir.join("cpu.stat"), "throttled_time"));
        Usage {
            cpu_s: v1("cpuacct", "cpuacct.usage")
                .map(|nanoseconds| nanoseconds as f64 / 1e9)
                .or_else(|| cpu_stat("usage_usec").map(|microseconds| microseconds as f64 / 1e6)),
            memory_bytes: v2("memory.current").or_else(|| v1("memory", "memory.usage_in_bytes")),
            memory_peak_bytes: v2("memory.peak").or_else(|| v1("memory", "memory.max_usage_in_bytes")),
            processes: v2("pids.current").or_else(|| v1("pids", "pids.current")).or_else(|| self.count()),
            throttled_s: cpu_stat("throttled_usec")
                .map(|microseconds| microseconds as f64 / 1e6)
                .or(throttled.map(|nanoseconds| nanoseconds as f64 / 1e9)),
        }
    }

    fn count(&self) -> Option<u64> {
        let dir = self.unified.as_ref().or_else(|| self.v1.values().next())?;
        let pids = fs::read_to_string(dir.join("cgroup.procs")).ok()?;
        Some(pids.lines().count() as u64)
    }
}

/// A process that was started in a session and is not to end with it leaves the session's groups.
pub fn leave() {
    let layout = Layout::here();
    for own in layout.v1.values().chain(&layout.unified) {
        let base = base(own);
        // A group of version 2 that is divided takes no processes itself; they go where daemons are.
        if base != own && fs::write(base.join("cgroup.procs"), "0").is_err() {
            let daemons = base.join(DAEMONS);
            fs::create_dir(&daemons).ok();
            fs::write(daemons.join("cgroup.procs"), "0").ok();
        }
    }
}

/// Until nobody in the group runs any more: before, one could still have a child that is not listed.
#[expect(
    clippy::disallowed_methods,
    reason = "the kernel tells nobody that a group of the first version is frozen"
)]
fn await_frozen(freezer: &Path) {
    const LOOKS: u32 = 200;
    for _ in 0..LOOKS {
        if has_words(&freezer.join("freezer.state"), "FROZEN") {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

struct Member<'a> {
    dir: &'a Path,
    is_v2: bool,
}

/// A line `field number` of a file.
fn counter(path: PathBuf, field: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(' '));
    found.and_then(|number| number.trim().parse().ok())
}

impl Drop for Groups {
    fn drop(&mut self) {
        for dir in self.v1.values().chain(&self.unified) {
            // Refused by the kernel as long as somebody is in it.
            fs::remove_dir(dir).ok();
        }
    }
}

#[cfg(test)]
mod tests;
