//! A session is one living shell: what a command changes, the next one finds.

use serde_json::json;
use trl_testkit::{Shell, daemon, in_each_shell};

fn silent_commands_succeed_and_print_nothing(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for command in ["true", ":", ": ", "x=1", "cd /", "find . -maxdepth 1 -name nope", "unset nope"] {
        session.run(command).exits(0).prints("", "").quietly();
    }
}

fn empty_commands_succeed(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for command in ["", " ", "\n", "\n\n \n", "\t", "# only a comment", "  # indented", "#\n#\n", "\n\n:\n\n"]
    {
        session.run(command).exits(0).prints("", "").quietly();
    }
    session.survives();
}

fn variables_functions_and_directory_stay(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    session.keeps_state();
    session.keeps_state();
    session.run("sh -c 'echo \"[$plain]\"'").exits(0).prints("[]\n", "");
    session.ok("unset plain; unset -f greet; cd ..");
    session.run("echo \"[$plain]\"; greet you 2>/dev/null").exits(127).prints("[]\n", "");
    let work = daemon.work().display().to_string();
    session.run("pwd").prints(&format!("{work}\n"), "");
}

fn aliases_stay(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("alias hi='echo hello there'");
    session.run("hi you").exits(0).prints("hello there you\n", "");
    session.ok("unalias hi");
    assert_eq!(session.run("hi you").exit_code, Some(127));
}

fn mask_limits_and_options_stay(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("umask 077");
    session.run("umask").prints(if shell == Shell::Zsh { "077\n" } else { "0077\n" }, "");
    session.ok("ulimit -n 99");
    session.run("ulimit -n; sh -c 'ulimit -n'").exits(0).prints("99\n99\n", "");
    session.ok("set -o noglob");
    session.run("echo *").prints("*\n", "");
    session.ok("set +o noglob; touch one two");
    session.run("echo *").prints("one two\n", "");
    session.ok("set -u");
    let unset = session.run("echo $NOPE");
    assert_ne!(unset.exit_code, Some(0));
    assert_eq!(unset.stdout, "");
    assert!(unset.stderr.contains("NOPE"), "{unset:?}");
}

fn traps_stay_and_fire(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("trap 'echo caught' USR1");
    session.run("kill -USR1 $$; :").exits(0).prints("caught\n", "");
    session.ok("trap - USR1; trap '' USR2");
    session.run("kill -USR2 $$; sh -c 'kill -USR2 $$; echo alive'").prints("alive\n", "");
}

fn the_status_of_the_last_command_is_there(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for (command, status) in [("false", 1), ("true", 0), ("(exit 42)", 42), ("sh -c 'exit 7'", 7)] {
        session.run(command).exits(status);
        session.run("echo $?").exits(0).prints(&format!("{status}\n"), "");
    }
    session.run("(exit 5)");
    session.run("test $? -eq 5 && echo five").exits(0).prints("five\n", "");
    let broken = session.run("echo 'abc").exit_code;
    session.run("echo $?").prints(&format!("{}\n", broken.unwrap_or(-1)), "");
}

fn the_last_background_job_can_be_named(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("sleep 1000 & job=$!").exits(0).prints("", "");
    session.run("test \"$!\" = \"$job\" && kill -0 $!").exits(0).prints("", "");
    // KILL, because a job that has only just been forked may still ignore what its shell ignores.
    session.run("kill -9 $!; wait $!").exits(137);
}

fn two_sessions_share_nothing(shell: Shell) {
    let daemon = daemon!();
    let mut first = daemon.session(shell);
    let mut second = daemon.session(shell);
    first.ok("who() { echo first; }; x=1; export SHARED=1; cd /; umask 077");
    second.ok("who() { echo second; }");
    let work = daemon.work().display().to_string();
    first.run("who; echo $x$SHARED; pwd").prints("first\n11\n/\n", "");
    second.run("who; echo \"[$x$SHARED]\"; pwd").prints(&format!("second\n[]\n{work}\n"), "");
}

fn the_reply_tells_where_the_shell_is_now(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let work = daemon.work();
    for name in
        ["plain", "with space", "uml\u{e4}ut", "quo'te\"s", "$dollar", "new\nline", "-dash", "emoji\u{1f600}"]
    {
        let dir = work.join(name);
        let made = std::fs::create_dir(&dir);
        assert!(made.is_ok(), "{made:?}");
        let command = format!("cd -- '{}'", dir.display().to_string().replace('\'', r"'\''"));
        let ran = session.run(&command).exits(0).prints("", "");
        assert_eq!(ran.working_dir, dir.display().to_string());
        assert_eq!(session.info()["working_dir"], dir.display().to_string());
        session.run("pwd").prints(&format!("{}\n", dir.display()), "");
    }
    session.ok("cd ..; ln -s plain link; cd link");
    session.run("pwd").prints(&format!("{}\n", work.join("link").display()), "");
}

fn a_directory_that_is_removed_does_not_end_the_session(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("mkdir gone && cd gone && rmdir ../gone");
    session.survives();
    session.survives();
    session.run("cd ..; pwd").exits(0).prints(&format!("{}\n", daemon.work().display()), "");
}

fn a_large_environment_starts_and_runs(shell: Shell) {
    let daemon = daemon!();
    let mut env = serde_json::Map::new();
    for number in 0..50 {
        env.insert(format!("PART_{number}"), json!("p".repeat(10_000)));
    }
    env.insert("BIG".into(), json!("b".repeat(120_000)));
    let mut session = daemon.session_with(shell, json!({"env": env}));
    session.run("echo ${#BIG} ${#PART_0} ${#PART_49}").exits(0).prints("120000 10000 10000\n", "");
    session.run("env | wc -c | { read n; test $n -gt 600000; }").exits(0).prints("", "");
    session.put_state();
    session.keeps_state();
    session.run("kill -9 $$").exits(137);
    session.has_state_back();
    session.run("echo ${#BIG}").prints("120000\n", "");
}

