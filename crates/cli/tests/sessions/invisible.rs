//! The engine leaves no trace in what a user sees of the shell.

use serde_json::json;
use trl_testkit::{Shell, daemon, in_each_shell};

fn redirections_of_the_shell_hold_for_one_command(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for (command, stdout, stderr) in [
        ("exec >/dev/null; echo lost; echo err >&2", "", "err\n"),
        ("exec 2>/dev/null; echo out; echo lost >&2", "out\n", ""),
        ("exec 2>&1; echo one; echo two >&2", "one\ntwo\n", ""),
        ("exec >file; echo kept", "", ""),
        ("exec </dev/null; cat", "", ""),
    ] {
        session.run(command).exits(0).prints(stdout, stderr);
        session.run("echo hi; echo there >&2").exits(0).prints("hi\n", "there\n");
    }
    session.run("cat file").prints("kept\n", "");
    for command in ["exec 1>&-", "exec 2>&-", "exec 0<&-", "exec 0<&- 1>&- 2>&-"] {
        session.run(command);
        session.run("echo hi; echo there >&2; cat").exits(0).prints("hi\n", "there\n").quietly();
    }
}

fn a_descriptor_that_the_user_opens_stays(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("exec 5>log");
    session.ok("echo one >&5");
    session.ok("echo two >&5; exec 5>&-");
    session.run("cat log").prints("one\ntwo\n", "");
}

fn tracing_shows_only_the_users_commands(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("set -x");
    let ran = session.run("true one").exits(0);
    assert_eq!(ran.stderr.matches("true one").count(), 1, "{ran:?}");
    assert_eq!(ran.stderr.lines().count(), 1, "only the user's line: {ran:?}");
    for hidden in ["/proc", "/dev/fd", "trl", daemon.home().to_str().unwrap_or("?")] {
        assert!(!ran.stderr.contains(hidden), "{hidden} shows in {ran:?}");
    }
    let ran =
        session.run_with(json!({"command": "true two", "env": {"A": "1"}, "working_dir": "/"})).exits(0);
    assert_eq!(ran.stderr.lines().count(), 1, "only the user's line: {ran:?}");
    session.run("set +x 2>/dev/null");
    session.run("true").exits(0).prints("", "");
    session.run("set -v");
    let ran = session.run("true three").exits(0);
    assert!(ran.stderr.lines().all(|line| line == "true three"), "{ran:?}");
    session.run("set +v");
    session.survives();
}

fn the_shell_looks_like_itself(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let name = session.ok("echo $0");
    assert!(
        name.trim()
            .rsplit('/')
            .next()
            .is_some_and(|last| last.trim_start_matches('-') == shell.name() || last == "dash"),
        "$0 is {name}"
    );
    session.run("echo $#; echo \"[$*]\"").prints("0\n[]\n", "");
    session.run("echo $$").prints(&format!("{}\n", session.created["pid"]), "");
    if shell != Shell::Sh {
        session.run("echo $LINENO\necho $LINENO\n\necho $LINENO").prints("1\n2\n4\n", "");
    }
    // dash names the file it reads in every complaint, bash in those about syntax.
    let (unknown, unreadable) = (session.run("no-such-command-here"), session.run("if"));
    let clean = match shell {
        Shell::Zsh => vec![unknown, unreadable],
        Shell::Bash => vec![unknown],
        Shell::Sh => vec![],
    };
    for ran in clean {
        for hidden in ["/proc", "/dev/fd", daemon.home().to_str().unwrap_or("?")] {
            assert!(!ran.stderr.contains(hidden), "{hidden} shows in {ran:?}");
        }
    }
}

fn no_process_or_job_of_the_engine_shows(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("jobs").exits(0).prints("", "");
    session
        .run("ps -o comm= --ppid $$ | grep -vx -e ps -e grep -e sh -e bash -e zsh -e dash; :")
        .exits(0)
        .prints("", "");
    session.run("sleep 0.1 &").exits(0).prints("", "");
    session.run("sleep 0.3").exits(0).without_job_notices().prints("", "");
    session.run("true").exits(0).without_job_notices().prints("", "");
}

fn no_foreign_descriptor_reaches_a_program(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let seen = session.ok("ls /proc/self/fd");
    let foreign: Vec<&str> = seen.lines().filter(|number| !["0", "1", "2", "3"].contains(number)).collect();
    assert!(foreign.is_empty(), "a program inherits {foreign:?}");
}

fn traps_are_listed_as_the_user_set_them(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("trap").exits(0).prints("", "");
    session.ok("trap 'echo usr' USR1");
    let ran = session.run("trap").exits(0);
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
    assert!(ran.stdout.contains("echo usr"), "{ran:?}");
}

