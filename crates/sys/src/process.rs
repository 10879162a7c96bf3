//! Facts about processes, read from `/proc`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The fields of `/proc/<pid>/stat` that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    pub pid: i32,
    pub parent: i32,
    pub group: i32,
    /// Its terminal session; 0 if the leader is outside this pid namespace.
    pub session: i32,
    /// In clock ticks since the machine started.
    pub started: u64,
    /// It has ended, and its parent has not read its status yet.
    pub zombie: bool,
}

impl ProcessStat {
    /// Its pid and start time: a reused pid has another one.
    pub fn identity(&self) -> (i32, u64) {
        (self.pid, self.started)
    }
}

/// A file whose length the kernel does not tell before it is read, as those in `/proc`.
pub fn read(path: impl AsRef<std::path::Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    // Of a file alone its length would be asked for, and the room made for that.
    File::open(path)?.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The same, as text.
pub fn read_text(path: impl AsRef<std::path::Path>) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// `None` if there is no such process.
pub fn stat(pid: i32) -> Option<ProcessStat> {
    parse_stat(&read_text(format!("/proc/{pid}/stat")).ok()?)
}

/// The facts about this process itself.
pub fn own_stat() -> Option<ProcessStat> {
    parse_stat(&read_text("/proc/self/stat").ok()?)
}

/// The name in parentheses may contain any character, including `)`; the last one ends it.
pub fn parse_stat(stat: &str) -> Option<ProcessStat> {
    let pid = stat.split(' ').next()?.parse().ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let zombie = matches!(fields.next()?, "Z" | "X");
    let mut next_id = || fields.next()?.parse().ok();
    let (parent, group, session) = (next_id()?, next_id()?, next_id()?);
    Some(ProcessStat { pid, parent, group, session, zombie, started: fields.nth(15)?.parse().ok()? })
}

/// How a process ended whose parent has not asked yet, as `wait` would tell it. `None` of one that lives, and where
/// the kernel does not let this process know.
pub fn unread_exit_status(process: &ProcessStat) -> Option<i32> {
    let text = read_text(format!("/proc/{}/stat", process.pid)).ok()?;
    let now = parse_stat(&text)?;
    let ids = |name: &str| status_field(process.pid, name);
    let own = [("Uid", rustix::process::geteuid().as_raw()), ("Gid", rustix::process::getegid().as_raw())];
    // Of a process that is not all its user's, the kernel says 0.
    let is_ours = own.iter().all(|(name, own)| {
        ids(name).is_some_and(|ids| ids.split_whitespace().all(|id| id == own.to_string()))
    });
    let status = text.trim_end().rsplit(' ').next()?.parse().ok()?;
    (now.zombie && now.started == process.started && is_ours).then_some(status)
}

/// The start time of a running process (not of a zombie); 0 on systems without `/proc`.
#[cfg(target_os = "linux")]
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = stat(i32::try_from(pid).ok()?)?;
    (!stat.zombie).then_some(stat.started)
}

#[cfg(not(target_os = "linux"))]
pub fn start_time(pid: u32) -> Option<u64> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
    rustix::process::test_kill_process(pid).ok().map(|()| 0)
}

/// There is no such process, or only its unread status.
pub fn is_dead(pid: u32) -> bool {
    let Some(known) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return true };
    rustix::process::test_kill_process(known) == Err(rustix::io::Errno::SRCH)
        || stat(known.as_raw_nonzero().get()).is_some_and(|stat| stat.zombie)
}

/// Its arguments, each followed by a NUL byte. Empty for a zombie.
pub fn command_line(pid: impl std::fmt::Display) -> Option<Vec<u8>> {
    read(format!("/proc/{pid}/cmdline")).ok()
}

/// Whether one of its arguments is this word.
pub fn has_argument(pid: impl std::fmt::Display, word: &[u8]) -> bool {
    command_line(pid).unwrap_or_default().split(|&byte| byte == 0).any(|argument| argument == word)
}

/// Its environment when it was started, each variable followed by a NUL byte.
pub fn environment(pid: impl std::fmt::Display) -> Option<Vec<u8>> {
    read(format!("/proc/{pid}/environ")).ok()
}

