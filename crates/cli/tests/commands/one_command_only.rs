//! Environment and directory given with a command hold for that command and leave no trace.

use serde_json::json;
use trl_testkit::{Shell, daemon, in_each_shell, process};

/// Nothing in it may ever be run or expanded.
const TRICKY: &str = "$(touch hit) `touch hit` 'single' \"double\" \\ !x \t*\n日本 \u{1f600} end ";

fn a_variable_is_seen_and_then_gone(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let probe = "echo \"[$GIVEN]\"; sh -c 'echo \"[$GIVEN]\"'";
    session
        .run_with(json!({"command": probe, "env": {"GIVEN": "a b"}}))
        .exits(0)
        .prints("[a b]\n[a b]\n", "");
    session.run(probe).exits(0).prints("[]\n[]\n", "");
    session.run("echo ${GIVEN-unset}").prints("unset\n", "");
}

fn a_variable_that_was_there_comes_back_exactly(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session_with(shell, json!({"env": {"KEPT": TRICKY}}));
    session.ok("plain=$KEPT");
    let other = json!({"KEPT": "other", "plain": "other too"});
    session
        .run_with(json!({"command": "sh -c 'echo \"$KEPT/$plain\"'", "env": other}))
        .exits(0)
        .prints("other/other too\n", "");
    session.run("printf %s \"$KEPT\"").exits(0).prints(TRICKY, "");
    session.run("printf %s \"$plain\"").exits(0).prints(TRICKY, "");
    session.run("sh -c 'printf %s \"$KEPT\"'").exits(0).prints(TRICKY, "");
    session.run("sh -c 'echo \"[$plain]\"'").exits(0).prints("[]\n", "");
    assert!(!process::exists(daemon.work().join("hit")), "a value was run");
}

fn a_given_value_reaches_the_command_exactly(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session
        .run_with(json!({"command": "printf %s \"$A\"; sh -c 'printf %s \"$A\"'", "env": {"A": TRICKY, "EMPTY": ""}}))
        .exits(0)
        .prints(&TRICKY.repeat(2), "");
    assert!(!process::exists(daemon.work().join("hit")), "a value was run");
    session.run_with(json!({"command": "echo \"${E-unset}|\"", "env": {"E": ""}})).prints("|\n", "");
    let big = "v".repeat(100_000);
    session.run_with(json!({"command": "echo ${#A}", "env": {"A": big}})).prints("100000\n", "");
    session.run("echo ${A-unset}").prints("unset\n", "");
}

fn what_the_shell_itself_uses_can_be_given_too(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let path = session.ok("echo $PATH");
    session.run_with(json!({"command": "ls", "env": {"PATH": "/nonexistent"}})).exits(127);
    session.run("echo $PATH; ls /dev/null").exits(0).prints(&format!("{path}/dev/null\n"), "");
    session.run_with(json!({"command": "echo \"$HOME:$IFS:$LC_ALL\"", "env": {"HOME": "/h", "IFS": "x", "LC_ALL": "C"}}))
        .exits(0);
    session
        .run("v='a b'; for w in $(echo $v); do echo $w; done; cd; pwd")
        .exits(0)
        .prints(&format!("a\nb\n{}\n", daemon.user_home().display()), "");
}

fn a_variable_set_by_the_command_outlives_it_and_a_given_one_does_not(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("old=1");
    session.run_with(json!({"command": "new=2; given=3; old=4", "env": {"given": "0"}})).exits(0);
    session.run("echo \"$new/${given-unset}/$old\"").prints("2/unset/4\n", "");
}

fn given_variables_are_taken_back_however_the_command_ends(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("KEPT=before");
    for (command, timeout) in [
        ("false", 20.0),
        ("echo 'x", 20.0),
        ("return 3", 20.0),
        ("sleep 30", 0.2),
        ("while :; do :; done", 0.2),
    ] {
        session.run_with(
            json!({"command": command, "env": {"KEPT": "during", "NEW": "x"}, "timeout_s": timeout}),
        );
        session.run("echo \"$KEPT ${NEW-unset}\"").exits(0).prints("before unset\n", "");
    }
    session.run_with(json!({"command": "kill -9 $$", "env": {"KEPT": "during", "NEW": "x"}})).exits(137);
    session.run("echo \"$KEPT ${NEW-unset}\"").exits(0).prints("before unset\n", "");
}

