//! Each layer by itself. An escape has to pass several of them, so a test of escapes does not show that one is missing.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "what the tests share is test code too")]

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::process::{Resource, Signal};
use trl_confine::linux::jail::{Jail, Strength};
use trl_confine::linux::{Extras, ProcessLimit, ProcessLimits, Work, look, probe};
use trl_confine::plan::{self, Setting};
use trl_confine::{Confinement, become_command};
use trl_protocol::isolation::{Isolation, Net, Profile};

fn strengths() -> Vec<Strength> {
    match probe::namespaces() {
        Ok(()) => vec![Strength::Namespaces, Strength::InPlace],
        Err(step) => {
            trl_testkit::needs::skip(&format!("what needs namespaces: {step}"));
            vec![Strength::InPlace]
        }
    }
}

/// What a function finds out inside a cage.
fn inside(strength: Strength, isolation: &Isolation, extras: Extras) -> String {
    let workspace = tempfile::tempdir_in("/var/tmp").unwrap();
    let at = workspace.path().canonicalize().unwrap();
    let setting = Setting {
        working_dir: at.clone(),
        workspace: at,
        home: Some(PathBuf::from("/root")),
        ..Setting::default()
    };
    let plan = plan::session(isolation, &setting, &look).unwrap();
    let mut jail = Jail::enter(&plan, strength, extras).unwrap_or_else(|step| panic!("{step}"));
    let (mut read, write) = std::io::pipe().unwrap();
    jail.work(b"", write.as_fd()).unwrap();
    drop(write);
    let mut text = String::new();
    read.read_to_string(&mut text).unwrap();
    jail.end();
    text
}

fn doing(work: Work) -> Extras {
    Extras { work: Some(work), ..Extras::default() }
}

fn tell(answer: OwnedFd, text: &str) {
    File::from(answer).write_all(text.as_bytes()).unwrap();
}

fn tell_status(_: &[u8], answer: OwnedFd) {
    tell(answer, &std::fs::read_to_string("/proc/self/status").unwrap());
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {name} in {status}")).trim()
}

fn has_given_everything_up(status: &str, bounding: bool) {
    const NONE: &str = "0000000000000000";
    for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(field(status, set), NONE, "{set}");
    }
    if bounding {
        assert_eq!(field(status, "CapBnd"), NONE);
    }
    assert_eq!(field(status, "NoNewPrivs"), "1");
    assert_eq!(field(status, "Seccomp"), "2");
    assert_eq!(field(status, "Seccomp_filters"), "3");
}

#[test]
fn capabilities_are_gone_and_filters_are_installed() {
    for strength in strengths() {
        // Without namespaces, only root can empty the bounding set.
        let bounding = strength == Strength::Namespaces || rustix::process::geteuid().is_root();
        for profile in [Profile::Workspace, Profile::Strict] {
            has_given_everything_up(&inside(strength, &Isolation::of(profile), doing(tell_status)), bounding);
        }
    }
}

/// The kernel stacks 16 restrictions. How many more can be added tells how many there are.
fn tell_free_landlock_layers(_: &[u8], answer: OwnedFd) {
    const EXECUTE: u64 = 1;
    let mut free = 0;
    loop {
        let handled: u64 = EXECUTE;
        // SAFETY: the kernel reads one number of the given size, and opens a descriptor.
        let rules = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, size_of::<u64>(), 0)
        };
        assert!(rules >= 0);
        // SAFETY: takes numbers, and restricts this process alone.
        if unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) } != 0 {
            return tell(answer, &format!("{free}, {}", std::io::Error::last_os_error()));
        }
        free += 1;
    }
}

#[test]
fn landlock_restricts_files_also_behind_mounts() {
    for strength in strengths() {
        for net in [Net::None, Net::Full] {
            let isolation = Isolation { net, ..Isolation::of(Profile::Workspace) };
            let free = inside(strength, &isolation, doing(tell_free_landlock_layers));
            assert!(free.starts_with("15, Argument list too long"), "{strength:?}: {free}");
        }
    }
}

const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

fn own_namespaces() -> Vec<String> {
    let link = |name: &str| std::fs::read_link(Path::new("/proc/self/ns").join(name));
    NAMESPACES
        .iter()
        .map(|name| link(name).map_or_else(|error| error.to_string(), |link| link.display().to_string()))
        .collect()
}

fn tell_namespaces(_: &[u8], answer: OwnedFd) {
    // What comes of a fork may not look into its own entry in /proc before it may be looked into.
    // SAFETY: takes a number.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    tell(answer, &own_namespaces().join("\n"));
}

#[test]
fn every_namespace_is_a_new_one() {
    if let Err(step) = probe::namespaces() {
        trl_testkit::needs::skip(&format!("{step}"));
        return;
    }
    let here = own_namespaces();
    for (net, shared) in [(Net::None, &[][..]), (Net::Full, &["net"][..])] {
        let isolation = Isolation { net, ..Isolation::of(Profile::Workspace) };
        let text = inside(Strength::Namespaces, &isolation, doing(tell_namespaces));
        let there: Vec<&str> = text.lines().collect();
        assert_eq!(there.len(), NAMESPACES.len(), "{text}");
        for ((name, here), there) in NAMESPACES.iter().zip(&here).zip(there) {
            assert!(there.starts_with(&format!("{name}:[")), "{there}");
            assert_eq!(here == there, shared.contains(name), "{name}: {here} {there}");
        }
    }
}

fn tell_mounts(_: &[u8], answer: OwnedFd) {
    // SAFETY: takes a number.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) };
    tell(answer, &std::fs::read_to_string("/proc/self/mountinfo").unwrap());
}

