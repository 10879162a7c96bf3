//! What runs beside the shell, and what becomes of whole trees of processes.

use std::time::Duration;
use trl_protocol::{Method as _, methods as m};

use serde_json::json;
use trl_testkit::{GUARD, Session, Shell, daemon, in_each_shell, process, wait_until};

/// Waits until a command has printed so many bytes of stdout.
#[track_caller]
fn printed(session: &mut Session, exec_id: &str, bytes: u64) {
    wait_until("late output arrives", GUARD, || {
        session.exec_info(exec_id)["stdout_bytes"].as_u64() >= Some(bytes)
    });
}

fn a_job_in_the_background_does_not_hold_the_reply(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("sleep 1000 & echo started").exits(0).without_job_notices().prints("started\n", "").quietly();
    session
        .run("(sleep 1000; echo never) & echo started")
        .exits(0)
        .without_job_notices()
        .prints("started\n", "")
        .quietly();
    session
        .run("sleep 1000 | sleep 1000 & echo started")
        .exits(0)
        .without_job_notices()
        .prints("started\n", "")
        .quietly();
    session.run("setsid sleep 1000 & nohup sleep 1000 & echo started").exits(0);
    session.survives();
}

fn late_output_goes_to_its_own_command(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let first =
        session.run("(sleep 0.4; echo late; echo late-err >&2) & echo now").exits(0).prints("now\n", "");
    session.run("echo second").exits(0).without_job_notices().prints("second\n", "");
    session.run("sleep 0.8; echo third").exits(0).without_job_notices().prints("third\n", "");
    printed(&mut session, &first.exec_id, 9);
    assert_eq!(session.output_of(&first.exec_id, "stdout"), b"now\nlate\n");
    assert_eq!(session.output_of(&first.exec_id, "stderr"), b"late-err\n");
    let info = session.exec_info(&first.exec_id);
    assert_eq!((&info["exit_code"], &info["stdout_bytes"]), (&json!(0), &json!(9)), "{info}");
}

fn waiting_for_jobs_gives_all_their_output(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let ran = session.run("(sleep 0.2; echo a) & (sleep 0.1; echo b) & wait; echo end").exits(0);
    assert_eq!(ran.stdout, "b\na\nend\n");
    session.run("(exit 5) & wait $!").exits(5).without_job_notices().prints("", "");
}

fn jobs_can_be_used_across_commands(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("sleep 1000 &").exits(0).prints("", "");
    let jobs = session.ok("jobs");
    assert!(jobs.contains("sleep 1000") && jobs.lines().count() == 1, "{jobs:?}");
    // In zsh the list that every command is has the first number.
    let job = if shell == Shell::Zsh { "%2" } else { "%1" };
    session.run(&format!("kill -9 {job}; wait $! 2>/dev/null; test $? -eq 137")).exits(0);
    session.ok("jobs >/dev/null 2>&1");
    session.run("jobs").exits(0).prints("", "");
}

fn the_status_of_a_job_is_there_to_be_asked_for(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for more in ["", "; return 0"] {
        let lines = format!("(exit 8) & p=$!\nsleep .1\ntrue\nwait $p; echo $?{more}");
        session.run(&lines).exits(0).prints("8\n", "");
    }
    session.ok("sh -c 'while [ ! -e go ]; do sleep .02; done; exit 9' & p=$!; echo $p >job");
    // A background command waits until the shell has told its state; a job that ends before that may be forgotten.
    session.run_with(json!({"command": "true", "background": true})).exits(0);
    std::fs::write(daemon.work().join("go"), "").unwrap_or_default();
    let job = std::fs::read_to_string(daemon.work().join("job")).unwrap_or_default();
    let job = job.trim().parse().unwrap_or_default();
    wait_until("the job has ended", GUARD, || !process::alive(job));
    session.run("wait $p; echo $?").exits(0).prints("9\n", "");
}

fn an_end_of_a_job_says_nothing_but_that(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let ran = session.run("sleep 0.1 & (exit 3) & sh -c 'kill -9 $$' &").exits(0);
    ran.without_job_notices().prints("", "");
    session.run("sleep 0.3").exits(0).without_job_notices().prints("", "");
    session.run("true").exits(0).without_job_notices().prints("", "");
}

