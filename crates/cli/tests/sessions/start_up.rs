//! Start-up files: what they write, how long they take, and how they fail.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::{Daemon, GUARD, Session, Shell, daemon, process, wait_until};

const WITH_FILES: [(Shell, &str); 2] = [(Shell::Bash, ".bashrc"), (Shell::Zsh, ".zshrc")];

/// A session whose start-up files wait until the test lets them go on.
fn held(daemon: &Daemon, shell: Shell, file: &str, tty: bool) -> (Session, std::path::PathBuf) {
    let gate = daemon.user_home().join(format!("gate-{}-{tty}", shell.name()));
    let text = format!(
        "echo begun; echo problem >&2; while ! test -e {0}; do sleep .02; done; echo late; kept=yes\n",
        gate.display()
    );
    fs::write(daemon.user_home().join(file), text).unwrap();
    (daemon.session_with(shell, json!({"rc": true, "tty": tty})), gate)
}

fn await_state(session: &mut Session, state: &str) {
    wait_until("the state is reached", GUARD, || session.info()["state"] == state);
}

#[test]
fn a_session_is_being_created_until_its_start_up_files_are_over() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        for tty in [false, true] {
            let (mut session, gate) = held(&daemon, shell, file, tty);
            assert_eq!(session.created["state"], "creating");
            assert_eq!(session.info()["state"], "creating");
            // A command waits; it has not started, whatever its own deadline is.
            let params = session.params(json!({"command": "echo $kept", "timeout_s": 1}));
            let request = session.connection.begin(m::ExecStream::NAME, params);
            let queued = session.connection.event(request);
            assert_eq!(queued.name, "queued", "{queued:?}");
            let exec = json!({"exec_id": queued.data["exec_id"]});
            let mut other = daemon.connect();
            assert_eq!(other.ok(m::ExecInfo::NAME, exec)["state"], "queued");
            let busy = other.fails(m::ExecRun::NAME, session.params(json!({"command": ":"})), "SESSION_BUSY");
            assert!(busy.contains("start-up files"), "{busy}");
            fs::write(&gate, "").unwrap();
            let answer = session.connection.finish(request);
            assert_eq!(answer.events[0].name, "started", "{answer:?}");
            assert_eq!(String::from_utf8_lossy(&answer.output("stdout")).trim_end(), "yes");
            let info = session.info();
            let written = info["startup_output"].as_str().unwrap().replace("\r\n", "\n");
            for line in ["begun\n", "problem\n", "late\n"] {
                assert!(written.contains(line), "{written:?}");
            }
            assert_eq!(info["state"], "idle");
            session.destroy();
        }
    }
}

#[test]
fn cancelling_what_waits_for_start_up_files_interrupts_them() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        fs::write(daemon.user_home().join(file), "echo begun; sleep 1000\n").unwrap();
        let mut session = daemon.session_with(shell, json!({"rc": true}));
        let params = session.params(json!({"command": "echo never"}));
        let request = session.connection.begin(m::ExecRun::NAME, params);
        let mut other = daemon.connect();
        let listed = || json!({"session_id": session.id});
        wait_until("the command is queued", GUARD, || {
            !other.ok(m::ExecList::NAME, listed())["execs"].as_array().unwrap().is_empty()
        });
        for _ in 0..3 {
            other.ok(m::ExecCancel::NAME, listed());
        }
        let cancelled = session.connection.finish(request);
        assert_eq!((&cancelled.data()["cancelled"], &cancelled.data()["stdout"]), (&json!(true), &json!("")));
        await_state(&mut session, "idle");
        session.run("echo free").exits(0).prints("free\n", "");
        session.destroy();
    }
}

