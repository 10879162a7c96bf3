//! The host that stands by for the next session: used, replaced, and never left behind.

use trl_testkit::process::{Signal, signal};
use trl_testkit::{Daemon, GUARD, Shell, daemon, process, wait_until};

/// The daemon's children that have no session: the keeper of the host that stands by, and that host.
fn standing_by(daemon: &Daemon) -> Option<(i32, i32)> {
    process::children(daemon.pid()).into_iter().find_map(|keeper| match process::children(keeper)[..] {
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
    daemon.kill9();
    process::assert_ends("the host that stood by", host);
    process::assert_ends("its keeper", keeper);
    daemon.restart();
    daemon.session(Shell::Bash);
    let (keeper, host) = await_standing_by(&daemon);
    daemon.terminate();
    assert!(!process::alive(host) && !process::alive(keeper), "the daemon waits for it");
}
