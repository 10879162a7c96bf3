//! A deadline ends the command, its children and theirs, and leaves the shell with its state.

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Ran, Session, Shell, daemon, in_each_shell, process};

/// Runs a command that must hit its deadline, and returns the result.
#[track_caller]
fn times_out(session: &mut Session, command: &str) -> Ran {
    let ran = session.run_with(json!({"command": command, "timeout_s": 0.3}));
    assert!(ran.timed_out && !ran.cancelled, "{command}: {ran:?}");
    assert!(ran.exit_code.is_some(), "{command}: a status as the shell saw it: {ran:?}");
    assert!(ran.duration_ms >= 300, "{command}: {ran:?}");
    ran
}

/// Pids that the command wrote into the file `pids`.
fn pids(session: &Session) -> Vec<i32> {
    let text = std::fs::read_to_string(session.dir.join("kept/pids")).unwrap_or_default();
    let pids: Vec<i32> = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    assert!(!pids.is_empty(), "the command wrote its pids");
    pids
}

fn a_sleep_is_ended_and_the_state_is_untouched(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let pid = session.pid();
    let ran = times_out(&mut session, "echo before; echo err >&2; sleep 30; echo after");
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("before\n", "err\n"));
    ran.exits(130).quietly();
    session.keeps_state();
    session.survives();
    assert_eq!((session.pid(), &session.info()["restarts"]), (pid, &json!(0)));
    assert!(process::descendants(pid).is_empty(), "the sleep is gone");
}

fn nothing_of_the_rest_runs(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let pid = session.pid();
    for command in [
        "sleep 30; touch hit",
        "sleep 30\ntouch hit",
        "sleep 30 || touch hit",
        "sleep 30 | cat; touch hit",
        "(sleep 30; touch hit); touch hit",
        "f() { sleep 30; touch hit; }; f; touch hit",
        "for i in 1 2 3; do sleep 30; touch hit; done",
        "while sleep 30 || touch hit; do :; done; touch hit",
        "until sleep 30; do touch hit; done",
        "if sleep 30; then :; else touch hit; fi",
        "x=$(sleep 30; touch hit); touch hit",
        "{ sleep 30; touch hit; }; touch hit",
        "eval 'sleep 30; touch hit'; touch hit",
        "sh -c 'sleep 30; touch hit'; touch hit",
        "case $(sleep 30) in *) touch hit;; esac",
        "! sleep 30; touch hit",
        "sleep 30 && :; touch hit",
        "echo 'sleep 30; touch hit' >script; . ./script; touch hit",
    ] {
        times_out(&mut session, command);
        session.keeps_state();
        assert!(!process::exists(daemon.work().join("kept/hit")), "{command}: the rest ran");
    }
    assert_eq!(session.pid(), pid);
    assert!(process::descendants(pid).is_empty());
}

fn nothing_of_the_rest_runs_after_a_stubborn_child(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for command in [
        "sh -c 'trap \"\" INT; sleep 30; :'; touch hit",
        "sh -c 'trap \"\" INT TERM; sleep 30; :'; touch hit",
        "for i in 1 2 3; do sh -c 'trap \"\" INT TERM; sleep 30; :'; touch hit; done",
        "sh -c 'trap \"exit 0\" INT; sleep 30 & wait'; touch hit",
        "f() { sh -c 'trap \"\" INT; sleep 30; :' || touch hit; touch hit; }; f; touch hit",
    ] {
        times_out(&mut session, command);
        session.has_state_back();
        assert!(!process::exists(daemon.work().join("kept/hit")), "{command}: the rest ran");
    }
}

fn a_loop_of_the_shell_itself_is_interrupted(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let pid = session.pid();
    for command in [
        "while :; do :; done",
        "while true; do x=1; done; touch hit",
        "until false; do :; done",
        "f() { while :; do :; done; }; f",
        "while :; do echo x; done >/dev/null",
        "while :; do (:); done",
        "while :; do /bin/true; done",
        "while :; do sleep 0.01; done",
        "i=0; while :; do i=$((i+1)); done",
    ] {
        let ran = times_out(&mut session, command).quietly();
        // zsh has a status of its own for an interrupted loop.
        assert!(ran.exit_code == Some(130) || shell == Shell::Zsh, "{command}: {ran:?}");
        session.keeps_state();
    }
    assert_eq!((session.pid(), &session.info()["restarts"]), (pid, &json!(0)));
}