/// Whenever the interrupt comes, the shell leaves its files, and nothing of them is left that hears the engine.
#[test]
fn a_shell_that_is_cancelled_at_any_moment_is_as_good_as_any_other() {
    const WITH_COPIES: [(Shell, &str, &str); 3] = [
        (Shell::Bash, ".bashrc", "read y < <(sleep 1000)\n"),
        (Shell::Bash, ".bashrc", "sleep 1000\n"),
        (Shell::Zsh, ".zshrc", "sleep 1000\n"),
    ];
    let daemon = daemon!();
    let mut other = daemon.connect();
    for (shell, file, text) in WITH_COPIES {
        fs::write(daemon.user_home().join(file), text).unwrap();
        for round in 0..24 {
            let mut connection = daemon.connect();
            let name = format!("{}-{round}", shell.name());
            let asked = json!({"shell": shell.name(), "rc": true, "name": name});
            let request = connection.begin(m::SessionCreate::NAME, asked);
            let named = json!({"session_id": name});
            wait_until("there is a shell", GUARD, || {
                other.call(m::SessionInfo::NAME, named.clone()).is_ok_and(|info| info["pid"].is_number())
            });
            // At another moment each time.
            for _ in 0..round * 4 {
                other.ok(m::SystemPing::NAME, json!({}));
            }
            for _ in 0..=round % 2 {
                other.ok(m::ExecCancel::NAME, named.clone());
            }
            connection.finish(request);
            for _ in 0..3 {
                let command = "f() { return 3; }; echo free; f; echo $?; f";
                let ran = json!({"session_id": name, "command": command, "wait_s": 20});
                let ran = connection.ok(m::ExecRun::NAME, ran);
                let seen = (&ran["exit_code"], &ran["stdout"], &ran["stderr"]);
                assert_eq!(seen, (&json!(3), &json!("free\n3\n"), &json!("")), "{shell:?} {round}: {ran}");
                // bash ends if it is interrupted just before its files; one that does not leave them is another matter.
                let heeds =
                    |note: &serde_json::Value| note.as_str().unwrap().contains("the shell ended when");
                let notes = ran.get("notes").and_then(serde_json::Value::as_array);
                assert!(notes.is_none_or(|notes| notes.iter().all(heeds)), "{shell:?} {round}: {ran}");
            }
            other.ok(m::SessionDestroy::NAME, named);
        }
    }
}

/// A restarted session reads its start-up files again, and is not ready before their end either.
#[test]
fn start_up_files_of_a_later_shell_are_waited_for_and_interrupted_too() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        fs::write(daemon.user_home().join(file), "[ ! -e ~/hang ] || sleep 1000\n").unwrap();
        let mut session = daemon.session_with(shell, json!({"rc": true}));
        session.run("kept=1").exits(0);
        fs::write(daemon.user_home().join("hang"), "").unwrap();
        let named = json!({"session_id": session.id});
        session.connection.ok(m::SessionRestart::NAME, named.clone());
        assert_eq!(session.info()["state"], "creating", "{shell:?}");
        let params = session.params(json!({"command": "echo never"}));
        let request = session.connection.begin(m::ExecRun::NAME, params);
        let mut other = daemon.connect();
        wait_until("the command is queued", GUARD, || {
            let info = other.ok(m::ExecList::NAME, named.clone());
            info["execs"].as_array().unwrap().iter().any(|exec| exec["command"] == "echo never")
        });
        other.ok(m::ExecCancel::NAME, named.clone());
        let cancelled = session.connection.finish(request);
        assert_eq!((&cancelled.data()["cancelled"], &cancelled.data()["stdout"]), (&json!(true), &json!("")));
        await_state(&mut session, "idle");
        session.run("echo $kept").exits(0).prints("1\n", "");
        session.destroy();
        fs::remove_file(daemon.user_home().join("hang")).unwrap();
    }
}

/// What is cancelled is what was named, and only by the shell that was there.
#[test]
fn an_interrupt_for_something_else_leaves_start_up_files_alone() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        let path = daemon.user_home().join(file);
        fs::write(&path, "sleep 1000\n").unwrap();
        let mut session = daemon.session_with(shell, json!({"rc": true}));
        let named = json!({"session_id": session.id});
        session.connection.ok(m::ExecCancel::NAME, named.clone());
        fs::write(&path, "sleep .5; kept=yes\n").unwrap();
        session.connection.ok(m::SessionRestart::NAME, named.clone());
        session.run("echo $kept").exits(0).prints("yes\n", "");
        let other = session.start(json!({"command": "sleep 1000", "background": true}));
        session.connection.ok(m::SessionRestart::NAME, named);
        assert_eq!(session.info()["state"], "creating");
        session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": other}));
        session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": other}));
        session.run("echo $kept").exits(0).prints("yes\n", "");
        session.destroy();
    }
}

