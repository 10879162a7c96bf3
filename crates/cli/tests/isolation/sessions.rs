//! Everything that a session can do works in an isolated one, too.

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Daemon, GUARD, Shell, daemon, needs, process, trl, wait_until};

use super::outside::NOBODY;

const PROFILES: [&str; 2] = ["workspace", "strict"];

#[test]
fn state_streams_and_exit_codes() {
    let daemon = daemon!();
    for profile in PROFILES {
        for shell in Shell::installed() {
            let mut session = daemon.session_with(shell, json!({"isolation": profile}));
            session.put_state();
            session.keeps_state();
            session.run("echo out; echo err >&2; (exit 7)").exits(7).prints("out\n", "err\n");
            session.ok("cd /tmp && echo private > file");
            session.run("cat file; pwd").exits(0).prints("private\n/tmp\n", "");
            assert!(!std::path::Path::new("/tmp/file").exists());
            session.run_with(json!({"command": "cat", "stdin": "given"})).exits(0).prints("given", "");
        }
    }
}

#[test]
fn the_shell_is_replaced_with_its_state() {
    let daemon = Daemon::builder(trl!()).as_user(NOBODY).start();
    for profile in PROFILES {
        let mut session = daemon.session_with(Shell::Bash, json!({"isolation": profile}));
        session.ok("x=kept; export Y=also; cd /tmp");
        session.run("kill -9 $$");
        session.run("echo $x; sh -c 'echo $Y'; pwd").exits(0).prints("kept\nalso\n/tmp\n", "");
        session.kill_host();
        daemon.connect().ok(m::SessionRestart::NAME, json!({"session_id": session.info()["session_id"]}));
        session.run("echo $x; sh -c 'echo $Y'").exits(0).prints("kept\nalso\n", "");
        let info = session.info();
        assert_eq!(info["isolation"]["requested"]["profile"], profile, "{info}");
    }
}

/// What the next command needs was prepared with the help of a process that a command can end.
#[test]
fn a_command_that_ends_everything_it_can_reach_harms_nobody_but_itself() {
    let daemon = daemon!();
    for shell in Shell::installed() {
        let mut session = daemon.session_with(shell, json!({"isolation": "workspace"}));
        session.ok("x=kept");
        for round in 0..3 {
            session.ok(
                "for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p = $$ ] || kill -9 $p; done 2>/dev/null; :",
            );
            session.run("echo $x; echo err >&2").exits(0).prints("kept\n", "err\n");
            let given = json!({"command": "cat", "stdin": format!("given {round}")});
            session.run_with(given).exits(0).prints(&format!("given {round}"), "");
        }
    }
}

#[test]
fn terminals_and_background_commands() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"isolation": "workspace"}));
    let ran = session
        .run_with(json!({"command": "test -t 0 && test -t 1 && tty && ps -o tty= -p $$", "tty": true}));
    assert_eq!(ran.exit_code, Some(0), "{ran:?}");
    assert!(ran.stdout.starts_with("/dev/pts/"), "{ran:?}");
    let ran = session.run_with(json!({"command": "tty; echo $HOME", "tty": true, "background": true}));
    assert!(ran.stdout.starts_with("/dev/pts/"), "{ran:?}");
    let ran = session.run_with(json!({"command": "echo $0; sleep 0.1; echo done", "background": true}));
    assert!(ran.stdout.ends_with("done\n"), "{ran:?}");
    session.ok("echo x > made && sleep 1000 & echo $!");
    session.survives();
}

#[test]
fn a_command_is_cancelled_and_timed_out() {
    let daemon = daemon!();
    for profile in PROFILES {
        let mut session = daemon.session_with(Shell::Bash, json!({"isolation": profile}));
        session.ok("x=kept");
        let ran = session
            .run_with(json!({"command": "trap '' TERM INT; while :; do sleep 0.1; done", "timeout_s": 0.3}));
        assert!(ran.timed_out, "{ran:?}");
        let ran = session.run_with(json!({"command": "sleep 1000", "timeout_s": 0.2}));
        assert!(ran.timed_out, "{ran:?}");
        session.run("echo $x").exits(0).prints("kept\n", "");
    }
}

