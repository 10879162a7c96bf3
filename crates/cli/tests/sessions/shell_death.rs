//! A shell that ends is told of at once, replaced with its state, and no command runs twice.

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Session, Shell, daemon, in_each_shell, process};

/// The first command after a death is told of the new shell; the one after it is not.
#[track_caller]
fn recovers(session: &mut Session) {
    session.run("true").exits(0).prints("", "").tells_of_the_shell();
    session.has_state_back();
    session.survives();
}

fn every_way_to_end_the_shell_is_told_and_mended(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let mut pid = session.pid();
    let ways = [
        ("exit 3", 3, None),
        ("exit", 0, None),
        ("exit 0", 0, None),
        ("exit 255", 255, None),
        ("false; exit", 1, None),
        ("exec true", 0, None),
        ("exec sh -c 'exit 4'", 4, None),
        ("f() { exit 5; }; f", 5, None),
        ("{ exit 6; }", 6, None),
        ("eval 'exit 8'", 8, None),
        ("kill -9 $$", 137, Some("SIGKILL")),
        ("kill -11 $$; sleep 1", 139, Some("SIGSEGV")),
        ("kill -6 $$; sleep 1", 134, Some("SIGABRT")),
        ("kill -9 -$$", 137, Some("SIGKILL")),
        ("sh -c \"kill -9 $$\"; sleep 1", 137, Some("SIGKILL")),
    ];
    for (restarts, (way, code, signal)) in ways.into_iter().enumerate() {
        let ran = session.run(way);
        assert_eq!((ran.exit_code, ran.signal.as_deref()), (Some(code), signal), "{way}: {ran:?}");
        assert!(!ran.timed_out && !ran.cancelled, "{way}: {ran:?}");
        ran.tells_of_the_shell();
        recovers(&mut session);
        let new = session.pid();
        assert!(new != pid && !process::alive(pid), "{way}: a new shell, and the old one gone");
        assert_eq!(session.info()["restarts"], restarts + 1, "{way}");
        pid = new;
    }
}

fn a_subshell_that_ends_is_no_death(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let pid = session.pid();
    for (command, code) in [
        ("(exit 3)", 3),
        ("sh -c 'exit 3'", 3),
        ("bash -c 'exit 3'", 3),
        ("sh -c 'kill -9 $$'", 137),
        ("(exec sh -c 'exit 6')", 6),
        ("echo x | (exit 4)", 4),
        ("x=$(exit 9)", 9),
    ] {
        let ran = session.run(command);
        assert_eq!(ran.exit_code, Some(code), "{command}: {ran:?}");
        assert!(!ran.timed_out && !ran.cancelled, "{command}: {ran:?}");
        session.survives();
    }
    assert_eq!(session.pid(), pid);
}

fn output_before_the_end_is_kept(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("echo out; echo err >&2; exit 3").exits(3).prints("out\n", "err\n");
    session.run("printf partial; kill -9 $$").exits(137).prints("partial", "");
    session.run("echo a; exec echo b").exits(0).prints("a\nb\n", "");
    session.run("head -c 300000 /dev/zero | tr '\\0' x; exit 2").exits(2);
    let ran = session.run("trap 'echo bye' EXIT; echo before; exit 4").exits(4);
    // dash leaves the command's redirections before it runs its EXIT trap.
    let bye = if shell == Shell::Sh { "" } else { "bye\n" };
    assert_eq!(ran.stdout, format!("before\n{bye}"), "{ran:?}");
}

fn nothing_runs_twice(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for way in ["exit 3", "kill -9 $$", "exec true", "set -e; false"] {
        session.run(&format!("echo '{way}' >>log; {way}; echo never >>log"));
        session.run("true");
    }
    let log = std::fs::read_to_string(daemon.work().join("log")).unwrap_or_default();
    assert_eq!(log, "exit 3\nkill -9 $$\nexec true\nset -e; false\n");
}

fn errexit_ends_the_shell_again_and_again(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    session.run("set -e").exits(0).quietly();
    session.run("true").exits(0).quietly();
    for _ in 0..2 {
        session.run("false; touch hit").exits(1).prints("", "").tells_of_the_shell();
        session.run("case $- in *e*) echo on;; esac").exits(0).prints("on\n", "").tells_of_the_shell();
        session.has_state_back();
    }
    session.run("if false; then :; fi; false || echo fine").exits(0).prints("fine\n", "").quietly();
    session.run("sh -c 'exit 9'").exits(9).tells_of_the_shell();
    session.ok("set +e");
    session.run("false").exits(1).quietly();
    assert!(!process::exists(daemon.work().join("kept/hit")));
}

fn a_stopped_shell_is_replaced_at_the_deadline(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let pid = session.pid();
    let ran = session.run_with(json!({"command": "kill -STOP $$; touch hit", "timeout_s": 0.5}));
    assert!(ran.timed_out, "{ran:?}");
    ran.tells_of_the_shell();
    recovers(&mut session);
    assert!(!process::alive(pid), "the stopped shell is gone");
    assert!(!process::exists(daemon.work().join("kept/hit")));
}

fn a_signal_to_the_whole_group_is_survived_or_told(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for signal in ["TERM", "INT", "HUP", "QUIT"] {
        let ran = session.run(&format!("kill -{signal} -$$"));
        assert!(!ran.timed_out && ran.exit_code.is_some(), "{signal}: {ran:?}");
        session.run("true").exits(0).prints("", "");
        session.has_state_back();
        session.survives();
    }
}

