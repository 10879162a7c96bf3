use super::*;

#[test]
fn hierarchies_are_found_where_they_are_mounted() {
    let own = "8:pids:/\n4:memory:/a/b\n2:cpuacct,cpu:/\n0::/user.slice/x.scope\n";
    let mounts = "30 1 0:26 / /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory\n\
                  31 1 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  32 1 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                  33 1 0:29 /a /elsewhere rw - cgroup cgroup rw,pids\n";
    let layout = Layout::parse(own, mounts);
    assert_eq!(layout.unified, Some(PathBuf::from("/sys/fs/cgroup/unified/user.slice/x.scope")));
    assert_eq!(layout.v1["memory"], PathBuf::from("/sys/fs/cgroup/memory/a/b"));
    assert_eq!(layout.v1["cpu"], PathBuf::from("/sys/fs/cgroup/cpu,cpuacct"));
    assert_eq!(base(Path::new("/a/trl-daemon")), Path::new("/a"));
    assert_eq!(base(Path::new("/a/trl-session-s-1")), Path::new("/a"));
    assert_eq!(base(Path::new("/a/b")), Path::new("/a/b"));
}

/// As root, in whatever the machine has.
#[test]
fn processes_in_a_group_are_bounded_counted_and_ended() {
    in_groups(Groups::make());
    // And where the second version is not mounted.
    let layout = Layout { unified: None, ..Layout::here() };
    in_groups(Groups::below(layout, &format!("{}-first", std::process::id())));
}

fn in_groups(mut groups: Groups) {
    use std::os::unix::process::CommandExt as _;
    groups.bound(Wanted { memory: Some(64 << 20), pids: Some(5), cpu: Some(0.5) });
    if !groups.missing.is_empty() {
        trl_testkit::needs::skip(&format!("{:?}", groups.missing));
        return;
    }
    let entrances = groups.entrances().unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done 2>/dev/null; sleep 1000"]);
    // SAFETY: only a system call between fork and exec.
    unsafe {
        command.pre_exec(move || {
            for entrance in &entrances {
                rustix::io::write(entrance, b"0")?;
            }
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    while groups.hits().pids == 0 && child.try_wait().unwrap().is_none() {
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    assert!(groups.hits().pids > 0);
    assert!(groups.usage().processes.is_some_and(|count| count <= 5), "{:?}", groups.usage());
    assert!(groups.kill());
    child.wait().unwrap();
    while groups.count().is_some_and(|count| count > 0) {
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
}

/// The second version as plain files: what is written where.
#[test]
fn limits_of_the_second_version() {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("cgroup.controllers"), "cpu memory pids\n").unwrap();
    fs::write(own.join("cgroup.subtree_control"), "memory pids\n").unwrap();
    let layout = Layout { unified: Some(own.clone()), v1: BTreeMap::new() };
    let mut groups = Groups::below(layout, "7-1");
    groups.bound(Wanted { memory: Some(1 << 20), pids: Some(9), cpu: Some(1.5) });
    assert!(groups.missing.is_empty(), "{:?}", groups.missing);
    let by: Vec<&str> = groups.enforced.iter().map(|(_, by)| by.as_str()).collect();
    assert_eq!(by, ["cgroup v2 memory controller", "cgroup v2 pids controller", "cgroup v2 cpu controller"]);
    let made = own.join("trl-session-7-1");
    let written = |file: &str| fs::read_to_string(made.join(file)).unwrap();
    assert_eq!(written("memory.max"), "1048576");
    assert_eq!(written("memory.swap.max"), "0");
    assert_eq!(written("pids.max"), "9");
    assert_eq!(written("cpu.max"), "150000 100000");
    assert_eq!(fs::read_to_string(own.join("cgroup.subtree_control")).unwrap(), "+cpu");
    fs::write(made.join("memory.events"), "low 0\noom 2\noom_kill 1\noom_group_kill 0\n").unwrap();
    fs::write(made.join("pids.events"), "max 3\n").unwrap();
    assert_eq!(groups.hits(), Hits { memory: 1, pids: 3 });
    fs::write(made.join("cpu.stat"), "usage_usec 2500000\nthrottled_usec 500000\n").unwrap();
    fs::write(made.join("memory.peak"), "4096\n").unwrap();
    fs::write(made.join("pids.current"), "2\n").unwrap();
    let usage = groups.usage();
    assert_eq!((usage.cpu_s, usage.throttled_s), (Some(2.5), Some(0.5)));
    assert_eq!((usage.memory_peak_bytes, usage.processes), (Some(4096), Some(2)));
    assert!(groups.kill());
    assert_eq!(written("cgroup.kill"), "1");
}

/// Only those whose host is gone: the kernel refuses to remove a group in use, a plain file system does the same
/// for a directory with something in it.
#[test]
fn groups_of_hosts_that_are_gone_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout {
        unified: Some(dir.path().join("unified/trl-daemon")),
        v1: BTreeMap::from([("memory".to_owned(), dir.path().join("memory"))]),
    };
    for base in ["unified", "memory"] {
        for name in ["trl-session-7-a", "trl-session-77-b", "trl-session-8-c", "other-7-a", "trl-daemon"] {
            fs::create_dir_all(dir.path().join(base).join(name)).unwrap();
        }
    }
    fs::write(dir.path().join("unified/trl-session-7-a/process"), "").unwrap();
    layout.remove_groups_if(|owner| owner == "7");
    let left = |base: &str| {
        let names = fs::read_dir(dir.path().join(base)).unwrap().flatten();
        let mut names: Vec<String> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names.join(" ")
    };
    assert_eq!(left("memory"), "other-7-a trl-daemon trl-session-77-b trl-session-8-c");
    assert_eq!(left("unified"), "other-7-a trl-daemon trl-session-7-a trl-session-77-b trl-session-8-c");
}