/// Whoever has repaired the files does not want to wait for the end of those that hang.
#[test]
fn a_shell_that_reads_its_start_up_files_is_restarted_at_once() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        let pid_file = daemon.work().join(format!("{}.pid", shell.name()));
        let hanging = format!(
            "echo hanging; perl -e '$SIG{{HUP}} = q(IGNORE); open F, q(>), shift; print F $$; close F; sleep 1000' {}\n",
            pid_file.display()
        );
        fs::write(daemon.user_home().join(file), hanging).unwrap();
        let mut session = daemon.session_with(shell, json!({"rc": true}));
        let pid = || fs::read_to_string(&pid_file).ok()?.parse::<i32>().ok();
        wait_until("the files hang", GUARD, || pid().is_some());
        fs::write(daemon.user_home().join(file), "echo repaired; x=7\n").unwrap();
        let named = json!({"session_id": session.id});
        let restarted = session.connection.ok(m::SessionRestart::NAME, named);
        assert_eq!(restarted["restarts"], 1);
        session.run("echo $x").exits(0).prints("7\n", "");
        let info = session.info();
        assert!(info["startup_output"].as_str().unwrap().contains("repaired"), "{info}");
        assert!(!info["startup_output"].as_str().unwrap().contains("hanging"), "{info}");
        wait_until("what hung is gone", GUARD, || process::read(pid().unwrap()).is_none());
        session.destroy();
    }
}

/// Until it has prepared for it, a shell would die of an interrupt or miss it. Here that takes long.
#[test]
fn a_shell_that_is_not_prepared_yet_survives_a_cancel() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        fs::write(daemon.user_home().join(file), "echo begun; sleep 1000\n").unwrap();
        let slow = daemon.work().join(shell.name());
        let script =
            format!("#!/usr/bin/perl\nselect undef, undef, undef, 0.5;\nexec '{}', @ARGV;\n", shell.name());
        fs::write(&slow, script).unwrap();
        fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
        let mut connection = daemon.connect();
        let asked = json!({"shell": slow.display().to_string(), "rc": true, "name": shell.name()});
        let request = connection.begin(m::SessionCreate::NAME, asked);
        let mut other = daemon.connect();
        let named = json!({"session_id": shell.name()});
        wait_until("there is a shell", GUARD, || {
            other.call(m::SessionInfo::NAME, named.clone()).is_ok_and(|info| info["pid"].is_number())
        });
        let cancelled = other.ok(m::ExecCancel::NAME, named.clone());
        assert_eq!((&cancelled["cancelled"], &cancelled["exec_id"]), (&json!(true), &json!(null)));
        let created = connection.finish(request);
        // If the interrupt came before there were files to leave, it takes longer.
        assert!(["idle", "creating"].contains(&created.data()["state"].as_str().unwrap()), "{created:?}");
        let ran = other.ok(m::ExecRun::NAME, json!({"session_id": shell.name(), "command": "echo free"}));
        assert_eq!((&ran["exit_code"], &ran["stdout"]), (&json!(0), &json!("free\n")), "{ran}");
        other.ok(m::SessionDestroy::NAME, named);
    }
}

#[test]
fn start_up_files_that_do_not_heed_an_interrupt_are_left_by_force() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        let told = daemon.work().join(format!("pid-{}", shell.name()));
        let program = format!("sh -c 'trap \"\" HUP; echo $$ > {}; exec sleep 1000'", told.display());
        let text = format!("trap '' INT; were_read=yes; {program}\n");
        fs::write(daemon.user_home().join(file), text).unwrap();
        let mut session = daemon.session_with(shell, json!({"rc": true}));
        let read_pid = || fs::read_to_string(&told).ok()?.trim().parse::<i32>().ok();
        wait_until("the files are read", GUARD, || read_pid().is_some());
        let params = session.params(json!({}));
        session.connection.ok(m::ExecCancel::NAME, params);
        let ran = session.run("echo free $were_read").exits(0).prints("free\n", "");
        assert!(ran.notes.iter().any(|note| note.contains("did not heed the interrupt")), "{ran:?}");
        process::assert_ends("a program of the files", read_pid().unwrap());
        session.destroy();
    }
}

