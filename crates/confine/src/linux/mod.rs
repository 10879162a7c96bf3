//! Carrying a plan out on Linux. Everything here makes system calls; nothing decides what is allowed.
//!
//! The order matters. Namespaces come first, because only in them may an ordinary user mount. Mounts come
//! before Landlock, which forbids mounting. Capabilities go before seccomp, whose filter refuses nothing that
//! giving them up needs; the filter is last, because everything before it needs calls that it forbids.

pub mod cgroups;
pub mod files;
pub mod init;
pub mod jail;
mod mounts;
mod namespaces;
mod privileges;
pub mod probe;
mod seccomp;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, WaitOptions, setrlimit};
use serde::{Deserialize, Serialize};

use crate::plan::{self, Guest, Kind, Plan};
use cgroups::{Groups, Wanted};
use namespaces::{Fresh, Side};

/// Which part of a confinement a step belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    Namespaces,
    Mounts,
    /// What the session is to be given.
    Given,
    Network,
    Privileges,
    Landlock,
    Seccomp,
    Limits,
}

/// A step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Step {
    pub part: Part,
    pub what: String,
    pub why: String,
}

impl Step {
    fn new(part: Part, what: &str, why: impl ToString) -> Step {
        Step { part, what: what.to_owned(), why: why.to_string() }
    }

    fn of(part: Part, what: &str) -> impl FnOnce(Errno) -> Step + use<> {
        let what = what.to_owned();
        move |error| Step { part, what, why: error.to_string() }
    }

    /// What would make it work.
    pub fn remedy(&self) -> &'static str {
        match self.part {
            Part::Namespaces => {
                "allow user namespaces: `sysctl -w user.max_user_namespaces=15000`; on Ubuntu also `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`; on older Debian `sysctl -w kernel.unprivileged_userns_clone=1`; in a container, start it with a seccomp profile that allows them"
            }
            Part::Mounts => {
                "in a container, start it with `--security-opt systempaths=unconfined` (an unmasked /proc) and a seccomp profile that allows mounts; otherwise a kernel from 5.12 on"
            }
            Part::Given => {
                "a directory that the daemon's user can enter without privileges, and that nobody replaces meanwhile"
            }
            Part::Network => "a kernel with network namespaces (CONFIG_NET_NS)",
            Part::Privileges => "a kernel with CONFIG_SECURITY capabilities",
            Part::Landlock => "a kernel from 5.13 on with Landlock: boot with `lsm=landlock,…`",
            Part::Seccomp => "a kernel with CONFIG_SECCOMP_FILTER",
            Part::Limits => Step::limits_remedy(),
        }
    }

    pub fn limits_remedy() -> &'static str {
        "a delegated cgroup: `systemd-run --user --scope -p Delegate=yes trl serve`, or root"
    }
}

/// The result of a system call that returns -1 on failure.
fn checked(result: libc::c_long) -> rustix::io::Result<libc::c_long> {
    if result >= 0 {
        return Ok(result);
    }
    Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO))
}

/// Bounds of each process, as `setrlimit` takes them; of everything in a cage, for processes of an ordinary user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    pub limits: Vec<(ProcessLimit, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessLimit {
    CoreSize,
    CpuSeconds,
    Data,
    FileSize,
    OpenFiles,
    Processes,
}

impl ProcessLimits {
    fn enter(&self) -> Result<(), Step> {
        self.set().map_err(Step::of(Part::Limits, "set a resource limit"))
    }

    fn set(&self) -> Result<(), Errno> {
        for (limit, most) in &self.limits {
            let resource = match limit {
                ProcessLimit::CoreSize => Resource::Core,
                ProcessLimit::CpuSeconds => Resource::Cpu,
                ProcessLimit::Data => Resource::Data,
                ProcessLimit::FileSize => Resource::Fsize,
                ProcessLimit::OpenFiles => Resource::Nofile,
                ProcessLimit::Processes => Resource::Nproc,
            };
            // Never more than there was.
            let hard = rustix::process::getrlimit(resource).maximum;
            let most = hard.map_or(*most, |hard| hard.min(*most));
            // The first signal of the two that end a process tells why it ended.
            let last = if *limit == ProcessLimit::CpuSeconds { most + 1 } else { most };
            let last = hard.map_or(last, |hard| hard.min(last));
            setrlimit(resource, Rlimit { current: Some(most), maximum: Some(last) })?;
        }
        Ok(())
    }
}

/// What is done besides the plan.
#[derive(Debug, Default)]
pub struct Extras {
    pub limits: ProcessLimits,
    /// `cgroup.procs` of groups to join, opened for writing.
    pub groups: Vec<OwnedFd>,
    /// What pid 1 can do itself, in a child.
    pub work: Option<Work>,
}

/// Does what a text asks for, and answers over the descriptor.
pub type Work = fn(&[u8], OwnedFd);

impl Extras {
    /// For a process that is confined by nothing else. Only system calls, for use between fork and exec.
    pub fn enter(&self) -> Result<(), Errno> {
        for group in &self.groups {
            rustix::io::write(group, b"0")?;
        }
        self.limits.set()
    }

    fn join_groups(&self) -> Result<(), Step> {
        for group in &self.groups {
            rustix::io::write(group, b"0").map_err(Step::of(Part::Limits, "join a cgroup"))?;
        }
        Ok(())
    }
}

/// What is at a path of this machine.
pub fn look(path: &Path) -> Option<Kind> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    if meta.is_symlink() {
        return std::fs::read_link(path).ok().map(Kind::Link);
    }
    Some(if meta.is_dir() { Kind::Dir } else { Kind::File })
}

