//! What a new shell gets back of the old one, and what it must never get back.

use serde_json::json;
use trl_testkit::{Session, Shell, daemon, every, process};

#[track_caller]
fn crash(session: &mut Session) {
    session.run("kill -9 $$").exits(137).tells_of_the_shell();
}

/// A broken or hostile setting may cost one more shell, but the session settles.
#[track_caller]
fn settles(session: &mut Session) {
    session.run(":");
    for _ in 0..3 {
        session.run("echo ok").exits(0).prints("ok\n", "");
    }
    session.survives();
}

#[test]
fn bash_gets_its_own_kinds_of_state_back() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session
        .ok("list=(a 'b  c' '' $'n\\nl'); declare -A map=([k]=v ['a key']='a value'); declare -i number=4");
    session.ok("sparse[5]=five; sparse[9]=nine; declare -x -a exported_list=(1); declare -u loud; declare -n ref=number");
    session.ok("set -o pipefail; shopt -s globstar nullglob dotglob; set -o noclobber");
    session.ok("f() {\n  cat <<EOF\ndoc $1\nEOF\n  local x='single' y=\"double\"\n  [[ $x == s* ]] && echo \"$x $y\"\n}");
    session.ok("g-h() { echo dashed; }; export -f f; nested() { inner() { echo inner; }; inner; }");
    crash(&mut session);
    session
        .run("echo \"${#list[@]}|${list[1]}|${list[2]}|${list[3]}\"")
        .exits(0)
        .prints("4|b  c||n\nl\n", "");
    session.run("echo \"${map[k]} ${map[a key]} ${!sparse[@]}\"").prints("v a value 5 9\n", "");
    session.run("number=2+3; echo $number; loud=abc; echo $loud; echo $ref").prints("5\nABC\n5\n", "");
    session
        .run("f one; g-h; nested; bash -c 'f two'")
        .exits(0)
        .prints("doc one\nsingle double\ndashed\ninner\ndoc two\nsingle double\n", "");
    session.run("false | true").exits(1);
    session
        .run("shopt -q globstar nullglob dotglob && [[ -o noclobber ]] && echo set")
        .exits(0)
        .prints("set\n", "");
}

/// What a function would print is data, however much it looks like more functions.
#[test]
fn texts_inside_functions_come_back_and_never_run() {
    let daemon = daemon!();
    for shell in [Shell::Bash, Shell::Zsh] {
        let mut session = daemon.session(shell);
        let texts = [
            "gen() { cat <<'E'\nsetup() {\n  :\n}\ntouch hit; main() { :; }\nE\n}",
            "quoted() { echo 'a() {\n}\ntouch hit; b() { :; }'\n}",
            "json() { cat <<E\n{\n  \"a\": 1\n}\nE\n}",
            "last() { echo last; }",
            // Another function as the shell itself would show it.
            "before() { cat <<'E'\n}\nlast () \n{ \ntouch hit\n}\nlast () {\ntouch hit\nE\n}",
        ];
        session.ok(&texts.join("\n"));
        let probe = "gen; quoted; json; last; before";
        let told = session.run(probe).exits(0).stdout;
        let beside = session.run_with(json!({"command": probe, "background": true})).exits(0);
        assert_eq!((beside.stdout.as_str(), beside.stderr.as_str()), (told.as_str(), ""), "{shell:?}");
        crash(&mut session);
        session.run(probe).exits(0).prints(&told, "");
        assert!(!process::exists(daemon.work().join("hit")), "{shell:?}: a text was run");
    }
}

/// An integer whose value is no number is no reason for a command beside the shell not to run.
#[test]
fn what_cannot_be_declared_again_costs_nothing_beside_the_shell() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    session.ok("odd='foo bar'; declare -i odd; zlast=yes");
    let probe = json!({"command": "echo \"$odd $zlast\"", "background": true});
    session.run_with(probe).exits(0).prints("foo bar yes\n", "");
}

#[test]
fn zsh_gets_its_own_kinds_of_state_back() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Zsh);
    session.ok("list=(a 'b  c' '' $'n\\nl'); typeset -A map=(k v 'a key' 'a value'); integer number=4; float part=1.5");
    session.ok("set -o pipefail; setopt extendedglob nullglob; alias -g LOUD='| tr a-z A-Z'; alias -s txt='echo suffix'");
    session.ok("f() {\n  cat <<EOF\ndoc $1\nEOF\n  local x='single' y=\"double\"\n  [[ $x == s* ]] && echo \"$x $y\"\n}");
    session.ok("g-h() { echo dashed }; typeset -U unique=(a b a); path+=(/extra)");
    crash(&mut session);
    session.run("echo \"${#list}|${list[2]}|${list[3]}|${list[4]}\"").exits(0).prints("4|b  c||n\nl\n", "");
    session.run("echo \"${map[k]} ${map[a key]}\"; number=2+3; echo $number").prints("v a value\n5\n", "");
    session.run("f one; g-h; echo hi LOUD").exits(0).prints("doc one\nsingle double\ndashed\nHI\n", "");
    session
        .run("unique+=(a c); echo $unique; [[ $path[-1] == /extra ]] && echo path")
        .prints("a b c\npath\n", "");
    session.run("false | true").exits(1);
    session.run("[[ -o extendedglob && -o nullglob ]] && echo set").exits(0).prints("set\n", "");
}