fn a_started_command_runs_beside_the_shell(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let params = session
        .params(json!({"command": "pwd; echo $EXPORTED; cd /; plain=changed; umask 0; read x; echo $x"}));
    let started = session.connection.ok(m::ExecStart::NAME, params);
    assert_eq!(
        (&started["session_id"], &started["state"]),
        (&json!(session.id), &json!("running")),
        "{started}"
    );
    let exec_id = started["exec_id"].as_str().unwrap_or_default().to_owned();
    session.keeps_state();
    assert_eq!(session.info()["state"], "idle", "a background command keeps nobody waiting");
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "fed\n", "eof": true}));
    let answer = session.attach(&exec_id);
    let expected = format!("{}\nout\nfed\n", daemon.work().join("kept").display());
    assert_eq!(String::from_utf8_lossy(&answer.output("stdout")), expected);
    assert_eq!(answer.data()["exit_code"], 0);
    session.keeps_state();
}

fn a_background_run_answers_when_it_is_over(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let (held, exec_id) =
        session.stream_until(json!({"command": "echo up; cat", "stdin_open": true}), "up\n");
    session
        .run_with(json!({"command": "echo beside; (exit 4)", "background": true}))
        .exits(4)
        .prints("beside\n", "");
    session.connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "eof": true}));
    session.connection.finish(held).data();
}

fn a_short_command_is_told_whole(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for number in 0..20 {
        let exec_id = session.start(json!({"command": format!("echo {number}; echo e >&2; exit {number}")}));
        let answer = session.attach(&exec_id);
        assert_eq!(answer.output("stdout"), format!("{number}\n").as_bytes());
        assert_eq!(answer.output("stderr"), b"e\n");
        let info = session.exec_info(&exec_id);
        assert_eq!((&info["state"], &info["exit_code"]), (&json!("finished"), &json!(number)), "{info}");
        assert_eq!((&info["background"], &info["stdout_truncated"]), (&json!(true), &json!(false)), "{info}");
    }
}

fn a_failed_start_is_finished_not_running(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = session.start(json!({"command": "no-such-program-here"}));
    assert_eq!(session.attach(&exec_id).data()["exit_code"], 127);
    assert_eq!(session.exec_info(&exec_id)["state"], "finished");
    let exec_id = session.start(json!({"command": "/dev/null"}));
    assert_eq!(session.attach(&exec_id).data()["exit_code"], 126);
    let params = session.params(json!({"command": "true", "working_dir": "/no/such/place"}));
    session.connection.fails(m::ExecStart::NAME, params, "INVALID_PARAMS");
    let exec_id = session.start(json!({"command": "exec sh -c 'kill -9 $$'"}));
    let data = session.attach(&exec_id).data();
    assert_eq!((&data["exit_code"], &data["signal"]), (&json!(137), &json!("SIGKILL")), "{data}");
    session.survives();
}

fn a_deadline_ends_a_background_command(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = session.start(json!({"command": "echo up; sleep 30; echo never", "timeout_s": 0.3}));
    let answer = session.attach(&exec_id);
    assert_eq!(answer.output("stdout"), b"up\n");
    let data = answer.data();
    assert_eq!(data["timed_out"], true, "{data}");
    assert_ne!(data["exit_code"], 0, "{data}");
    session.survives();
}

fn a_tree_of_processes_is_ended_whole(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let deep = "bash -c 'bash -c \"bash -c \\\"echo up; sleep 1000; :\\\"; :\"; :'";
    let pid = session.pid();
    let (request, exec_id) = session.stream_until(json!({"command": deep, "timeout_s": 0}), "up\n");
    wait_until("the tree is complete", GUARD, || process::descendants(pid).len() >= 4);
    let tree = process::descendants(pid);
    session.connection.ok(m::ExecCancel::NAME, json!({"exec_id": exec_id}));
    session.connection.finish(request).data();
    for pid in tree {
        process::assert_ends("a process of a cancelled tree", pid);
    }
    session.survives();
}

/// Four levels of shells, and the one at the bottom that sleeps.
const DEEP: &str = "bash -c 'bash -c \"bash -c \\\"echo up; sleep 1000; :\\\"; :\"; :'";