/// In pid 1 of new namespaces: everything that the plan says. Returns where the proxy is to listen.
fn enter_namespaces(plan: &Plan, extras: &Extras, user: u32, group: u32) -> Result<Option<OwnedFd>, Step> {
    namespaces::map_own_ids(user, group)?;
    extras.join_groups()?;
    namespaces::own_cgroup_view()?;
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    mounts::enter(plan)?;
    rustix::process::umask(mask);
    if plan.own_network {
        namespaces::raise_loopback()?;
    }
    let listener = if plan.proxy { Some(namespaces::listen_on_loopback(plan::PROXY_PORT)?) } else { None };
    extras.limits.enter()?;
    give_up(plan, true)?;
    Ok(listener)
}

/// Where there are no namespaces: what Landlock and seccomp can do alone.
fn enter_here(plan: &Plan, extras: &Extras) -> Result<(), Step> {
    if let Some(own) = &plan.own_in_reach {
        let why = format!("without namespaces, {} in the workspace would be visible", own.display());
        return Err(Step::new(Part::Given, "hide the daemon's own files", why));
    }
    extras.join_groups()?;
    extras.limits.enter()?;
    give_up(plan, false)
}

fn give_up(plan: &Plan, namespaces: bool) -> Result<(), Step> {
    privileges::gain_none()?;
    privileges::drop_all()?;
    files::enter(plan, namespaces)?;
    seccomp::enter(seccomp::Filter { guest: plan.kind, network: !plan.own_network, namespaces })?;
    namespaces::set_dumpable(false).map_err(Step::of(Part::Privileges, "become unreadable to others"))
}

/// Ends with the process that started it.
fn die_with_parent() -> Result<(), Step> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .map_err(Step::of(Part::Privileges, "end with the parent"))
}

/// Whether Landlock and seccomp are there, which every confinement needs.
pub fn check() -> Result<(), Step> {
    seccomp::is_known_here().map_err(|why| Step::new(Part::Seccomp, "filter system calls", why))?;
    files::check().map_err(|why| Step::new(Part::Landlock, "restrict files", why))
}

/// Becomes what runs an errand's command. Returns only if that failed.
pub fn run_errand(errand: &crate::Confinement) -> Result<std::convert::Infallible, crate::ConfineError> {
    use crate::ConfineError;
    let unavailable = |step: Step| ConfineError::Unavailable(step.to_string());
    check().map_err(unavailable)?;
    let plan = plan::errand(&errand.dir, &errand.named(), errand.network, &look);
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let groups = errand_groups(user);
    if probe::namespaces().is_err() {
        enter_here(&plan, &errand_limits(false, &groups)).map_err(unavailable)?;
        return Err(ConfineError::Start(become_command(&errand.command)));
    }
    match namespaces::split(Fresh { network: plan.own_network }).map_err(unavailable)? {
        Side::Inside => {
            die_with_parent().map_err(unavailable)?;
            enter_namespaces(&plan, &errand_limits(true, &groups), user, group).map_err(unavailable)?;
            rustix::process::chdir(plan::ERRAND_PATH).map_err(|error| ConfineError::Start(error.into()))?;
            run_as_init(&errand.command)
        }
        Side::Outside { pid, .. } => {
            let status = wait_for(pid)?;
            // Not left behind by the exit, which drops nothing.
            drop(groups);
            exit_with(status)
        }
    }
}

const ERRAND_PROCESSES: u64 = 64;

/// The kernel exempts root from `RLIMIT_NPROC`, so root's errands are bounded by a control group.
fn errand_groups(user: u32) -> Groups {
    if user != 0 {
        return Groups::default();
    }
    let wanted = Wanted { pids: Some(ERRAND_PROCESSES), ..Wanted::default() };
    let mut groups = Groups::make();
    groups.bound(wanted);
    groups
}

fn errand_limits(namespaces: bool, groups: &Groups) -> Extras {
    let mut limits = vec![
        (ProcessLimit::CoreSize, 0),
        (ProcessLimit::OpenFiles, 512),
        (ProcessLimit::FileSize, 256 << 20),
        (ProcessLimit::Data, 1 << 30),
    ];
    // Without namespaces this would count everything that the user runs.
    if namespaces {
        limits.push((ProcessLimit::Processes, ERRAND_PROCESSES));
    }
    // A group that cannot be joined is as good as none: the other limits hold.
    Extras { limits: ProcessLimits { limits }, groups: groups.entrances().unwrap_or_default(), work: None }
}

fn become_command(words: &[String]) -> io::Error {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.get(1..).unwrap_or_default()).exec()
}

/// Pid 1: starts the command, collects the dead, and ends with it. The kernel ends the others then.
fn run_as_init(words: &[String]) -> Result<std::convert::Infallible, crate::ConfineError> {
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.get(1..).unwrap_or_default());
    command.env("HOME", plan::ERRAND_PATH).env("TMPDIR", plan::ERRAND_PATH).env("PWD", plan::ERRAND_PATH);
    let child = command.spawn().map_err(crate::ConfineError::Start)?;
    let pid = rustix::process::Pid::from_child(&child);
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == pid => exit_with(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(crate::ConfineError::Start(error.into())),
        }
    }
}

/// Outside: waits for pid 1.
fn wait_for(pid: i32) -> Result<rustix::process::WaitStatus, crate::ConfineError> {
    loop {
        match rustix::process::waitpid(rustix::process::Pid::from_raw(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => return Ok(status),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(crate::ConfineError::Start(error.into())),
        }
    }
}

fn exit_with(status: rustix::process::WaitStatus) -> ! {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    std::process::exit(code)
}

impl Guest {
    /// What the layers are called together.
    pub fn layers(namespaces: bool) -> &'static str {
        if namespaces { "namespaces+landlock+seccomp" } else { "landlock+seccomp" }
    }
}