/// The program that it runs, also if the file has been replaced since.
pub fn program(pid: impl std::fmt::Display) -> Option<PathBuf> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let bytes = path.as_os_str().as_bytes();
    let bytes = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
    Some(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// The name of its program, cut to 15 bytes.
pub fn name(pid: impl std::fmt::Display) -> Option<String> {
    read_text(format!("/proc/{pid}/comm")).ok()
}

pub fn working_dir(pid: impl std::fmt::Display) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/cwd")).ok()
}

/// One line of `/proc/<pid>/status`, such as `PPid` or `Umask`.
pub fn status_field(pid: impl std::fmt::Display, name: &str) -> Option<String> {
    let status = read_text(format!("/proc/{pid}/status")).ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

/// Whether this signal would end it now: it neither catches nor ignores nor blocks it.
pub fn dies_of(pid: impl std::fmt::Display, signal: i32) -> bool {
    let Ok(status) = read_text(format!("/proc/{pid}/status")) else { return false };
    ["SigBlk:", "SigIgn:", "SigCgt:"].iter().all(|set| has_signal(&status, set, signal) == Some(false))
}

/// Whether it has a function of its own for this signal.
pub fn catches(pid: impl std::fmt::Display, signal: i32) -> bool {
    let status = read_text(format!("/proc/{pid}/status"));
    status.is_ok_and(|status| has_signal(&status, "SigCgt:", signal) == Some(true))
}

fn has_signal(status: &str, set: &str, signal: i32) -> Option<bool> {
    let set = status.lines().find_map(|line| line.strip_prefix(set))?;
    let set = u64::from_str_radix(set.trim(), 16).ok()?;
    Some(set & (1 << (signal - 1)) != 0)
}

/// A soft limit from `/proc/<pid>/limits`, such as `Max file size`; `None` if there is none.
pub fn soft_limit(pid: impl std::fmt::Display, name: &str) -> Option<u64> {
    let limits = read_text(format!("/proc/{pid}/limits")).ok()?;
    let values = limits.lines().find_map(|line| line.strip_prefix(name))?;
    values.split_whitespace().next()?.parse().ok()
}

/// The children of all its threads, in no particular order.
pub fn children(pid: i32) -> Vec<i32> {
    let tasks = format!("/proc/{pid}/task");
    let mut found = Vec::new();
    let mut add = |list: &str| {
        found.extend(list.split_ascii_whitespace().filter_map(|pid| pid.parse::<i32>().ok()));
    };
    // Itself, its parent directory, and one thread.
    let is_alone = fs::metadata(&tasks).is_ok_and(|dir| dir.nlink() == 3);
    if is_alone && let Ok(list) = read_text(format!("{tasks}/{pid}/children")) {
        add(&list);
        return found;
    }
    for task in fs::read_dir(tasks).into_iter().flatten().flatten() {
        add(&read_text(task.path().join("children")).unwrap_or_default());
    }
    found
}

/// Every process that can be seen, without this one.
pub fn all_others() -> impl Iterator<Item = i32> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(move |pid| *pid != me)
}

/// Where another process of this user can open what `fd` refers to.
pub fn path_of_descriptor(fd: &impl std::os::fd::AsFd) -> String {
    use std::os::fd::AsRawFd as _;
    use std::sync::OnceLock;
    // The system is asked once: every command has several descriptors.
    static OWN: OnceLock<u32> = OnceLock::new();
    format!("/proc/{}/fd/{}", OWN.get_or_init(std::process::id), fd.as_fd().as_raw_fd())
}

/// Memory in RAM, in bytes; 0 if it cannot be read.
pub fn resident_bytes(pid: impl std::fmt::Display) -> u64 {
    memory_field(pid, 1)
}

/// Memory for data and stack, in bytes; 0 if it cannot be read.
pub fn data_bytes(pid: impl std::fmt::Display) -> u64 {
    memory_field(pid, 5)
}