fn a_shell_that_will_not_listen_is_replaced(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for command in [
        "trap '' INT TERM; while :; do :; done",
        "trap 'x=1' INT; while :; do :; done",
        "trap '' INT TERM HUP QUIT; while :; do sleep 30; done",
    ] {
        times_out(&mut session, command);
        session.run("true").exits(0);
        session.has_state_back();
        session.ok("trap - INT TERM HUP QUIT");
        session.survives();
    }
}

fn stubborn_programs_are_killed(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let shell_pid = session.pid();
    for command in [
        "sh -c 'trap \"\" INT; echo $$ >pids; sleep 30 & echo $! >>pids; wait; wait'",
        "sh -c 'trap \"\" INT TERM; echo $$ >pids; while :; do sleep 30; done'",
        "perl -e '$SIG{INT}=$SIG{TERM}=$SIG{HUP}=$SIG{QUIT}=\"IGNORE\"; open F,\">pids\"; print F $$; close F; sleep 1 while 1'",
    ] {
        let ran = times_out(&mut session, command);
        assert!([Some(130), Some(137), Some(143)].contains(&ran.exit_code), "{command}: {ran:?}");
        for pid in pids(&session) {
            process::assert_ends(command, pid);
        }
        session.keeps_state();
    }
    assert_eq!(session.pid(), shell_pid);
}

fn grandchildren_die_too(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for command in [
        "bash -c 'trap \"\" TERM; (echo $BASHPID >pids; sleep 30); sleep 30'",
        "bash -c 'echo $$ >pids; bash -c \"echo \\$\\$ >>pids; bash -c \\\"echo \\\\\\$\\\\\\$ >>pids; sleep 30; :\\\"; :\"; :'",
        "sh -c 'echo $$ >pids; sleep 30 & echo $! >>pids; sleep 30 & echo $! >>pids; wait'",
        "sh -c 'echo $$ >pids; setsid sleep 30 & echo $! >>pids; wait'",
        "setsid -w sh -c 'echo $$ >pids; sleep 30; :'",
        "sh -c 'echo $$; sleep 30' | { read p; echo $p >pids; cat; }",
    ] {
        times_out(&mut session, command);
        for pid in pids(&session) {
            process::assert_ends(command, pid);
        }
        session.keeps_state();
    }
    let shell_pid = session.pid();
    assert!(process::descendants(shell_pid).is_empty(), "{:?}", process::descendants(shell_pid));
}

fn background_jobs_outlive_a_deadline_but_not_the_session(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let disowned = if shell == Shell::Sh { "" } else { "sleep 1000 & echo $! >>pids; disown;" };
    let command = format!(
        ": >pids; sleep 1000 & echo $! >>pids; setsid sh -c 'echo $$ >>pids; exec sleep 1000' & \
         nohup sleep 1000 >/dev/null 2>&1 & echo $! >>pids; {disowned} sleep 0.1; sleep 30"
    );
    times_out(&mut session, &command).exits(130);
    session.keeps_state();
    let jobs = pids(&session);
    assert!(jobs.len() >= 3);
    for &pid in &jobs {
        assert!(process::alive(pid), "a job {pid} of {jobs:?} died with another command");
    }
    session.destroy();
    for pid in jobs {
        assert!(!process::alive(pid), "a job outlived its session");
    }
}

fn a_wait_for_jobs_is_interrupted(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    times_out(&mut session, "sleep 1000 & echo $! >pids; wait; touch hit");
    session.keeps_state();
    assert!(pids(&session).into_iter().all(process::alive), "the job goes on");
    // zsh cannot be interrupted in `wait`: its new shell has no jobs to wait for.
    if shell != Shell::Zsh {
        times_out(&mut session, "wait; touch hit");
    }
    session.run("kill $(cat pids)").exits(0);
    session.keeps_state();
    assert!(!process::exists(daemon.work().join("kept/hit")));
}