fn trees_beside_the_shell_are_ended_whole_and_all_at_once(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let up = json!({"log": {"pattern": "up"}});
    let mut trees = Vec::new();
    for _ in 0..3 {
        let started = session.params(json!({"command": DEEP, "timeout_s": 0}));
        let started = session.connection.ok(m::ExecStart::NAME, started);
        let exec_id = started["exec_id"].as_str().unwrap_or_default().to_owned();
        session.connection.ok(m::ExecWait::NAME, json!({"exec_id": exec_id, "until": up}));
        let root = started["pid"].as_i64().unwrap_or_default() as i32;
        wait_until("the tree is complete", GUARD, || process::descendants(root).len() >= 3);
        let mut tree = process::descendants(root);
        tree.push(root);
        trees.push((exec_id, tree));
    }
    let waiting: Vec<u64> = trees
        .iter()
        .map(|(exec_id, _)| session.connection.begin(m::ExecCancel::NAME, json!({"exec_id": exec_id})))
        .collect();
    for request in waiting {
        session.connection.finish(request).data();
    }
    for (exec_id, tree) in trees {
        let waited = session.connection.ok(m::ExecWait::NAME, json!({"exec_id": exec_id}));
        assert_eq!((&waited["state"], &waited["cancelled"]), (&json!("finished"), &json!(true)), "{waited}");
        for pid in tree {
            process::assert_ends("a process of a cancelled tree", pid);
        }
    }
    session.survives();
}

fn what_runs_beside_the_shell_outlives_the_daemon(shell: Shell) {
    let mut daemon = daemon!();
    let mut session = daemon.session(shell);
    let exec_id = session
        .start(json!({"command": "echo before; read x; echo $x; exit 6", "stdin": "", "timeout_s": 0}));
    session
        .connection
        .ok(m::ExecWait::NAME, json!({"exec_id": exec_id, "until": {"log": {"pattern": "before"}}}));
    daemon.restart();
    let mut connection = daemon.connect();
    assert_eq!(connection.ok(m::ExecInfo::NAME, json!({"exec_id": exec_id}))["state"], "running");
    connection.ok(m::ExecWrite::NAME, json!({"exec_id": exec_id, "data": "after\n"}));
    let waited = connection.ok(m::ExecWait::NAME, json!({"exec_id": exec_id}));
    assert_eq!((&waited["exit_code"], &waited["stdout_bytes"]), (&json!(6), &json!(13)), "{waited}");
}

fn ending_a_session_leaves_no_process_of_it(shell: Shell) {
    let daemon = daemon!();
    let mut other = daemon.session(shell);
    other.ok("sleep 1000 & echo $! >other");
    let mut session = daemon.session(shell);
    session.ok("sleep 1000 & nohup sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 &");
    session.ok("(setsid sh -c '(sleep 1000 &) ; (exec sleep 1000) & exit' &) ; (env -i setsid sleep 1000 &)");
    session.ok("sh -c 'trap \"\" TERM HUP INT; while :; do sleep 1; done' >/dev/null 2>&1 &");
    for _ in 0..3 {
        session.start(json!({"command": "bash -c 'bash -c \"sleep 1000; :\"; :'", "timeout_s": 0}));
    }
    let (host, pid) = (session.host_pid(), session.pid());
    wait_until("they all run", GUARD, || {
        process::descendants(host)
            .into_iter()
            .filter(|&pid| process::read(pid).is_some_and(|it| it.name == "sleep"))
            .count()
            >= 10
    });
    let mut everyone = process::descendants(host);
    everyone.push(host);
    assert!(everyone.contains(&pid));
    assert_eq!(session.destroy(), json!({"session_id": session.id, "state": "terminated"}));
    for pid in everyone {
        if pid == host {
            process::assert_ends("the host", pid);
        }
        assert!(!process::alive(pid), "{pid} outlived its session: {:?}", process::arguments(pid));
    }
    other.run("kill -0 $(cat other)").exits(0);
    other.survives();
}

fn zombies_do_not_pile_up(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for _ in 0..20 {
        session.ok("(true &) ; (setsid true &) ; true & sh -c 'sh -c true & exit'");
    }
    let host = session.host_pid();
    session.ok("wait");
    wait_until("every zombie is reaped", GUARD, || {
        session.ok(":");
        process::descendants(host).into_iter().filter_map(process::read).all(|it| it.state != 'Z')
    });
}