fn memory_field(pid: impl std::fmt::Display, index: usize) -> u64 {
    let sizes = read_text(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages: u64 = sizes.split(' ').nth(index).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// How many descriptors this process has open; 0 if that cannot be read.
pub fn open_descriptors() -> u64 {
    let entries = fs::read_dir("/proc/self/fd").or_else(|_| fs::read_dir("/dev/fd"));
    // One of them is the directory that is being read.
    entries.map_or(0, |entries| (entries.count() as u64).saturating_sub(1))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_confuse_the_parser() {
        let stat = parse_stat("42 (a) b (c) S 7 8 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0").unwrap();
        let expected =
            ProcessStat { pid: 42, parent: 7, group: 8, session: 9, started: 12345, zombie: false };
        assert_eq!(stat, expected);
        assert!(parse_stat("42 (x) Z 7 8 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5").unwrap().zombie);
        for damaged in ["", "42", "42 (x", "42 (x) S 7 8", "x (x) S 7 8 9 0"] {
            assert_eq!(parse_stat(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn a_child_is_seen_alive_then_as_a_zombie_then_not_at_all() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let (me, pid) = (std::process::id(), child.id());
        assert_eq!(stat(pid as i32).unwrap().parent, me as i32);
        assert!(children(me as i32).contains(&(pid as i32)) && all_others().any(|other| other == pid as i32));
        assert!(!all_others().any(|other| other == me as i32));
        assert!(start_time(pid).is_some() && !is_dead(pid));
        // Its arguments are there a moment after it runs its program.
        let begun = std::time::Instant::now();
        while !has_argument(pid, b"30") && begun.elapsed() < std::time::Duration::from_secs(30) {
            std::thread::yield_now();
        }
        assert!(has_argument(pid, b"30"));
        assert_eq!(status_field(pid, "PPid").as_deref(), Some(me.to_string().as_str()));
        child.kill().unwrap();
        let ended = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let id = rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child));
        rustix::process::waitid(id, ended).unwrap();
        assert!(is_dead(pid) && start_time(pid).is_none() && stat(pid as i32).unwrap().zombie);
        child.wait().unwrap();
        assert!(is_dead(pid) && stat(pid as i32).is_none());
    }

    #[test]
    fn a_file_of_any_length_is_read_whole() {
        assert_eq!(read_text("/proc/self/comm").unwrap(), fs::read_to_string("/proc/self/comm").unwrap());
        let file = tempfile::NamedTempFile::new().unwrap();
        for length in [0, 1, 4095, 4096, 4097, 100_000] {
            let text: String = (0..length).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
            fs::write(file.path(), &text).unwrap();
            assert_eq!(read_text(file.path()).unwrap(), text);
        }
        fs::write(file.path(), [0xff]).unwrap();
        assert_eq!(read(file.path()).unwrap(), [0xff]);
        assert_eq!(read_text(file.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read("/proc/self/nothing").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn children_of_every_thread_are_seen() {
        let (begun, child) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        // A child belongs to the thread that has started it, for as long as that lives.
        let thread = std::thread::spawn(move || {
            let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
            begun.send(child.id() as i32).unwrap();
            ended.recv().ok();
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let child = child.recv().unwrap();
        assert!(children(std::process::id() as i32).contains(&child));
        end.send(()).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn a_signal_ends_what_neither_catches_nor_ignores_it() {
        use std::io::Read as _;
        for (trap, dies) in
            [("", true), ("trap '' TERM", false), ("trap : TERM", false), ("trap '' INT", true)]
        {
            let script = format!("{trap}\necho ready; read end");
            let mut command = std::process::Command::new("sh");
            command
                .args(["-c", &script])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped());
            let mut child = command.spawn().unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
            assert_eq!(dies_of(child.id(), libc::SIGTERM), dies, "{trap:?}");
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(!dies_of("nobody", libc::SIGTERM));
    }

    #[test]
    fn what_this_process_uses_is_read() {
        let me = std::process::id();
        assert!(resident_bytes(me) > 0 && data_bytes("self") > 0 && open_descriptors() >= 3);
        assert_eq!(working_dir(me), std::env::current_dir().ok());
        assert_eq!(program(me), std::env::current_exe().ok());
        assert_eq!(own_stat().unwrap().pid, me as i32);
    }
}