fn a_shell_out_of_memory_is_replaced(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let ran = session.run("ulimit -v 40000; x=$(head -c 100000000 /dev/zero | tr '\\0' x); exit 99");
    assert!(!ran.timed_out, "{ran:?}");
    session.run("true").exits(0).tells_of_the_shell();
    session.has_state_back();
}

fn what_the_last_command_changed_before_it_died_is_not_invented(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("x=old; y=kept");
    session.run("x=new; z=new; cd /; kill -9 $$").exits(137);
    session
        .run("echo \"$x $y ${z-unset}\"; pwd")
        .exits(0)
        .prints(&format!("old kept unset\n{}\n", daemon.work().display()), "");
}

fn tricky_values_come_back_exactly(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let values = [
        ("quotes", "it's \"quoted\" `here` $(touch hit) ${x}"),
        ("lines", "one\ntwo\n\nfour\n"),
        ("spaces", "  a  b\tc  "),
        ("odd", "\u{1}\u{1b}[0m\u{7f}\\ \\n *?[a] ~ ! # ; & | < > ( ) { }"),
        ("wide", "日本語 \u{1f600} é"),
        ("empty", ""),
        ("dash", "-n"),
        ("equals", "a=b=c"),
    ];
    for (name, value) in values {
        std::fs::write(daemon.work().join("given"), value).unwrap_or_default();
        session
            .ok(&format!("{name}=$(cat given; echo x); {name}=${{{name}%x}}; export EX_{name}=\"${name}\""));
    }
    session.run("kill -9 $$").exits(137);
    session.run(":").exits(0).tells_of_the_shell();
    for (name, value) in values {
        session.run(&format!("printf %s \"${name}\"")).exits(0).prints(value, "");
        session.run(&format!("sh -c 'printf %s \"$EX_{name}\"'")).exits(0).prints(value, "");
        session.run(&format!("sh -c 'echo \"${{{name}-unset}}\"'")).exits(0).prints("unset\n", "");
    }
    assert!(!process::exists(daemon.work().join("hit")), "a value was run");
}

fn options_mask_and_aliases_come_back(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("set -o noglob; set -u; umask 037; alias say='echo \"it'\\''s\"'; alias two='echo 1; echo 2'");
    session.run("kill -9 $$").exits(137);
    session.run("echo *; case $- in *u*) echo u;; esac").exits(0).prints("*\nu\n", "");
    session.run("umask | sed 's/^0*//'; say so; two").exits(0).prints("37\nit's so\n1\n2\n", "");
}

fn a_readonly_variable_does_not_haunt_the_next_shell(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("readonly fixed=1; readonly PWD_COPY=$PWD; kept=yes");
    assert_ne!(session.run("fixed=2; :").exit_code, None);
    session.run("kill -9 $$").exits(137);
    session.run("fixed=2; echo \"$fixed $kept\"").exits(0).prints("2 yes\n", "").tells_of_the_shell();
    session.survives();
}

fn a_directory_that_is_gone_does_not_stop_the_new_shell(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("x=kept; mkdir gone && cd gone && rmdir ../gone");
    session.run("kill -9 $$").exits(137);
    session.run("echo $x").exits(0).prints("kept\n", "").tells_of_the_shell();
    session.survives();
}

fn commands_behind_a_death_run_in_the_new_shell(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let commands = ["sleep 0.2; kill -9 $$", "echo \"$plain\"", "exit 3", "echo $EXPORTED"];
    let requests = commands.map(|command| {
        let params = session.params(json!({"command": command, "wait_s": 20}));
        session.connection.begin(m::ExecRun::NAME, params)
    });
    let answers = requests.map(|request| session.connection.finish(request).data());
    assert_eq!(
        answers.each_ref().map(|answer| answer["exit_code"].clone()),
        [137, 0, 3, 0].map(|code| json!(code))
    );
    assert_eq!((&answers[1]["stdout"], &answers[3]["stdout"]), (&json!("a  b\n"), &json!("out\n")));
}

fn a_streamed_death_has_its_status_too(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let answer = session.stream(json!({"command": "echo before; exit 3"}));
    assert_eq!(answer.output("stdout"), b"before\n");
    let data = answer.data();
    assert_eq!(data["exit_code"], 3, "{data}");
    assert!(data["notes"].to_string().contains("shell"), "{data}");
    session.run("true").exits(0).tells_of_the_shell();
    session.survives();
}

fn a_restart_on_request_keeps_state(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let pid = session.pid();
    let params = session.params(json!({}));
    let restarted = session.connection.ok(m::SessionRestart::NAME, params);
    assert_eq!(restarted["session_id"], session.id.as_str());
    assert_eq!(restarted["restarts"], 1);
    assert_ne!(restarted["pid"], pid);
    assert!(!process::alive(pid));
    session.has_state_back();
    session.survives();
}

in_each_shell!(
    every_way_to_end_the_shell_is_told_and_mended,
    a_subshell_that_ends_is_no_death,
    output_before_the_end_is_kept,
    nothing_runs_twice,
    errexit_ends_the_shell_again_and_again,
    a_stopped_shell_is_replaced_at_the_deadline,
    a_signal_to_the_whole_group_is_survived_or_told,
    a_shell_out_of_memory_is_replaced,
    what_the_last_command_changed_before_it_died_is_not_invented,
    tricky_values_come_back_exactly,
    options_mask_and_aliases_come_back,
    a_readonly_variable_does_not_haunt_the_next_shell,
    a_directory_that_is_gone_does_not_stop_the_new_shell,
    commands_behind_a_death_run_in_the_new_shell,
    a_streamed_death_has_its_status_too,
    a_restart_on_request_keeps_state,
);