fn names_that_no_shell_can_hold_are_refused_before_anything_runs(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for name in ["INVALID-NAME", "1X", "A B", "", "A=B", "X;touch hit", "é", "$(touch hit)"] {
        let message = session.refused(json!({"command": "touch hit", "env": {name: "v"}}), "INVALID_PARAMS");
        assert!(message.contains(name), "{name:?} is named: {message}");
    }
    session.refused(json!({"command": "touch hit", "env": {"A": "nul\u{0}byte"}}), "INVALID_PARAMS");
    session.refused(json!({"command": "touch hit", "env": {"A": 5}}), "INVALID_PARAMS");
    session.survives();
    assert!(!process::exists(daemon.work().join("hit")));
}

fn a_directory_is_used_and_then_left(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("mkdir -p 'over there' deep; cd deep");
    let there = daemon.work().join("over there");
    let ran = session.run_with(json!({"command": "pwd; sh -c pwd", "working_dir": there}));
    ran.exits(0).prints(&format!("{0}\n{0}\n", there.display()), "");
    let deep = daemon.work().join("deep").display().to_string();
    assert_eq!(session.run("pwd").exits(0).prints(&format!("{deep}\n"), "").working_dir, deep);
    session.run_with(json!({"command": "cd /; x=kept", "working_dir": there})).exits(0);
    session.run("pwd; echo $x").prints(&format!("{deep}\nkept\n"), "");
}

fn a_directory_is_left_however_the_command_ends(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let work = daemon.work().display().to_string();
    for (command, timeout) in
        [("false", 20.0), ("echo 'x", 20.0), ("sleep 30", 0.2), ("while :; do :; done", 0.2)]
    {
        session.run_with(json!({"command": command, "working_dir": "/", "timeout_s": timeout}));
        session.run("pwd").exits(0).prints(&format!("{work}\n"), "");
    }
    session.run_with(json!({"command": "exit 3", "working_dir": "/"})).exits(3);
    session.run("pwd").exits(0).prints(&format!("{work}\n"), "");
}

fn going_back_ignores_a_commands_own_directory(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("mkdir one two; cd one; cd ../two");
    session.run_with(json!({"command": "true", "working_dir": "/"})).exits(0);
    session.ok("cd - >/dev/null");
    session.run("pwd").prints(&format!("{}\n", daemon.work().join("one").display()), "");
}

fn a_directory_that_cannot_be_used_is_refused_before_anything_runs(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("touch file");
    for dir in [daemon.work().join("nope"), daemon.work().join("file"), "/dev/null".into()] {
        let message = session.refused(json!({"command": "touch hit", "working_dir": dir}), "INVALID_PARAMS");
        assert!(message.contains(&dir.display().to_string()), "{message}");
    }
    session.refused(json!({"command": "touch hit", "working_dir": ""}), "INVALID_PARAMS");
    session.refused(json!({"command": "touch hit", "working_dir": "/tmp\u{0}"}), "INVALID_PARAMS");
    session.survives();
    assert!(!process::exists(daemon.work().join("hit")));
}

fn what_the_shell_looks_after_itself_comes_back(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let probe = "echo \"${COLUMNS-unset} ${PS4-unset}\"; printenv COLUMNS PS4 || :";
    let before = session.ok(probe);
    let given = json!({"command": "printenv COLUMNS PS4", "env": {"COLUMNS": "200", "PS4": "T "}});
    session.run_with(given).exits(0).prints("200\nT \n", "");
    session.run(probe).exits(0).prints(&before, "");
}

fn what_cannot_be_set_is_refused_before_anything_runs(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("kept=yes");
    session.ok("readonly FIXED=1");
    for background in [false, true] {
        let params = json!({"command": "touch hit", "env": {"FIXED": "2"}, "background": background});
        let message = session.refused(params, "INVALID_PARAMS");
        assert!(message.contains("FIXED"), "{message}");
    }
    session.run("echo $kept $FIXED").exits(0).prints("yes 1\n", "").quietly();
    assert!(!process::exists(daemon.work().join("hit")));
}

in_each_shell!(
    what_the_shell_looks_after_itself_comes_back,
    what_cannot_be_set_is_refused_before_anything_runs,
    a_variable_is_seen_and_then_gone,
    a_variable_that_was_there_comes_back_exactly,
    a_given_value_reaches_the_command_exactly,
    what_the_shell_itself_uses_can_be_given_too,
    a_variable_set_by_the_command_outlives_it_and_a_given_one_does_not,
    given_variables_are_taken_back_however_the_command_ends,
    names_that_no_shell_can_hold_are_refused_before_anything_runs,
    a_directory_is_used_and_then_left,
    a_directory_is_left_however_the_command_ends,
    going_back_ignores_a_commands_own_directory,
    a_directory_that_cannot_be_used_is_refused_before_anything_runs,
);