fn a_stopped_program_does_not_hang(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let ran = session.run_with(json!({"command": "sh -c 'kill -STOP $$'; echo $?", "timeout_s": 2}));
    let told = ran.stdout.starts_with("14") || ran.exit_code.is_some_and(|code| code / 10 == 14);
    assert!(ran.timed_out || told, "{ran:?}");
    session.keeps_state();
    session.survives();
}

fn an_ordinary_end_by_a_signal_is_no_timeout(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for (command, code) in [
        ("sh -c 'kill -9 $$'", 137),
        ("sh -c 'kill -INT $$'", 130),
        ("sh -c 'kill $$'", 143),
        ("sh -c 'exit 124'", 124),
        ("sh -c 'exit 255'", 255),
    ] {
        let ran = session.run_with(json!({"command": command, "timeout_s": 20})).exits(code).quietly();
        assert!(!ran.timed_out && !ran.cancelled, "{command}: {ran:?}");
    }
    session.survives();
}

fn deadlines_in_a_row_leave_a_working_session(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for number in 0..15 {
        let command = if number % 2 == 0 { "sleep 30" } else { "while :; do :; done" };
        let ran = session.run_with(json!({"command": command, "timeout_s": 0.02}));
        assert!(ran.timed_out, "{ran:?}");
        session.run("echo hi").exits(0).prints("hi\n", "").quietly();
    }
    session.keeps_state();
}

fn a_deadline_near_the_end_is_one_or_the_other(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for number in 0..30 {
        let timeout = 0.045 + f64::from(number) * 0.0005;
        let ran = session.run_with(json!({"command": "sleep 0.05", "timeout_s": timeout}));
        // At the very edge it may have ended by itself, and the shell saw that.
        assert!(ran.timed_out || ran.exit_code == Some(0), "{ran:?}");
        session.run("echo hi").exits(0).prints("hi\n", "").quietly();
    }
    session.keeps_state();
}

/// Whatever the shell itself makes of it.
fn the_status_is_that_of_the_signal(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for text in ["while :; do :; done", "while true; do x=1; done", "f() { while :; do true; done; }; f"] {
        times_out(&mut session, text).exits(130);
    }
    let stubborn = "sh -c 'trap \"\" INT TERM; sleep 30; :'";
    times_out(&mut session, &format!("{stubborn} | {stubborn}")).exits(137);
    let deaf = "sh -c 'trap \"\" INT; sleep 30; :'";
    for text in [deaf.to_owned(), format!("{deaf} | {deaf}")] {
        let ran = times_out(&mut session, &text).exits(143);
        assert_eq!(ran.signal.as_deref(), Some("SIGTERM"), "{ran:?}");
    }
}

/// Says that it is up, and ends in its own way when it gets the signal.
fn catcher(daemon: &trl_testkit::Daemon, signal: &str, end: &str) -> String {
    let name: String = end.chars().filter(char::is_ascii_alphanumeric).collect();
    let path = daemon.work().join(format!("{signal}-{name}.pl"));
    let text = format!(
        "$SIG{{INT}} = 'IGNORE'; $SIG{{{signal}}} = sub {{ {end} }}; $| = 1; print \"up\\n\"; sleep 1 while 1;\n"
    );
    assert!(std::fs::write(&path, text).is_ok());
    format!("perl {}", path.display())
}

fn a_program_that_catches_the_signal_has_a_status_of_its_own(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for (signal, end, code, named) in [
        ("INT", "exit 9", 9, None),
        ("INT", "exit 0", 0, None),
        // A number of its own choice, and no signal.
        ("INT", "exit 130", 130, None),
        ("INT", "kill 'USR1', $$; sleep 9", 138, Some("SIGUSR1")),
        ("TERM", "exit 7", 7, None),
    ] {
        let program = catcher(&daemon, signal, end);
        for (form, background) in [
            ("PROGRAM; touch hit", false),
            ("PROGRAM | PROGRAM; touch hit", false),
            ("PROGRAM", true),
            ("PROGRAM; touch hit", true),
        ] {
            let command = form.replace("PROGRAM", &program);
            let (request, _) = session.stream_until(
                json!({"command": command, "timeout_s": 1, "background": background, "merge_stderr": true}),
                "up\n",
            );
            let ended = session.connection.finish(request).data();
            assert_eq!(ended["timed_out"], true, "{command} {ended}");
            let (told, by) = (ended["exit_code"].as_i64(), ended["signal"].as_str());
            // bash and zsh in the background tell what they make of it themselves.
            if !background || shell == Shell::Sh || form == "PROGRAM" {
                assert_eq!((told, by), (Some(code), named), "{end}: {command} {background} {ended}");
            }
            let has_run = process::exists(daemon.work().join("kept/hit"));
            assert!(background || !has_run, "{command}: the rest ran");
            session.run("rm -f hit").exits(0);
        }
        session.keeps_state();
    }
}