#[test]
fn a_session_outlives_its_daemon_and_ends_whole() {
    let mut daemon = daemon!();
    daemon.keep_sessions();
    let mut session = daemon.session_with(Shell::Bash, json!({"isolation": "strict"}));
    session.ok("x=kept; (setsid sh -c 'sleep 4242 & sleep 4242' &) >/dev/null 2>&1");
    let host = session.host_pid();
    let id = session.info()["session_id"].clone();
    daemon.kill9();
    daemon.restart();
    let mut connection = daemon.connect();
    let ran = connection.ok(m::ExecRun::NAME, json!({"session_id": id, "command": "echo $x"}));
    assert_eq!(ran["stdout"], "kept\n");
    let all = process::descendants(host);
    assert!(all.len() >= 5, "{all:?}");
    connection.ok(m::SessionDestroy::NAME, json!({"session_id": id, "force": true}));
    let left: Vec<i32> = all.into_iter().filter(|&pid| process::alive(pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_killed_host_leaves_nothing_in_its_cage() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"isolation": "workspace"}));
    session.ok("(setsid sh -c 'sleep 4343 & sleep 4343' &) >/dev/null 2>&1");
    let host = session.host_pid();
    let all = process::descendants(host);
    process::signal(host, rustix::process::Signal::KILL);
    wait_until("everything is gone", GUARD, || all.iter().all(|&pid| !process::alive(pid)));
}

/// The tools that people use run inside.
#[test]
fn tools_run_inside() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"isolation": "workspace"}));
    session.ok("echo 'int main(void) { return 0; }' > a.c");
    let tools = [
        ("cc", "cc -o a a.c && ./a"),
        ("git", "git init -q . && git add a.c && git -c user.name=x -c user.email=x@x commit -qm x"),
        (
            "/usr/bin/python3",
            "/usr/bin/python3 -c 'import tempfile, subprocess; tempfile.mkstemp(); subprocess.run([\"true\"], check=True)'",
        ),
        ("make", "printf 'all:\\n\\ttrue\\n' > Makefile && make -s"),
        ("perl", "perl -e 'print 1'"),
    ];
    for (tool, command) in tools {
        if session.run(&format!("command -v {tool}")).exit_code != Some(0) {
            needs::skip(&format!("there is no {tool}"));
            continue;
        }
        let ran = session.run_with(json!({"command": command, "timeout_s": 60}));
        assert_eq!(ran.exit_code, Some(0), "{tool}: {ran:?}");
    }
    // Its own loopback works.
    let script = "import socket; s = socket.create_server((\"127.0.0.1\", 0)); c = socket.create_connection(s.getsockname()); print(\"connected\")";
    let ran = session.run(&format!("/usr/bin/python3 -c '{script}'"));
    if ran.exit_code != Some(127) {
        assert_eq!(ran.stdout, "connected\n", "{ran:?}");
    }
}

#[test]
fn named_paths_are_there_and_hidden_ones_are_empty() {
    let daemon = daemon!();
    let place = tempfile::Builder::new().prefix("trl-named-").tempdir_in("/var/tmp").expect("a directory");
    let path = |name: &str| place.path().join(name).display().to_string();
    for name in ["read", "write", "work"] {
        std::fs::create_dir(path(name)).expect("a directory");
        std::fs::write(path(&format!("{name}/file")), name).expect("a file");
    }
    std::fs::create_dir(path("work/secret")).expect("a directory");
    std::fs::write(path("work/secret/key"), "key").expect("a file");
    for profile in PROFILES {
        let isolation = json!({"profile": profile, "read": [path("read")], "write": [path("write")],
            "hide": [path("work/secret"), path("work/file")]});
        let params = json!({"isolation": isolation, "working_dir": path("work")});
        let mut session = daemon.session_with(Shell::Bash, params);
        session.run(&format!("cat {}", path("read/file"))).exits(0).prints("read", "");
        assert_ne!(session.run(&format!("echo x > {}", path("read/file"))).exit_code, Some(0));
        session.run(&format!("echo changed > {}", path("write/file"))).exits(0);
        session.run("ls secret | wc -l; cat file | wc -c").exits(0).prints("0\n0\n", "");
        assert_ne!(session.run("echo x > file").exit_code, Some(0));
        session.run("echo x > new && rm new").exits(0);
    }
    assert_eq!(std::fs::read_to_string(path("write/file")).expect("the file"), "changed\n");
    assert_eq!(std::fs::read_to_string(path("read/file")).expect("the file"), "read");
}

/// A system of its own as `/`: changes are temporary unless it may be written.
#[test]
fn another_root() {
    let daemon = daemon!();
    let root = tempfile::Builder::new().prefix("trl-root-").tempdir_in("/var/tmp").expect("a directory");
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| process::exists(path));
    let Some(busybox) = busybox else {
        needs::skip("there is no busybox for a root of its own");
        return;
    };
    std::fs::create_dir(root.path().join("bin")).expect("a directory");
    std::fs::copy(busybox, root.path().join("bin/sh")).expect("a shell");
    let path = root.path().display().to_string();
    let isolation = json!({"profile": "strict", "root": path});
    let mut session = daemon.session_with(Shell::Sh, json!({"isolation": isolation, "shell": "/bin/sh"}));
    session.ok("echo x > /made");
    assert!(!root.path().join("made").exists(), "changes are temporary");
}