fn programs_start_with_default_signals(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let status = session.ok("grep -E '^Sig(Ign|Blk):' /proc/self/status");
    let sets: Vec<u64> =
        status.split_whitespace().filter_map(|word| u64::from_str_radix(word, 16).ok()).collect();
    // The C library marks its two internal signals whenever it spawns.
    let internal = 0b11 << 31;
    assert_eq!(sets.iter().map(|set| set & !internal).collect::<Vec<_>>(), [0, 0], "{status}");
}

in_each_shell!(
    redirections_of_the_shell_hold_for_one_command,
    a_descriptor_that_the_user_opens_stays,
    tracing_shows_only_the_users_commands,
    the_shell_looks_like_itself,
    no_process_or_job_of_the_engine_shows,
    no_foreign_descriptor_reaches_a_program,
    traps_are_listed_as_the_user_set_them,
    programs_start_with_default_signals,
);

#[test]
fn bash_shows_no_source_file_of_the_engine() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    let home = daemon.home().display().to_string();
    for command in [
        "echo \"${BASH_SOURCE[@]}\"",
        "f() { caller 0; caller 1; echo \"${FUNCNAME[@]} ${BASH_SOURCE[@]}\"; }; f",
        "echo \"${BASH_COMMAND}\"",
        "echo \"$BASH_ARGV0\"",
    ] {
        let ran = session.run(command);
        for hidden in [home.as_str(), "/proc/", "/dev/fd"] {
            assert!(!ran.stdout.contains(hidden), "{command}: {ran:?}");
        }
    }
    session.run("echo \"$-\" | tr -d a-z").exits(0);
}

#[test]
fn bash_traps_see_only_the_users_commands() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("trap 'echo \"dbg $BASH_COMMAND\" >&2' DEBUG");
    session.run("true").exits(0).prints("", "dbg true\n");
    session.run("trap - DEBUG");
    session.ok("trap 'echo err >&2' ERR");
    session.run("true").exits(0).prints("", "");
    session.run("false").exits(1).prints("", "err\n");
    session.run("true").exits(0).prints("", "");
    session.ok("trap - ERR");
    session.ok("trap 'echo ret >&2' RETURN");
    session.run("true").exits(0).prints("", "");
}

#[test]
fn prompts_and_hooks_of_the_user_print_nothing_into_results() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("PS1='x$ ' PS2='y> ' PS4='z ' PROMPT_COMMAND='echo PC; echo PCE >&2'");
    session.run("echo hi").exits(0).prints("hi\n", "").quietly();
    session.run("echo hi").exits(0).prints("hi\n", "").quietly();
    let mut session = daemon.session(Shell::Zsh);
    session.ok("PS1='x$ ' PS2='y> ' RPS1=r; precmd() { echo PC; echo PCE >&2 }; preexec() { echo PE }");
    session.run("echo hi").exits(0).prints("hi\n", "").quietly();
    session.run("echo hi").exits(0).prints("hi\n", "").quietly();
}

/// The terminal is the command's while it runs there; what the shell's hooks write comes after it.
#[test]
fn hooks_of_the_user_print_nothing_into_results_on_a_terminal() {
    let daemon = daemon!();
    for (shell, hooks) in [
        (Shell::Bash, "PROMPT_COMMAND='printf \"\\033]0;title\\007\"; echo PC'"),
        (Shell::Zsh, "precmd() { printf '\\033]0;title\\007'; echo PC }; preexec() { echo PE }"),
    ] {
        let mut session = daemon.session(shell);
        session.ok(hooks);
        for _ in 0..10 {
            let ran = session.run_with(json!({"command": "echo hi", "tty": true}));
            assert_eq!(ran.stdout, "hi\r\n", "{ran:?}");
        }
        session.run("echo hi").exits(0).prints("hi\n", "").quietly();
    }
}

#[test]
fn commands_are_in_the_history_and_nothing_else_is() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("echo first");
    session.ok("x=1\necho second");
    let history = session.ok("history");
    assert!(history.contains("echo first") && history.contains("echo second"), "{history}");
    assert_eq!(history.matches("echo first").count(), 1, "{history}");
    assert!(
        !history.contains(daemon.home().to_str().unwrap_or("?")) && !history.contains("trl"),
        "{history}"
    );
    let mut session = daemon.session(Shell::Zsh);
    session.ok("echo first");
    session.ok("x=1\necho second");
    let history = session.ok("fc -l 1");
    assert!(history.contains("echo first") && history.contains("echo second"), "{history}");
    assert_eq!(history.matches("echo first").count(), 1, "{history}");
    assert!(!history.contains("trl"), "{history}");
}
