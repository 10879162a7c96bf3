//! The host that stands by for the next session, and the launcher that has forked it: used, replaced, and never left behind.

#![expect(clippy::unwrap_used, reason = "what the tests share is test code too")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::process::{Signal, signal};
use trl_testkit::{Daemon, GUARD, Shell, daemon, process, wait_until};

/// Longer than the launcher stays without sessions.
const AFTER_LINGERING: Duration = Duration::from_secs(2);

/// The daemon's only child, which forks hosts.
fn launcher(daemon: &Daemon) -> i32 {
    // One that was killed stays a zombie until the daemon looks.
    let mut children = process::children(daemon.pid());
    children.retain(|child| process::alive(*child));
    assert_eq!(children.len(), 1);
    children[0]
}

/// The hosts' keepers are the launcher's children. One host has no session: its keeper, and itself.
fn standing_by(daemon: &Daemon) -> Option<(i32, i32)> {
    let keepers = process::children(daemon.pid()).into_iter().flat_map(process::children);
    keepers.into_iter().find_map(|keeper| match process::children(keeper)[..] {
        [host] if process::children(host).is_empty() => Some((keeper, host)),
        _ => None,
    })
}

fn await_standing_by(daemon: &Daemon) -> (i32, i32) {
    let mut found = None;
    wait_until("a host stands by", GUARD, || {
        found = standing_by(daemon);
        found.is_some()
    });
    found.unwrap_or_default()
}

#[test]
fn there_is_none_before_the_first_session_and_the_next_session_gets_it() {
    let daemon = daemon!();
    assert_eq!(process::children(daemon.pid()), Vec::<i32>::new());
    let mut first = daemon.session(Shell::Bash);
    let (_, host) = await_standing_by(&daemon);
    assert_ne!(host, first.host_pid());
    let mut second = daemon.session(Shell::Zsh);
    assert_eq!(second.host_pid(), host);
    second.ok("x=1");
    first.ok("true");
    await_standing_by(&daemon);
    first.destroy();
    second.destroy();
    wait_until("nobody stands by without sessions", GUARD, || process::children(daemon.pid()).is_empty());
}

#[test]
fn one_that_was_killed_is_not_missed() {
    let daemon = daemon!();
    daemon.session(Shell::Bash);
    for victim in [|pair: (i32, i32)| pair.0, |pair: (i32, i32)| pair.1] {
        let pair = await_standing_by(&daemon);
        signal(victim(pair), Signal::KILL);
        process::assert_ends("the one that was killed", victim(pair));
        let mut session = daemon.session(Shell::Bash);
        session.ok("echo here");
        assert_ne!(session.host_pid(), pair.1);
    }
}

#[test]
fn it_ends_with_its_daemon_however_that_ends() {
    let mut daemon = daemon!();
    daemon.session(Shell::Bash);
    let (keeper, host) = await_standing_by(&daemon);
    let launcher = launcher(&daemon);
    daemon.kill9();
    process::assert_ends("the host that stood by", host);
    process::assert_ends("its keeper", keeper);
    process::assert_ends("the launcher", launcher);
    daemon.restart();
    daemon.session(Shell::Bash);
    let (keeper, host) = await_standing_by(&daemon);
    daemon.terminate();
    assert!(!process::alive(host) && !process::alive(keeper), "the daemon waits for it");
}

/// Its hosts live on without it, and their processes end as ever.
#[test]
fn a_launcher_that_was_killed_is_not_missed() {
    let daemon = daemon!();
    let mut first = daemon.session(Shell::Bash);
    first.ok("x=1");
    let (_, host) = await_standing_by(&daemon);
    let former = launcher(&daemon);
    signal(former, Signal::KILL);
    process::assert_ends("the launcher", former);
    let mut second = daemon.session(Shell::Bash);
    assert_eq!(second.host_pid(), host, "the one that stood by is as good as ever");
    second.ok("true");
    await_standing_by(&daemon);
    assert_ne!(launcher(&daemon), former);
    assert_eq!(first.ok("echo $x"), "1\n");
    first.destroy();
    second.destroy();
    wait_until("nobody stands by without sessions", GUARD, || process::children(daemon.pid()).is_empty());
}