#[test]
fn settings_that_stop_a_shell_do_not_come_back() {
    every(
        [
            (Shell::Bash, "set -o onecmd"),
            (Shell::Bash, "set -n"),
            (Shell::Bash, "set -o noexec"),
            (Shell::Bash, "set -r"),
            (Shell::Bash, "exec 2>/dev/null; set -t"),
            (Shell::Zsh, "set -n"),
            (Shell::Zsh, "setopt no_exec"),
            (Shell::Zsh, "setopt single_command"),
            (Shell::Zsh, "set -t"),
            (Shell::Zsh, "setopt restricted"),
            (Shell::Sh, "set -n"),
            (Shell::Sh, "set -o noexec"),
        ],
        |&(shell, setting)| {
            let daemon = daemon!();
            let mut session = daemon.session(shell);
            session.ok("kept=yes");
            let ran = session.run_with(json!({"command": setting, "timeout_s": 5}));
            assert!(!ran.timed_out, "{shell:?} {setting}: {ran:?}");
            for _ in 0..2 {
                let ran = session.run_with(json!({"command": "echo ok $kept", "timeout_s": 5}));
                assert_eq!(ran.stdout, "ok yes\n", "{shell:?} {setting}: {ran:?}");
            }
            session.run("kill -9 $$");
            settles(&mut session);
            assert_eq!(session.ok("echo $kept"), "yes\n", "{shell:?} {setting}");
        },
    );
}

#[test]
fn broken_definitions_do_not_break_the_new_shell() {
    every(
        [
            (Shell::Bash, "alias bad='('; alias worse=\"'\"; alias if='echo'; alias ls='ls; }'"),
            (Shell::Bash, "alias -- -x=1; alias 'a.b=c'; BASH_ALIASES[odd,name]=echo"),
            (Shell::Bash, "alias echo='echo ' printf='('"),
            (Shell::Bash, "function 'x/y' { :; }; function a:b { :; }; function [[] { :; }"),
            (Shell::Bash, "declare -A empty; declare unset_one; declare -a never; declare -r stuck=1"),
            (Shell::Bash, "GROUPS=1 UID2=2; EUID_X=1; BASHPID_X=1; SHELLOPTS_X=1"),
            (Shell::Bash, "shopt -s extglob; f() { case $1 in @(a|b)) echo hit;; esac; }; shopt -u extglob"),
            (Shell::Bash, "PROMPT_COMMAND='exit 5'; PS1='$(exit 5)'; PS0='$(exit 5)'"),
            (Shell::Bash, "trap 'exit 6' DEBUG ERR; :"),
            (Shell::Bash, "HISTFILE=/nonexistent/x; HISTSIZE=0; TMOUT=1"),
            (Shell::Bash, "POSIXLY_CORRECT=1; set -o posix"),
            (Shell::Bash, "LC_ALL=nonsense; LANG=nonsense"),
            (Shell::Zsh, "alias bad='('; alias worse=\"'\"; alias -g if='echo'; alias -g ok='not ok('"),
            (
                Shell::Zsh,
                "autoload -Uz compinit zmv nosuchfunction; autoload +X nosuchfunction 2>/dev/null; :",
            ),
            (
                Shell::Zsh,
                "zmodload zsh/datetime zsh/mapfile zsh/system; typeset -r stuck=1; typeset -T TIED tied",
            ),
            (Shell::Zsh, "setopt ksh_arrays sh_word_split posix_aliases"),
            (Shell::Zsh, "emulate sh"),
            (Shell::Zsh, "emulate csh"),
            (Shell::Zsh, "TMOUT=1; TRAPALRM() { exit 5 }; precmd() { exit 6 }"),
            (Shell::Zsh, "setopt ignore_braces ignore_close_braces csh_junkie_loops"),
            (Shell::Sh, "alias bad='(' if=echo; alias worse=\"'\""),
            (Shell::Sh, "readonly stuck=1; OPTIND=3; PS1='$(exit 5)'"),
            (Shell::Sh, "ENV=/nonexistent; PPID_X=1; HISTSIZE=0"),
        ],
        |&(shell, definition)| {
            let daemon = daemon!();
            let mut session = daemon.session(shell);
            session.ok("kept=yes");
            let ran = session.run_with(json!({"command": definition, "timeout_s": 5}));
            assert!(!ran.timed_out, "{shell:?} {definition}: {ran:?}");
            session.run_with(json!({"command": "kill -9 $$", "timeout_s": 5}));
            for _ in 0..3 {
                let ran = session.run_with(json!({"command": "/bin/echo \"ok $kept\"", "timeout_s": 5}));
                assert_eq!(ran.stdout, "ok yes\n", "{shell:?} {definition}: {ran:?}");
            }
        },
    );
}

#[test]
fn a_huge_state_comes_back() {
    for shell in Shell::ALL {
        let daemon = daemon!();
        let mut session = daemon.session(shell);
        session.ok("i=0; while [ $i -lt 2000 ]; do eval \"v$i='value $i'\"; i=$((i+1)); done");
        let big = "y".repeat(3_000_000);
        session.ok(&format!("big='{big}'"));
        crash(&mut session);
        session.run("echo \"$v0|$v1999|${#big}\"").exits(0).prints("value 0|value 1999|3000000\n", "");
    }
}

#[test]
fn deaths_in_a_row_lose_nothing() {
    for shell in Shell::ALL {
        let daemon = daemon!();
        let mut session = daemon.session(shell);
        session.put_state();
        for number in 0..8 {
            session.ok(&format!("n{number}={number}"));
            crash(&mut session);
            crash(&mut session);
        }
        session.run("echo $n0$n1$n2$n3$n4$n5$n6$n7").exits(0).prints("01234567\n", "");
        session.has_state_back();
        assert_eq!(session.info()["restarts"], 16);
    }
}
