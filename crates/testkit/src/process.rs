//! What `/proc` says about processes: who lives, whose child it is, what it uses.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
pub use rustix::process::Signal;
use rustix::process::{Pid, PidfdFlags, kill_process, pidfd_open};

/// The part of `/proc/PID/stat` that tests look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    /// `R`, `S`, `T`, `Z`, …
    pub state: char,
    pub name: String,
}

/// `None` if there is no such process, not even a zombie.
pub fn read(pid: i32) -> Option<Process> {
    parse_stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse_stat(pid: i32, stat: &str) -> Option<Process> {
    // The name may itself contain spaces and brackets: it ends at the last one.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let mut fields = after.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    Some(Process { pid, parent, state, name })
}

/// Every process there is.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc is readable");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(read).collect()
}

/// A zombie is dead: it only waits for its parent to look.
pub fn alive(pid: i32) -> bool {
    read(pid).is_some_and(|process| !matches!(process.state, 'Z' | 'X'))
}

pub fn children(pid: i32) -> Vec<i32> {
    all().into_iter().filter(|process| process.parent == pid).map(|process| process.pid).collect()
}

/// Children, their children, and so on; zombies too.
pub fn descendants(pid: i32) -> Vec<i32> {
    let everyone = all();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(everyone.iter().filter(|process| process.parent == parent).map(|process| process.pid));
        next += 1;
    }
    found.remove(0);
    found
}

/// Living processes that were started with `NAME=value` in their environment.
pub fn with_environment(variable: &str) -> Vec<i32> {
    all()
        .into_iter()
        .map(|process| process.pid)
        .filter(|&pid| alive(pid) && environment(pid).iter().any(|entry| entry == variable.as_bytes()))
        .collect()
}

pub fn environment(pid: i32) -> Vec<Vec<u8>> {
    nul_separated(&format!("/proc/{pid}/environ"))
}

pub fn arguments(pid: i32) -> Vec<String> {
    nul_separated(&format!("/proc/{pid}/cmdline"))
        .into_iter()
        .map(|argument| String::from_utf8_lossy(&argument).into_owned())
        .collect()
}

fn nul_separated(path: &str) -> Vec<Vec<u8>> {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.split(|&byte| byte == 0).filter(|entry| !entry.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Resident bytes now, and the most there ever were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    pub resident: u64,
    pub peak: u64,
}

#[track_caller]
pub fn memory(pid: i32) -> Memory {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process lives");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the field is there");
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
        kilobytes * 1024
    };
    Memory { resident: field("VmRSS:"), peak: field("VmHWM:") }
}

#[track_caller]
pub fn open_descriptors(pid: i32) -> usize {
    try_open_descriptors(pid).expect("a process that lives and may be looked into")
}

pub(crate) fn try_open_descriptors(pid: i32) -> std::io::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// Whether only root may look into the process: its environment, memory and descriptors.
pub(crate) fn is_closed(pid: i32) -> bool {
    let denied = |error: std::io::Error| error.kind() == std::io::ErrorKind::PermissionDenied;
    fs::File::open(format!("/proc/{pid}/environ")).err().is_some_and(denied)
}

/// Waits for the end of a process, which need not be a child.
/// Returns whether it ended in time.
pub fn ended_within(pid: i32, time: Duration) -> bool {
    let Some(id) = Pid::from_raw(pid) else { return true };
    let Ok(handle) = pidfd_open(id, PidfdFlags::empty()) else { return !alive(pid) };
    let timeout = Timespec::try_from(time).expect("a time that fits");
    let mut descriptors = [PollFd::new(&handle, PollFlags::IN)];
    while let Err(rustix::io::Errno::INTR) = poll(&mut descriptors, Some(&timeout)) {}
    !alive(pid)
}

#[track_caller]
pub fn assert_ends(what: &str, pid: i32) {
    assert!(ended_within(pid, crate::GUARD), "{what} (pid {pid}, {:?}) should end", arguments(pid));
}

/// Signals one process that the test itself caused to exist.
pub fn signal(pid: i32, signal: Signal) {
    let id = Pid::from_raw(pid).expect("a real pid");
    // Gone already is what most callers want.
    let _gone = kill_process(id, signal);
}

pub fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().symlink_metadata().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_brackets_and_spaces_is_read_whole() {
        let process = parse_stat(7, "7 (a) (b c) S 3 7 7 0").unwrap();
        assert_eq!(process, Process { pid: 7, parent: 3, state: 'S', name: "a) (b c".into() });
    }

    #[test]
    fn a_child_is_seen_with_its_environment_until_it_ends() {
        let mut child = Command::new("cat")
            .env("TESTKIT_SELF_TEST", "yes")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        let me = std::process::id() as i32;
        // Right after fork a child may still show its parent's environment.
        crate::wait_until("exec", crate::GUARD, || with_environment("TESTKIT_SELF_TEST=yes") == [pid]);
        assert!(alive(pid) && children(me).contains(&pid) && descendants(me).contains(&pid));
        assert!(memory(pid).resident > 0 && open_descriptors(pid) >= 3);
        assert!(!ended_within(pid, Duration::from_millis(1)));
        drop(child.stdin.take());
        assert!(ended_within(pid, crate::GUARD));
        assert!(!alive(pid), "a zombie counts as dead");
        assert!(child.wait().unwrap().success());
        assert_eq!(read(pid), None);
    }
}