fn many_commands_in_a_row_all_answer(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("n=0");
    for number in 1..=300 {
        session.run("n=$((n+1)); echo $n").exits(0).prints(&format!("{number}\n"), "");
    }
    assert_eq!(session.info()["command_count"], 301);
    assert_eq!(session.info()["restarts"], 0);
}

fn silence_costs_no_more_than_output(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let mut median = |command: &str| {
        let mut times: Vec<_> = (0..31)
            .map(|_| {
                let start = std::time::Instant::now();
                session.ok(command);
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[15]
    };
    let (loud, silent) = (median("echo x"), median(":"));
    assert!(silent < loud * 5, "a silent command takes {silent:?}, one that prints {loud:?}");
}

/// The engine's own files must not be what a limit on files costs the shell.
fn a_limit_on_the_size_of_files_holds_and_costs_nothing(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let pid = session.pid();
    session.ok("kept=yes; ulimit -f 0");
    session.run("echo $kept; ulimit -f").exits(0).prints("yes\n0\n", "").quietly();
    session.run_with(json!({"command": "pwd", "working_dir": "/usr"})).exits(0).prints("/usr\n", "");
    assert_eq!(session.run("(echo x >file); [ -s file ] || echo held").exits(0).stdout, "held\n");
    assert_eq!(session.pid(), pid);
}

in_each_shell!(
    a_limit_on_the_size_of_files_holds_and_costs_nothing,
    silent_commands_succeed_and_print_nothing,
    empty_commands_succeed,
    variables_functions_and_directory_stay,
    aliases_stay,
    mask_limits_and_options_stay,
    traps_stay_and_fire,
    the_status_of_the_last_command_is_there,
    the_last_background_job_can_be_named,
    two_sessions_share_nothing,
    the_reply_tells_where_the_shell_is_now,
    a_directory_that_is_removed_does_not_end_the_session,
    a_large_environment_starts_and_runs,
    many_commands_in_a_row_all_answer,
    silence_costs_no_more_than_output,
);

#[test]
fn what_only_bash_has_stays_too() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("set -o pipefail; shopt -s globstar nullglob; list=(a 'b c' d); declare -A map=([k]=v)");
    session.ok("declare -i number=4; readonly fixed=1; mkdir -p deep/er; touch deep/er/file");
    session.run("false | true").exits(1);
    session.run("echo **/file; echo [x]*").exits(0).prints("deep/er/file\n\n", "");
    session
        .run("echo \"${#list[@]} ${list[1]} ${map[k]}\"; number=2+3; echo $number")
        .prints("3 b c v\n5\n", "");
    session.run("pushd deep; pushd er; dirs -p | wc -l").exits(0);
    session
        .run("dirs -p | wc -l; popd >/dev/null; popd >/dev/null; pwd")
        .exits(0)
        .prints(&format!("3\n{}\n", daemon.work().display()), "");
    session
        .run("complete -W 'a b' tool; bind -V >/dev/null 2>&1; complete -p tool")
        .prints("complete -W 'a b' tool\n", "");
}

#[test]
fn what_only_zsh_has_stays_too() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Zsh);
    session.ok("set -o pipefail; setopt extendedglob nullglob; list=(a 'b c' d); typeset -A map=(k v)");
    session.ok("integer number=4; typeset -r fixed=1; mkdir -p deep/er; touch deep/er/file");
    session.run("false | true").exits(1);
    session.run("echo **/file; echo [x]*").exits(0).prints("deep/er/file\n\n", "");
    session
        .run("echo \"${#list} ${list[2]} ${map[k]}\"; number=2+3; echo $number")
        .prints("3 b c v\n5\n", "");
    session.ok("pushd deep >/dev/null; pushd er >/dev/null");
    session
        .run("dirs -p | wc -l; popd >/dev/null; popd >/dev/null; pwd")
        .exits(0)
        .prints(&format!("3\n{}\n", daemon.work().display()), "");
    session.ok("alias -g LOUD='| tr a-z A-Z'; alias -s txt=echo");
    session.run("echo hi LOUD").prints("HI\n", "");
}

#[test]
fn random_numbers_continue_from_their_seed() {
    for shell in [Shell::Bash, Shell::Zsh] {
        let daemon = daemon!();
        let mut session = daemon.session(shell);
        let together = session.ok("RANDOM=42; echo $RANDOM; echo $RANDOM; echo $RANDOM");
        session.ok("RANDOM=42");
        let apart: String = (0..3).map(|_| session.ok("echo $RANDOM")).collect();
        assert_eq!(apart, together, "{shell:?}: the engine draws no numbers of its own");
    }
}

/// The word `return` in a comment: only what could use it is run from a file.
#[test]
fn what_a_text_does_to_its_own_file_is_gone_with_it() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("printf '#%0200d\\necho STALE\\n' 0 >>\"$BASH_SOURCE\"; exec 9<>\"$BASH_SOURCE\" # return");
    for number in 0..4 {
        let long = " ".repeat(80);
        session.run(&format!("echo {number}{long}")).exits(0).prints(&format!("{number}\n"), "");
        session.run("cat <&9 | grep -c echo.[0-9] # return").prints("0\n", "");
    }
}