in_each_shell!(
    a_program_that_catches_the_signal_has_a_status_of_its_own,
    the_status_is_that_of_the_signal,
    a_sleep_is_ended_and_the_state_is_untouched,
    nothing_of_the_rest_runs,
    nothing_of_the_rest_runs_after_a_stubborn_child,
    a_loop_of_the_shell_itself_is_interrupted,
    a_shell_that_will_not_listen_is_replaced,
    stubborn_programs_are_killed,
    grandchildren_die_too,
    background_jobs_outlive_a_deadline_but_not_the_session,
    a_wait_for_jobs_is_interrupted,
    a_stopped_program_does_not_hang,
    an_ordinary_end_by_a_signal_is_no_timeout,
    deadlines_in_a_row_leave_a_working_session,
    a_deadline_near_the_end_is_one_or_the_other,
);

#[test]
fn deadlines_that_make_no_sense_are_refused() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    for timeout in [json!(-1), json!(-0.5), json!("1"), json!(1e300), json!([1])] {
        session.refused(json!({"command": "touch hit", "timeout_s": timeout}), "INVALID_PARAMS");
        session.refused(json!({"command": "touch hit", "wait_s": timeout}), "INVALID_PARAMS");
    }
    session.run_with(json!({"command": "sleep 0.1; echo x", "timeout_s": 0})).exits(0).prints("x\n", "");
    session.run_with(json!({"command": "echo x", "timeout_s": 1e6})).exits(0).prints("x\n", "");
    assert!(!process::exists(daemon.work().join("hit")));
}

#[test]
fn a_session_and_a_daemon_have_their_own_defaults() {
    let daemon = daemon!();
    let mut session = daemon.session_with(Shell::Bash, json!({"timeout_s": 0.3}));
    assert_eq!(session.info()["timeout_s"], 0.3);
    assert!(session.run("sleep 30").timed_out);
    assert!(!session.run_with(json!({"command": "sleep 0.5", "timeout_s": 0})).timed_out);
    let daemon =
        trl_testkit::Daemon::builder(trl_testkit::trl!()).env("TRL_DEFAULT_TIMEOUT_S", "0.3").start();
    let mut session = daemon.session(Shell::Bash);
    assert_eq!(session.info()["timeout_s"], 0.3);
    assert!(session.run("sleep 30").timed_out);
}

#[test]
fn check_turns_results_into_errors_with_the_result_inside() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let params = session.params(json!({"command": "echo out; echo err >&2; (exit 7)", "check": true}));
    let error = session.connection.call(m::ExecRun::NAME, params).err().unwrap_or_default();
    assert_eq!(error["code"], "COMMAND_FAILED");
    let result = Ran::read(error["details"].clone()).exits(7);
    result.prints("out\n", "err\n");
    let params = session.params(json!({"command": "echo out; sleep 30", "check": true, "timeout_s": 0.3}));
    let error = session.connection.call(m::ExecRun::NAME, params).err().unwrap_or_default();
    assert_eq!(error["code"], "COMMAND_TIMEOUT");
    assert!(Ran::read(error["details"].clone()).prints("out\n", "").timed_out);
    session.run_with(json!({"command": "true", "check": true})).exits(0);
    let params = session.params(json!({"command": "echo out; false", "check": true}));
    let answer = session.connection.stream(m::ExecStream::NAME, params);
    assert_eq!(answer.failed("COMMAND_FAILED")["details"]["exit_code"], 1);
    assert_eq!(answer.output("stdout"), b"out\n");
}
