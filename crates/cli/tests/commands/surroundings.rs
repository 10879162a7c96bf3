//! What a command finds around it: one stream for both outputs, the kind of terminal, its environment,
//! and what of the shell a background command has.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use serde_json::{Value, json};
use trl_testkit::{Session, Shell, daemon, in_each_shell};

fn lines(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.trim_end_matches('\r')).collect()
}

fn both_outputs_can_be_one_stream_in_true_order(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let command = "for i in 1 2 3 4 5 6 7 8; do echo out$i; echo err$i >&2; done; nosuchcommand";
    let expected: Vec<String> = (1..=8).flat_map(|i| [format!("out{i}"), format!("err{i}")]).collect();
    for more in [json!({}), json!({"background": true}), json!({"tty": true})] {
        let mut params = more.clone();
        params["command"] = json!(command);
        params["merge_stderr"] = json!(true);
        let ran = session.run_with(params.clone());
        assert_eq!(lines(&ran.stdout)[..16], expected, "{more} {ran:?}");
        assert!(ran.stdout.contains("nosuchcommand") && !ran.stdout.contains("/proc/"), "{more} {ran:?}");
        assert_eq!((ran.stderr.as_str(), ran.stderr_bytes), ("", 0), "{more}");
        let streamed = session.stream(params);
        assert!(streamed.events.iter().all(|event| event.name != "stderr"), "{streamed:?}");
    }
    session.run("sleep .05 & wait; echo own >&2").exits(0).prints("", "own\n");
    let waited = json!({"command": "sleep .05 & wait; echo own >&2", "merge_stderr": true});
    session.run_with(waited).exits(0).prints("own\n", "");
}

fn the_kind_of_terminal_is_the_sessions(shell: Shell) {
    let daemon = daemon!();
    let term = |session: &mut Session, more: Value| {
        let mut params = more;
        params["command"] = json!("echo $TERM");
        session.run_with(params).exits(0).stdout.trim_end().to_owned()
    };
    let tty = || json!({"tty": true});
    let background = || json!({"tty": true, "background": true});
    for given in ["vt100", "dumb"] {
        let mut session = daemon.session(shell);
        session.run_with(json!({"command": format!("TERM={given} true; (export TERM={given}); cat <<E\nexport TERM={given}\nE")}));
        assert_eq!(term(&mut session, tty()), "xterm-256color", "only mentioned: {given}");
        session.run(&format!("export TERM={given}")).exits(0);
        for more in [tty(), background(), json!({})] {
            assert_eq!(term(&mut session, more), given, "exported");
        }
        session.run("exit 0");
        assert_eq!(term(&mut session, tty()), given, "in a new shell");
        // Set on a terminal, as people do who are attached.
        let mut session = daemon.session(shell);
        session.run_with(json!({"command": format!("TERM={given}; export TERM"), "tty": true})).exits(0);
        for more in [tty(), background(), json!({})] {
            assert_eq!(term(&mut session, more), given, "set on a terminal");
        }
        let mut session = daemon.session_with(shell, json!({"env": {"TERM": given}}));
        assert_eq!(term(&mut session, tty()), given);
        assert_eq!(term(&mut session, background()), given);
    }
    let mut session = daemon.session(shell);
    assert_eq!(term(&mut session, tty()), "xterm-256color");
    assert_eq!(term(&mut session, background()), "xterm-256color");
    assert_eq!(term(&mut session, json!({})), "dumb");
    session.run("TERM=vt220; export TERM").exits(0);
    for more in [tty(), background(), json!({})] {
        assert_eq!(term(&mut session, more), "vt220");
    }
    assert_eq!(term(&mut session, json!({"tty": true, "env": {"TERM": "linux"}})), "linux");
}