/// One that does not answer is replaced. What was asked of it is forgotten, should it go on later.
#[test]
fn a_launcher_that_does_not_answer_is_replaced() {
    let daemon = daemon!();
    let mut first = daemon.session(Shell::Bash);
    await_standing_by(&daemon);
    let former = launcher(&daemon);
    signal(former, Signal::STOP);
    // The first gets the host that stands by; there is none for the second.
    let mut others = [daemon.session(Shell::Bash), daemon.session(Shell::Bash)];
    process::assert_ends("the launcher that was stopped", former);
    assert_ne!(launcher(&daemon), former);
    for session in others.iter_mut().chain([&mut first]) {
        session.ok("true");
    }
    await_standing_by(&daemon);
}

fn fail_to_create(daemon: &Daemon) {
    let shell = daemon.work().join("bash");
    std::fs::write(&shell, "#!/nowhere/interpreter\n").unwrap();
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    let asked = json!({"shell": shell.display().to_string()});
    daemon.connect().call(m::SessionCreate::NAME, asked).unwrap_err();
}

/// The launcher is for sessions, also if the last one that was asked for could not be made.
#[test]
fn a_session_that_cannot_be_made_leaves_no_launcher() {
    let daemon = daemon!();
    for _ in 0..2 {
        fail_to_create(&daemon);
        wait_until("nobody stands by without sessions", GUARD, || process::children(daemon.pid()).is_empty());
        daemon.session(Shell::Bash).destroy();
    }
}

/// The launcher and the host that stands by are for the sessions that there are.
#[test]
fn a_session_that_cannot_be_made_takes_nothing_from_another() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let (_, host) = await_standing_by(&daemon);
    let launcher = launcher(&daemon);
    fail_to_create(&daemon);
    // It took the host that stood by.
    process::assert_ends("the host of the session that could not be made", host);
    assert!(!process::ended_within(launcher, AFTER_LINGERING));
    assert_eq!(self::launcher(&daemon), launcher);
    assert!(standing_by(&daemon).is_some());
    session.ok("true");
}

/// A session that is made just when the launcher is about to end, since there was none, keeps it.
#[test]
fn a_session_that_comes_late_keeps_the_launcher() {
    let daemon = daemon!();
    let mut first = daemon.session(Shell::Bash);
    let (keeper, host) = await_standing_by(&daemon);
    let launcher = launcher(&daemon);
    // The daemon waits for its end before it ends the launcher.
    signal(host, Signal::STOP);
    first.destroy();
    assert!(!process::ended_within(host, AFTER_LINGERING), "it was stopped");
    let mut second = daemon.session(Shell::Bash);
    process::assert_ends("the host that does not heed its end", host);
    process::assert_ends("its keeper", keeper);
    assert!(!process::ended_within(launcher, AFTER_LINGERING));
    second.ok("true");
}

#[test]
fn hosts_have_nothing_of_each_other() {
    let daemon = daemon!();
    let mut sessions: Vec<_> = (0..4).map(|_| daemon.session(Shell::Bash)).collect();
    await_standing_by(&daemon);
    let launcher = launcher(&daemon);
    // The null device, what it writes to, and the daemon's socket. What a host was given is closed after the fork.
    wait_until("the launcher has nothing of its hosts", GUARD, || process::open_descriptors(launcher) == 4);
    let hosts: Vec<i32> = sessions.iter_mut().map(|session| session.host_pid()).collect();
    let to_daemon = sockets(launcher);
    assert_eq!(to_daemon.len(), 1);
    for &host in &hosts {
        assert!(
            !sockets(host).contains(&to_daemon[0]),
            "a host would keep it open for a launcher that has ended"
        );
    }
    wait_until("all hosts have as much", GUARD, || {
        let open: Vec<usize> = hosts.iter().map(|host| process::open_descriptors(*host)).collect();
        open.iter().all(|count| *count == open[0])
    });
    for host in hosts {
        let keeper = process::read(host).unwrap().parent;
        assert_eq!((process::open_descriptors(keeper), process::read(keeper).unwrap().parent), (0, launcher));
    }
}

/// What `/proc` calls them; different ends of a pair are different.
fn sockets(pid: i32) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).collect()
}