/// Mounts have their restrictions of their own: the layers behind them are not needed for what these keep.
#[test]
fn mounts_are_private_and_restricted() {
    if let Err(step) = probe::namespaces() {
        trl_testkit::needs::skip(&format!("{step}"));
        return;
    }
    let text = inside(Strength::Namespaces, &Isolation::of(Profile::Workspace), doing(tell_mounts));
    let mut seen = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (at, options) = (words[4], words[5]);
        let has = |option: &str| options.split(',').any(|each| each == option);
        let tags = words[6..].iter().take_while(|word| **word != "-").count();
        assert_eq!(tags, 0, "no change of a mount comes in or goes out: {line}");
        let is_device = at.starts_with("/dev/") && at != "/dev/shm";
        assert!(is_device || has("nodev"), "{line}");
        assert!(is_device && at != "/dev/pts" || has("nosuid"), "{line}");
        let is_writable = is_device
            || ["/proc", "/tmp", "/var/tmp", "/dev/shm", "/root"].contains(&at)
            || at.starts_with("/var/tmp/");
        assert!(is_writable || has("ro"), "{line}");
        if at == "/proc" {
            assert!(has("noexec"), "{line}");
        }
        seen.push(at);
    }
    for at in ["/", "/proc", "/usr", "/dev/null", "/dev/pts", "/tmp"] {
        assert!(seen.contains(&at), "{at}: {text}");
    }
}

fn tell_parent(_: &[u8], answer: OwnedFd) {
    let parent = PathBuf::from(format!("/proc/{}", rustix::process::getppid().unwrap().as_raw_nonzero()));
    let environment = std::fs::read(parent.join("environ")).is_err();
    let memory = File::open(parent.join("mem")).is_err();
    let descriptors = std::fs::read_link(parent.join("fd/0")).is_err();
    tell(answer, &format!("{environment} {memory} {descriptors}"));
}

#[test]
fn what_starts_the_processes_cannot_be_looked_into_by_them() {
    for strength in strengths() {
        let refused = inside(strength, &Isolation::of(Profile::Workspace), doing(tell_parent));
        assert_eq!(refused, "true true true", "{strength:?}");
    }
}

const LIMITS: [(ProcessLimit, Resource, u64); 6] = [
    (ProcessLimit::CoreSize, Resource::Core, 0),
    (ProcessLimit::CpuSeconds, Resource::Cpu, 1000),
    (ProcessLimit::Data, Resource::Data, 1 << 30),
    (ProcessLimit::FileSize, Resource::Fsize, 1 << 20),
    (ProcessLimit::OpenFiles, Resource::Nofile, 100),
    (ProcessLimit::Processes, Resource::Nproc, 4000),
];

fn tell_limits(_: &[u8], answer: OwnedFd) {
    let limit = |(_, resource, _): &(ProcessLimit, Resource, u64)| rustix::process::getrlimit(*resource);
    let texts: Vec<String> =
        LIMITS.iter().map(limit).map(|limit| format!("{:?} {:?}", limit.current, limit.maximum)).collect();
    tell(answer, &texts.join("\n"));
}

#[test]
fn limits_are_entered_and_groups_are_joined() {
    for strength in strengths() {
        let mut group = tempfile::tempfile().unwrap();
        let limits =
            ProcessLimits { limits: LIMITS.iter().map(|(limit, _, most)| (*limit, *most)).collect() };
        let groups = vec![group.try_clone().unwrap().into()];
        let text = inside(
            strength,
            &Isolation::of(Profile::Workspace),
            Extras { limits, groups, work: Some(tell_limits) },
        );
        for ((limit, _, most), line) in LIMITS.iter().zip(text.lines()) {
            // The second of the two limits on time is a second later.
            let last = most + u64::from(*limit == ProcessLimit::CpuSeconds);
            assert_eq!(line, format!("Some({most}) Some({last})"), "{strength:?} {limit:?}");
        }
        assert_eq!(text.lines().count(), LIMITS.len());
        group.rewind().unwrap();
        let mut written = String::new();
        group.read_to_string(&mut written).unwrap();
        assert_eq!(written, "0", "{strength:?}: how a process joins a group");
    }
}

/// An auto-responder's command in a process of its own, with what it prints.
fn errand(script: &str, dir: &Path) -> (rustix::process::Pid, File) {
    let (read, write) = std::io::pipe().unwrap();
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    let confinement = Confinement { dir: dir.to_owned(), network: false, command };
    // SAFETY: the child does what a process with one thread may do, and never returns.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: takes numbers.
            unsafe { libc::dup2(write.as_raw_fd(), 1) };
            let _ = become_command(&confinement);
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(99) }
        }
        pid => (rustix::process::Pid::from_raw(pid).unwrap(), OwnedFd::from(read).into()),
    }
}

#[test]
fn an_errand_has_every_layer_and_limits() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let script = "ulimit -n; ulimit -c; ulimit -f; ulimit -d; cat /proc/self/status; echo x > file; chmod 700 file || echo unchanged";
    let (pid, mut output) = errand(script, dir.path());
    let mut text = String::new();
    output.read_to_string(&mut text).unwrap();
    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
    // Files are counted in blocks of 512 bytes, memory in those of 1024.
    assert!(text.starts_with("512\n0\n524288\n1048576\n"), "{text}");
    assert!(text.ends_with("unchanged\n"), "{text}");
    let bounding = probe::namespaces().is_ok() || rustix::process::geteuid().is_root();
    has_given_everything_up(&text, bounding);
}

/// Whoever kills what waits for the command has ended the command.
#[test]
fn an_errand_ends_with_the_process_that_started_it() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let (pid, mut output) = errand("echo begun; sleep 20; echo stayed", dir.path());
    let mut begun = [0; 6];
    output.read_exact(&mut begun).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
    // Ends when nobody has the other end any more.
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}