fn the_environment_can_be_replaced(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("mine=1; HERS=2; export HERS; cd /usr").exits(0);
    for background in [false, true] {
        let params = json!({
            "command": "/usr/bin/env; echo \"[$mine$HERS]\"; NEW=3; export NEW",
            "env": {"ONLY": "a  b"}, "replace_env": true, "background": background,
        });
        let ran = session.run_with(params).exits(0);
        let (seen, rest) = ran.stdout.rsplit_once("[").unwrap();
        let names: Vec<&str> = lines(seen).iter().map(|line| line.split('=').next().unwrap()).collect();
        // bash tells every program its own name in `_`.
        let names: Vec<&str> = names.into_iter().filter(|name| *name != "_").collect();
        // dash cannot hide its search path.
        let names: Vec<&str> =
            names.into_iter().filter(|name| shell != Shell::Sh || *name != "PATH").collect();
        assert_eq!((names, rest), (vec!["ONLY"], "12]\n"), "{ran:?}");
        assert!(seen.contains("ONLY=a  b\n"), "{ran:?}");
    }
    // Afterwards everything is as it was, and what the command exported is there.
    let after = session.ok("/usr/bin/env");
    for line in ["HERS=2", "NEW=3", "PWD=/usr", "GIT_TERMINAL_PROMPT=0"] {
        assert!(lines(&after).contains(&line), "{line}: {after}");
    }
    assert!(!after.contains("ONLY="), "{after}");
    let env = json!({"PATH": "/usr/bin:/bin", "A": "1"});
    let mut bare = daemon.session_with(shell, json!({"env": env, "replace_env": true}));
    let seen = bare.ok("env");
    let mut names: Vec<&str> = lines(&seen).iter().map(|line| line.split('=').next().unwrap()).collect();
    names.retain(|name| {
        !name.starts_with("TRL_") && !["_", "PWD", "OLDPWD", "SHLVL", "LOGNAME", "HOME"].contains(name)
    });
    names.sort_unstable();
    assert_eq!(names, ["A", "PATH"], "{seen}");
}

/// A replaced environment leaves the session's own as the session has made it.
fn what_was_unset_or_not_exported_any_more_stays_so(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session_with(shell, json!({"env": {"GONE": "1", "INNER": "2"}}));
    // A variable that is made anew is not exported.
    session.run("unset GONE OLDPWD; unset INNER; INNER=3").exits(0);
    for background in [false, true] {
        let command = "echo $? ${GONE-unset} $INNER";
        let params =
            json!({"command": command, "env": {"A": "1"}, "replace_env": true, "background": background});
        session.run_with(params).exits(0).prints("0 unset 3\n", "");
    }
    let after = "echo ${GONE-unset} ${OLDPWD-unset} $INNER; printenv GONE OLDPWD INNER; echo $?";
    session.run(after).exits(0).prints("unset unset 3\n1\n", "");
}

fn one_commands_posix_mode_ends_with_it(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let params = json!({"command": "echo $POSIXLY_CORRECT", "env": {"POSIXLY_CORRECT": "y"}});
    session.run_with(params).exits(0).prints("y\n", "");
    session.run("echo \"[${POSIXLY_CORRECT-none}]\"").exits(0).prints("[none]\n", "");
    if shell == Shell::Bash {
        session.run("set -o | grep posix").exits(0).prints("posix          \toff\n", "");
        session.run("set -o posix; f() { :; }").exits(0);
        session.run_with(json!({"command": ":", "env": {"POSIXLY_CORRECT": "y"}})).exits(0);
        session.run("set -o | grep posix").exits(0).prints("posix          \ton\n", "");
    }
}

fn a_background_command_has_limits_aliases_and_true_line_numbers(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("ulimit -n 77; ulimit -c 0; alias hi='echo aliased'").exits(0);
    let beside = |command: &str| json!({"command": command, "background": true});
    let ran = session.run_with(beside("ulimit -n; ulimit -c; hi there"));
    ran.exits(0).prints("77\n0\naliased there\n", "");
    let mut fresh = daemon.session(shell);
    for session in [&mut session, &mut fresh] {
        for (text, line) in [("nosuchfirst", "1"), ("\n\nnosuchthird", "3"), ("echo a\nnosuchsecond", "2")] {
            let ran = session.run_with(beside(text));
            let number = ran.stderr.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty());
            assert_eq!(number, Some(line), "{ran:?}");
        }
        let complaint = session.run_with(beside("nosuchcommand")).stderr;
        assert!(shell == Shell::Zsh || !complaint.contains("eval"), "{complaint}");
        // What is read first is not to be seen.
        let ran = session.run_with(beside("echo \"[$BASH_ENV][$0]\""));
        ran.exits(0).prints(&format!("[][{}]\n", shell.name()), "");
    }
}

fn a_directory_that_is_gone_is_named(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("mkdir gone; cd gone; rmdir ../gone").exits(0);
    let problem = session.refused(json!({"command": "pwd", "background": true}), "INVALID_PARAMS");
    assert!(problem.contains("/gone\" is gone"), "{problem}");
    session
        .run_with(json!({"command": "pwd", "background": true, "working_dir": "/usr"}))
        .exits(0)
        .prints("/usr\n", "");
}

in_each_shell!(
    what_was_unset_or_not_exported_any_more_stays_so,
    both_outputs_can_be_one_stream_in_true_order,
    the_kind_of_terminal_is_the_sessions,
    the_environment_can_be_replaced,
    one_commands_posix_mode_ends_with_it,
    a_background_command_has_limits_aliases_and_true_line_numbers,
    a_directory_that_is_gone_is_named,
);