#[test]
fn a_signal_that_ends_nothing_leaves_start_up_files_alone() {
    let daemon = daemon!();
    let (shell, file) = WITH_FILES[0];
    fs::write(daemon.user_home().join(file), "until [ -e ~/go ]; do sleep 0.01; done; kept=yes\n").unwrap();
    let mut session = daemon.session_with(shell, json!({"rc": true}));
    let params = session.params(json!({"signal": "WINCH"}));
    session.connection.ok(m::ExecCancel::NAME, params);
    // Longer than files that do not heed an interrupt are waited for.
    daemon.session(Shell::Sh).ok("sleep 2.5; touch ~/go");
    session.run("echo $kept").exits(0).prints("yes\n", "");
}

#[test]
fn start_up_files_that_end_the_shell_are_a_truthful_error() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        fs::write(daemon.user_home().join(file), "echo goodbye; exit 3\n").unwrap();
        let mut connection = daemon.connect();
        let refused = connection.call(m::SessionCreate::NAME, json!({"shell": shell.name(), "rc": true}));
        let fault = refused.unwrap_err();
        let message = fault["message"].as_str().unwrap();
        assert_eq!(fault["code"], "SESSION_TERMINATED", "{fault}");
        assert!(
            message.contains("start-up files (exit status 3),") && message.contains("without rc"),
            "{message}"
        );
        assert!(message.contains("the last that they wrote is \"goodbye\""), "{message}");
        assert_eq!(connection.ok(m::SessionList::NAME, json!({}))["sessions"], json!([]));
    }
}

#[test]
fn what_start_up_files_write_has_nothing_of_the_engine_in_it() {
    let daemon = daemon!();
    for text in ["echo welcome; set -o vi\n", "echo welcome; set -o emacs\n", "echo welcome\n"] {
        fs::write(daemon.user_home().join(".bashrc"), text).unwrap();
        for tty in [false, true] {
            let mut session = daemon.session_with(Shell::Bash, json!({"rc": true, "tty": tty}));
            session.run("echo hi").exits(0);
            let written = session.info()["startup_output"].as_str().unwrap().to_owned();
            let foreign = ["trl", "set +o", "HISTFILE"].iter().any(|word| written.contains(word));
            assert!(written.contains("welcome") && !foreign, "{text:?} {tty}: {written:?}");
            session.destroy();
        }
    }
}

/// The shell tells on its stderr how commands end.
#[test]
fn start_up_files_that_replace_the_shells_stderr_are_not_read() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        fs::write(daemon.user_home().join(file), "x=1; exec >/dev/null 2>&1\n").unwrap();
        let mut session = daemon.session_with(shell, json!({"rc": true}));
        let first = session.run("echo \"<$x>\"; (exit 4)");
        assert!(first.has_note("redirect its stderr"), "{first:?}");
        first.exits(4).prints("<>\n", "");
        session.run("echo out; echo err >&2; (exit 5)").exits(5).prints("out\n", "err\n").quietly();
        session.destroy();
    }
}

/// What is written just before the first prompt is never part of the first command.
#[test]
fn the_first_command_on_a_terminal_has_only_its_own_output() {
    let daemon = daemon!();
    for (shell, file) in WITH_FILES {
        fs::write(daemon.user_home().join(file), "echo noise1; echo noise2; /bin/echo noise3\n").unwrap();
        for _ in 0..8 {
            let mut session = daemon.session_with(shell, json!({"rc": true, "tty": true}));
            let ran = session.run("echo own");
            assert_eq!(ran.stdout, "own\r\n", "{ran:?}");
            let written = session.info()["startup_output"].clone();
            assert_eq!(written.as_str().unwrap().matches("noise").count(), 3, "{written}");
            session.destroy();
        }
    }
}