fn a_storm_of_processes_hurts_nobody_else(shell: Shell) {
    let daemon = daemon!();
    let mut other = daemon.session(shell);
    let mut session = daemon.session(shell);
    // Bounded by its depth: about 500 processes, then they sleep.
    session.ok("storm() { if [ $1 -gt 0 ]; then storm $(($1-1)) & storm $(($1-1)) & fi; sleep 1000; }");
    session.run("storm 7 >/dev/null 2>&1 & echo $!").exits(0);
    let host = session.host_pid();
    for _ in 0..5 {
        other.survives();
    }
    wait_until("the storm has grown", Duration::from_secs(60), || process::descendants(host).len() > 200);
    other.survives();
    session.survives();
    let storm = process::descendants(host);
    session.destroy();
    let left: Vec<i32> = storm.into_iter().filter(|&pid| process::alive(pid)).collect();
    assert!(left.is_empty(), "{} processes outlived their session", left.len());
    other.survives();
}

/// Asked for in the moment in which the command before was answered.
fn it_begins_with_what_the_command_before_has_left(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for n in 0..20 {
        session.ok(&format!("x=v{n}; export Y={n}; f() {{ echo f{n}; }}"));
        let beside = json!({"command": "echo $x; sh -c 'echo $Y'", "background": true});
        session.run_with(beside).exits(0).prints(&format!("v{n}\n{n}\n"), "");
    }
}

fn it_has_the_mask_and_the_constants_of_the_shell(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("umask 077; export fixed=1; readonly fixed; readonly inner='a b'");
    let probe = "umask; printenv fixed; echo \"$inner\"";
    let ran = session.run_with(json!({"command": probe, "background": true})).exits(0);
    assert_eq!(ran.stdout.trim_start_matches('0'), "77\n1\na b\n");
}

fn its_environment_is_for_nobody_else_to_read(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let command = "echo $GIVEN; sleep 1000; :";
    let exec_id = session.start(json!({"command": command, "env": {"GIVEN": "a-secret-value"}}));
    printed(&mut session, &exec_id, 15);
    assert_eq!(session.output_of(&exec_id, "stdout"), b"a-secret-value\n");
    for pid in daemon.processes() {
        let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments);
        assert!(!arguments.contains("a-secret-value"), "{pid}: {arguments}");
    }
}

fn a_text_longer_than_an_argument_may_be_runs(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let command = format!("x={}\necho ${{#x}}; (exit 3)", "y".repeat(300_000));
    session.run_with(json!({"command": command, "background": true})).exits(3).prints("300000\n", "");
}

in_each_shell!(
    it_begins_with_what_the_command_before_has_left,
    it_has_the_mask_and_the_constants_of_the_shell,
    its_environment_is_for_nobody_else_to_read,
    a_text_longer_than_an_argument_may_be_runs,
    a_job_in_the_background_does_not_hold_the_reply,
    late_output_goes_to_its_own_command,
    waiting_for_jobs_gives_all_their_output,
    jobs_can_be_used_across_commands,
    the_status_of_a_job_is_there_to_be_asked_for,
    an_end_of_a_job_says_nothing_but_that,
    a_started_command_runs_beside_the_shell,
    a_background_run_answers_when_it_is_over,
    a_short_command_is_told_whole,
    a_failed_start_is_finished_not_running,
    a_deadline_ends_a_background_command,
    a_tree_of_processes_is_ended_whole,
    trees_beside_the_shell_are_ended_whole_and_all_at_once,
    what_runs_beside_the_shell_outlives_the_daemon,
    ending_a_session_leaves_no_process_of_it,
    zombies_do_not_pile_up,
    a_storm_of_processes_hurts_nobody_else,
);

#[test]
fn jobs_outlive_their_shell_until_the_session_ends() {
    for (shell, way) in [
        (Shell::Bash, "exit 3"),
        (Shell::Bash, "kill -9 $$"),
        (Shell::Bash, "shopt -u huponexit; exit"),
        (Shell::Zsh, "setopt nohup; exit 3"),
        (Shell::Zsh, "kill -9 $$"),
        (Shell::Sh, "exit 3"),
        (Shell::Sh, "kill -9 $$"),
    ] {
        let daemon = daemon!();
        let mut session = daemon.session(shell);
        session.ok("nohup sleep 1000 >/dev/null 2>&1 & echo $! >job");
        session.run(way).tells_of_the_shell();
        let job = std::fs::read_to_string(daemon.work().join("job")).unwrap_or_default();
        let job = job.trim().parse().unwrap_or_default();
        session.run("true").exits(0);
        assert!(process::alive(job), "{shell:?} {way}: a job with nohup goes on");
        session.destroy();
        assert!(!process::alive(job), "{shell:?} {way}");
    }
}
