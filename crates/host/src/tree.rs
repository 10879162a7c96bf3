//! Process trees: who descends from whom, and signals that reach exactly them.
//!
//! The host is a subreaper, so whatever its shell ever started stays below it. Daemons that were
//! started on demand from inside the session are not part of its tree, and neither are the sessions
//! that they have made. A process is signalled through a pidfd that was checked after it was opened: a pid
//! that was reaped and reused in between is never hit.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::{Pid, Signal};
use trl_protocol::wire::DAEMON_PID;
use trl_sys::pidfd::ProcessHandle;
use trl_sys::process;

/// A storm that is not stopped after so many looks loses what was stopped of it, and is looked at again.
const MOST_PASSES: u32 = 50;

pub use trl_sys::process::{ProcessStat as Process, stat as look};

/// Whether nothing is below `root`, not even one that is dead and not waited for.
pub fn is_childless(root: i32) -> bool {
    Outsiders::look().children(root).is_empty()
}

/// Everything below `root`, parents before children.
pub fn descendants(root: i32) -> Vec<Process> {
    let outsiders = Outsiders::look();
    let (mut found, mut queue) = (Vec::new(), vec![root]);
    let mut seen = BTreeSet::from([root]);
    while let Some(parent) = queue.pop() {
        for child in outsiders.children(parent) {
            if seen.insert(child) {
                queue.push(child);
                found.extend(look(child));
            }
        }
    }
    found
}

/// Tells other daemons and their hosts from the session's own processes.
struct Outsiders {
    /// This program, which other daemons run too.
    program: Option<PathBuf>,
    /// Of the daemon that this host was started by.
    daemon: Option<i32>,
}

impl Outsiders {
    fn look() -> Outsiders {
        let daemon = std::env::var(DAEMON_PID).ok().and_then(|pid| pid.parse().ok());
        Outsiders { program: process::program("self"), daemon }
    }

    fn children(&self, pid: i32) -> Vec<i32> {
        process::children(pid).into_iter().filter(|child| !self.contains(*child)).collect()
    }

    /// A host's keeper comes below this host when the launcher that forked it has ended. It stays its daemon's
    /// for as long as that lives.
    fn contains(&self, pid: i32) -> bool {
        self.runs_program(pid)
            && (is_daemon(pid)
                || self.daemon_of(pid).is_some_and(|it| self.runs_program(it) && is_daemon(it)))
    }

    /// The daemon that this host or keeper was started by, unless that is the one that started this host, which
    /// has copies of itself below it.
    fn daemon_of(&self, pid: i32) -> Option<i32> {
        let environment = process::environment(pid)?;
        let mut values = environment
            .split(|&byte| byte == 0)
            .filter_map(|variable| variable.strip_prefix(DAEMON_PID.as_bytes())?.strip_prefix(b"="));
        let daemon = str::from_utf8(values.next()?).ok()?.parse().ok()?;
        (self.daemon != Some(daemon)).then_some(daemon)
    }

    fn runs_program(&self, pid: i32) -> bool {
        match process::program(pid) {
            Some(program) => self.program.as_ref() == Some(&program),
            // Daemons do not let others of their user look into them: only the name is known.
            None => process::name(pid).is_some_and(|name| Some(name) == process::name("self")),
        }
    }
}

fn is_daemon(pid: i32) -> bool {
    [&b"serve"[..], b"--detached"].iter().all(|word| process::has_argument(pid, word))
}

/// Members of a process group below `root`, with everything below them.
pub fn job(root: i32, group: i32) -> Vec<Process> {
    let all = descendants(root);
    let mut members: BTreeSet<i32> = all.iter().filter(|p| p.group == group).map(|p| p.pid).collect();
    // Parents come before children, so one pass finds every level.
    for process in &all {
        if members.contains(&process.parent) {
            members.insert(process.pid);
        }
    }
    all.into_iter().filter(|process| members.contains(&process.pid)).collect()
}

/// Signals that very process, or nobody.
pub fn signal(process: &Process, signal: Signal) {
    signal_each(process, &[signal]);
}

/// The same; if the process was stopped, it continues and sees the signal.
pub fn signal_and_continue(process: &Process, signal: Signal) {
    signal_each(process, &[signal, Signal::CONT]);
}

fn signal_each(process: &Process, signals: &[Signal]) {
    let Some(handle) = ProcessHandle::open(process.pid) else { return };
    if look(process.pid).is_some_and(|now| now.started == process.started) {
        for signal in signals {
            handle.signal(*signal);
        }
    }
}

/// Whether that very process is still there, and not only as a zombie.
pub fn is_alive(process: &Process) -> bool {
    look(process.pid).is_some_and(|now| now.started == process.started && !now.zombie)
}

/// A descriptor that becomes readable when that very process ends; None if it has.
pub fn watch(process: &Process) -> Option<OwnedFd> {
    let handle = ProcessHandle::open(process.pid)?;
    is_alive(process).then(|| handle.into())
}

/// Ends everything below `root` at once. A storm that forks faster than it can be
/// listed is stopped first, until nobody is left who could fork. Children of one that
/// dies by itself meanwhile may be missed: to be called again when one has ended.
pub fn kill_all(root: i32) {
    let own_groups: BTreeSet<i32> =
        [root, std::process::id() as i32].into_iter().filter_map(look).map(|process| process.group).collect();
    let (mut groups, mut stopped) = (BTreeSet::new(), BTreeMap::new());
    for _ in 0..MOST_PASSES {
        let mut is_new = false;
        for process in descendants(root).into_iter().filter(|process| !process.zombie) {
            if !own_groups.contains(&process.group) {
                let first = groups.insert(process.group);
                if first {
                    signal_group(process.group, Signal::STOP);
                }
                is_new |= first;
            } else if stopped.insert(process.identity(), process).is_none() {
                signal(&process, Signal::STOP);
                is_new = true;
            }
        }
        if !is_new {
            break;
        }
    }
    for group in groups {
        signal_group(group, Signal::KILL);
    }
    for process in stopped.values() {
        signal(process, Signal::KILL);
    }
}

/// A group as a whole: no member escapes by forking meanwhile, which the kernel makes sure of. Its
/// number belongs to nobody else for as long as it has a member.
fn signal_group(group: i32, signal: Signal) {
    if let Some(group) = Pid::from_raw(group) {
        // Gone in the meantime is what was wanted.
        rustix::process::kill_process_group(group, signal).ok();
    }
}

/// A signal from its name, with or without `SIG`, or its number.
pub fn signal_name(number: i32) -> String {
    const NAMES: &[&str] = &[
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ",
        "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(number - 1).ok().and_then(|index| NAMES.get(index));
    name.map_or_else(|| format!("SIG{number}"), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_sees_its_own_child() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let found = descendants(std::process::id() as i32);
        assert!(found.iter().any(|p| p.pid == child.id() as i32));
        signal(&look(child.id() as i32).unwrap(), Signal::KILL);
        child.wait().unwrap();
    }
}
