//! The escape suite: every attempt of `escapes.c`, in every profile, as root and as an ordinary user, in every
//! shell, with and without a terminal. The same attempts without isolation show that it would notice an escape.

#![expect(clippy::expect_used, reason = "that is how a test fails")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use trl_testkit::{Daemon, Shell, daemon, process, trl};

use super::outside::{NOBODY, Outside};

/// What an attempt may do with the machine's network.
const NETWORK: &[&str] = &[
    "dns_server",
    "netlink_interfaces",
    "tcp_any",
    "tcp_loopback",
    "tcp_loopback_6",
    "tcp_loopback_other",
    "udp_loopback",
];

/// Attempts that get out of a session on this machine, by name; how many were made.
pub(crate) fn escapes(
    daemon: &Daemon,
    outside: &Outside,
    shell: Shell,
    isolation: Value,
    tty: bool,
) -> (BTreeSet<String>, usize) {
    let mut session = daemon.session_with(shell, json!({"isolation": isolation, "tty": tty}));
    let program = daemon.work().join("escapes");
    if !program.exists() {
        fs::copy(outside.program(), &program).expect("the program");
    }
    let suid = daemon.work().join("suid");
    if fs::copy(outside.program(), &suid).is_ok() {
        fs::set_permissions(&suid, fs::Permissions::from_mode(0o4755)).expect("permissions");
    }
    let mut words = outside.words();
    words.push(format!("host={}", session.host_pid()));
    let escapee = format!("escapee={}", session.host_pid());
    words.push(escapee.clone());
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let command = format!("{} all {}", program.display(), quoted.join(" "));
    let ran = session.run_with(json!({"command": command, "timeout_s": 120}));
    let lines: Vec<&str> = ran.stdout.lines().map(|line| line.trim_end()).collect();
    let escaped = lines.iter().filter_map(|line| line.strip_suffix(" escaped")).map(str::to_owned).collect();
    let tried = lines.iter().filter(|line| line.ends_with(" escaped") || line.ends_with(" held")).count();
    let is_escapee = |pid: &i32| process::arguments(*pid).contains(&escapee);
    let living =
        || process::all().into_iter().map(|process| process.pid).filter(is_escapee).collect::<Vec<_>>();
    assert_eq!(living().len(), 1, "a process that is to outlive its session");
    session.destroy();
    assert_eq!(living(), Vec::<i32>::new(), "it has outlived its session");
    (escaped, tried)
}

fn hold(daemon: &Daemon, shells: &[Shell]) {
    let outside = Outside::around(daemon);
    for profile in ["workspace", "strict"] {
        for &shell in shells {
            for tty in [false, true] {
                let (escaped, tried) = escapes(daemon, &outside, shell, json!(profile), tty);
                assert!(tried >= 160, "{profile} {shell:?} tty {tty}: only {tried} attempts were made");
                assert_eq!(escaped, BTreeSet::new(), "{profile} {shell:?} tty {tty}");
            }
        }
        let isolation = json!({"profile": profile, "net": {"allow": ["a.example.invalid"]}});
        let (escaped, _) = escapes(daemon, &outside, Shell::Bash, isolation, false);
        assert_eq!(escaped, BTreeSet::new(), "{profile} with a list of hosts");
        let isolation = json!({"profile": profile, "net": "full"});
        let (escaped, _) = escapes(daemon, &outside, Shell::Bash, isolation, false);
        let others: Vec<&String> = escaped.iter().filter(|name| !NETWORK.contains(&name.as_str())).collect();
        assert!(others.is_empty(), "{profile} with network: {others:?}");
    }
    assert!(outside.is_untouched());
}

/// Without isolation most attempts succeed; those that do not are refused to this user anyway.
fn detect(daemon: &Daemon, least: usize, among: &[&str]) {
    let outside = Outside::around(daemon);
    let (escaped, tried) = escapes(daemon, &outside, Shell::Bash, json!("none"), false);
    assert!(tried >= 160, "{tried}");
    let missed: Vec<&&str> = among.iter().filter(|name| !escaped.contains(**name)).collect();
    assert!(missed.is_empty(), "not noticed: {missed:?}");
    assert!(escaped.len() >= least, "{} of {tried}: {escaped:?}", escaped.len());
}

/// What anybody can do to what is their own.
const ANYBODY: &[&str] = &[
    "abstract_socket",
    "access_outside",
    "chmod_outside",
    "create_outside",
    "daemon_socket",
    "dotdot_out",
    "hardlink_out",
    "leave_setgid_fchmodat",
    "leave_setuid_chmod",
    "leave_setuid_creat",
    "leave_setuid_fchmod",
    "leave_setuid_mknod",
    "leave_setuid_open",
    "leave_setuid_temporary",
    "list_home",
    "list_outside",
    "list_state",
    "looser_filter",
    "memfd_program",
    "mkdir_outside",
    "new_privileges",
    "other_terminals",
    "path_socket",
    "pidfd_victim",
    "posix_messages",
    "posix_shared_memory",
    "priority_of_victim",
    "prlimit_daemon",
    "prlimit_victim",
    "proc_any_environ",
    "proc_any_fd",
    "proc_any_root",
    "proc_self_root",
    "race_symlink",
    "race_workspace",
    "read_home",
    "read_secret",
    "read_tmp",
    "see_daemon",
    "see_victim",
    "signal_daemon",
    "signal_host",
    "signal_victim",
    "ssh_agent_socket",
    "stat_outside",
    "symlink_dir_out",
    "symlink_out",
    "sysv_messages",
    "sysv_numbers",
    "sysv_semaphores",
    "sysv_shared_memory",
    "tcp_loopback",
    "tmp_socket",
    "tokens_in_environment",
    "truncate_outside",
    "udp_loopback",
    "unlink_outside",
    "user_keyring",
    "utime_outside",
    "write_outside",
];

#[test]
fn nothing_gets_out_of_roots_sessions() {
    hold(&daemon!(), &Shell::installed());
}

#[test]
fn nothing_gets_out_of_an_ordinary_users_sessions() {
    hold(&Daemon::builder(trl!()).as_user(NOBODY).start(), &Shell::installed());
}

#[test]
fn without_isolation_roots_attempts_are_noticed() {
    detect(&daemon!(), 90, ANYBODY);
}

#[test]
fn without_isolation_an_ordinary_users_attempts_are_noticed() {
    detect(&Daemon::builder(trl!()).as_user(NOBODY).start(), 60, ANYBODY);
}
