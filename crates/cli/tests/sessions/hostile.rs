//! Whatever a user does to the shell, the engine keeps working and stays out of sight.

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{Ran, Session, Shell, daemon, every, in_each_shell};

/// Needs neither `PATH`, nor a builtin, nor word splitting.
const PROBE: &str = "/bin/echo \"ok $kept\"";

/// After `definition` the session answers with its state, can stop a command at its
/// deadline, and outlives its shell. One daemon, a new session for each definition.
#[track_caller]
fn harmless(shell: Shell, definitions: &[&str]) {
    let daemon = daemon!();
    every(definitions, |definition| {
        let mut session = daemon.session(shell);
        let run = |session: &mut Session, command: &str, timeout: f64| {
            let params = session.params(json!({"command": command, "timeout_s": timeout}));
            let answer = session.connection.call(m::ExecRun::NAME, params);
            assert!(answer.is_ok(), "{shell:?} after {definition:?}: {command}: {answer:?}");
            Ran::read(answer.unwrap_or_default())
        };
        let answers = |session: &mut Session, when: &str| {
            let ran = run(session, PROBE, 10.0);
            assert_eq!(
                (ran.stdout.as_str(), ran.exit_code),
                ("ok yes\n", Some(0)),
                "{shell:?} after {definition:?}, {when}: {ran:?}"
            );
        };
        session.ok("kept=yes");
        let ran = run(&mut session, definition, 10.0);
        assert!(!ran.timed_out, "{shell:?} {definition:?}: {ran:?}");
        answers(&mut session, "at once");
        answers(&mut session, "again");
        let ran = run(&mut session, "/bin/sleep 30", 0.1);
        assert!(ran.timed_out, "{shell:?} after {definition:?}: {ran:?}");
        answers(&mut session, "after a deadline");
        let pid = session.pid();
        let ran = run(&mut session, &format!("/bin/kill -9 {pid}"), 10.0);
        assert_eq!(ran.exit_code, Some(137), "{shell:?} after {definition:?}: {ran:?}");
        answers(&mut session, "in a new shell");
        answers(&mut session, "in a new shell, again");
        session.destroy();
    });
}

fn hijacked_functions_are_harmless(shell: Shell) {
    let common = "mv rm echo printf read cd test true false kill umask pwd type alias unalias cat sleep cleanup precmd preexec";
    let special = match shell {
        Shell::Bash => {
            "source . builtin command eval trap exit set unset export return local declare typeset shift shopt enable history fc [ : exec wait jobs let compgen hash readonly mapfile getopts command_not_found_handle"
        }
        Shell::Zsh => {
            "source . builtin command eval trap exit set unset export return shift setopt unsetopt emulate print zmodload sysopen syswrite fc history [ : exec wait jobs let command_not_found_handler chpwd zshexit periodic TRAPEXIT TRAPZERR"
        }
        Shell::Sh => "wait jobs hash getopts command local",
    };
    let definitions: Vec<String> = format!("{common} {special}")
        .split(' ')
        .map(|name| match shell {
            Shell::Bash | Shell::Sh => format!("{name}() {{ /bin/echo hijacked; /bin/false; }}"),
            Shell::Zsh => format!("function {name} {{ /bin/echo hijacked; /bin/false }}"),
        })
        .collect();
    let together = definitions.join("\n");
    harmless(shell, &[&together]);
}

fn hijacked_aliases_are_harmless(shell: Shell) {
    let names = "mv rm echo printf read source . builtin command cd eval trap exit set unset export return local : true test [ if then fi while do done case esac { } ! kill umask pwd alias cleanup";
    let together: String =
        names.split(' ').map(|name| format!("alias '{name}'='/bin/echo hijacked'\n")).collect();
    harmless(shell, &[&together]);
}

fn search_paths_and_separators_are_harmless(shell: Shell) {
    harmless(
        shell,
        &[
            "export PATH=/nonexistent",
            "unset PATH",
            "PATH=",
            "IFS=x",
            "IFS=",
            "IFS='ok yes/'",
            "unset IFS",
            "export LC_ALL=ja_JP.SJIS",
            "export LANG=C LC_ALL=C",
            "export TMPDIR=/nope HOME=",
            "unset HOME PWD OLDPWD SHELL USER TERM",
            "export BASH_ENV=/nope ENV=/nope ZDOTDIR=/nope",
            "export POSIXLY_CORRECT=1",
            "export TERM=dumb COLUMNS=1 LINES=1",
            "export LD_PRELOAD=/nonexistent.so 2>/dev/null",
            "CDPATH=/:/tmp; export CDPATH",
            "GLOBIGNORE='*'; FIGNORE=x; TIMEFORMAT='%R'",
            "PS1='x $(exit 3)' PS2=y PS3=z PS4='w $(/bin/echo no >&2)'",
            "RPROMPT='x' PROMPT='%(?.a.b)' SPROMPT=z",
            "TRL_SESSION_ID=wrong; export TRL_SESSION_ID",
        ],
    );
}

fn options_are_harmless(shell: Shell) {
    let mut definitions = vec![
        "set -a",
        "set -b",
        "set -C",
        "set -e",
        "set -f",
        "set -n",
        "set -u",
        "set -v",
        "set -x",
        "set -euxvCf",
        "set +m",
        "set -m",
        "set -o vi",
        "set -o emacs",
        "set -o ignoreeof",
        "set -e; set -u; false",
    ];
    match shell {
        Shell::Bash => definitions.extend([
            "set -h -k",
            "set -p",
            "set -t",
            "set -H",
            "set -P",
            "set -E -T",
            "set +B +h",
            "set +o history",
            "set -o posix",
            "set -o posix; export() { :; }",
            "set -o pipefail -o errtrace -o functrace",
            "shopt -s failglob nullglob extdebug",
            "shopt -u sourcepath expand_aliases interactive_comments",
            "shopt -s lastpipe execfail huponexit checkjobs inherit_errexit cdspell autocd",
            "shopt -s compat31",
            "shopt -s xpg_echo login_shell",
            "shopt -s restricted_shell 2>/dev/null; set -r",
        ]),
        Shell::Zsh => definitions.extend([
            "set -t",
            "setopt noexec",
            "setopt err_exit",
            "setopt err_return",
            "setopt sh_word_split ksh_arrays",
            "setopt posix_builtins posix_identifiers posix_traps",
            "setopt warn_create_global warn_nested_var",
            "emulate sh",
            "emulate ksh",
            "emulate csh",
            "emulate -R zsh",
            "setopt no_clobber no_append_create",
            "setopt all_export",
            "setopt null_glob csh_null_glob",
            "unsetopt nomatch bad_pattern",
            "setopt ignore_braces",
            "setopt no_unset no_glob no_rcs",
            "setopt xtrace verbose",
            "setopt no_multios no_equals no_bare_glob_qual",
            "setopt restricted",
            "setopt no_monitor no_notify no_hup no_check_jobs",
            "setopt prompt_sp prompt_cr prompt_subst",
            "setopt zle",
            "unsetopt function_argzero",
            "unsetopt short_loops",
            "setopt no_aliases",
            "setopt single_command",
            "setopt debug_before_cmd local_options local_traps",
            "setopt c_bases octal_zeroes rc_quotes",
            "setopt interactive_comments no_bang_hist",
        ]),
        Shell::Sh => definitions.extend(["set -I", "set -V", "set -E", "set -o nolog", "set -h 2>/dev/null"]),
    }
    harmless(shell, &definitions);
}

fn traps_are_harmless(shell: Shell) {
    let mut definitions = vec![
        "trap '' INT TERM HUP",
        "trap '' INT TERM HUP QUIT TSTP CHLD PIPE",
        "trap 'echo bye' EXIT",
        "trap 'exit 4' EXIT",
        "trap 'echo int' INT",
        "trap 'exit 5' INT",
        "trap ':' CHLD",
        "trap 'exit 7' TERM HUP",
        "trap ':' WINCH ALRM USR1 USR2",
    ];
    match shell {
        Shell::Bash => definitions.extend([
            "trap : DEBUG",
            "trap : ERR RETURN",
            "trap 'set +x' DEBUG",
            "set -T; trap ': x' DEBUG RETURN",
            "trap 'kill -9 $BASHPID' RETURN; :",
        ]),
        Shell::Zsh => definitions.extend([
            "trap : DEBUG",
            "trap : ZERR",
            "TRAPINT() { return 0 }",
            "TRAPINT() { return 130 }",
            "TRAPDEBUG() { : }",
            "TRAPCHLD() { : }",
        ]),
        Shell::Sh => {}
    }
    harmless(shell, &definitions);
}

fn closed_and_moved_descriptors_are_harmless(shell: Shell) {
    let mut definitions = vec![
        "exec >/dev/null",
        "exec 2>/dev/null",
        "exec 2>&1",
        "exec 1>&-",
        "exec 2>&-",
        "exec 0<&-",
        "exec 0<&- 1>&- 2>&-",
        "exec </dev/zero",
        "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-",
        "exec 3</dev/null 4>/dev/null 5<&0 9>&1",
        "stty raw -echo </dev/tty 2>/dev/null; :",
        "stty -isig </dev/tty 2>/dev/null; :",
        "exec 1>/dev/full",
    ];
    if shell != Shell::Sh {
        definitions.push("for fd in {3..255}; do eval \"exec $fd>&-\" 2>/dev/null; done; :");
        definitions.push("for fd in {3..255}; do eval \"exec $fd</dev/null\" 2>/dev/null; done; :");
    }
    harmless(shell, &definitions);
}

fn locked_and_missing_variables_are_harmless(shell: Shell) {
    let definitions: &[&str] = match shell {
        Shell::Bash => &[
            "for v in $(compgen -v); do [[ $v == kept ]] || readonly \"$v\"; done 2>/dev/null; :",
            "for v in $(compgen -v); do [[ $v == kept ]] || unset \"$v\"; done 2>/dev/null; :",
            "for v in $(compgen -v); do [[ $v == kept || $v == PATH || $v == _ ]] || declare -i \"$v\"; done 2>/dev/null; :",
            "for f in $(compgen -A function); do unset -f $f; readonly -f $f; done 2>/dev/null; :",
            "for b in $(enable | cut -d' ' -f2); do [[ $b == enable ]] || enable -n \"$b\"; done; enable -n enable; :",
            "PROMPT_COMMAND='/bin/echo PC'",
            "PROMPT_COMMAND=(/bin/true '/bin/echo PC')",
            "readonly PROMPT_COMMAND=x",
            "unset PROMPT_COMMAND; declare -A PROMPT_COMMAND=([a]=b)",
            "PROMPT_COMMAND='exit 3'",
            "PROMPT_COMMAND='while :; do break; done; return 4'",
            "readonly PS1 PS2 PS4 PWD OLDPWD _ IFS",
            "declare -r BASH_COMMAND_X; declare -xr HOME",
        ],
        Shell::Zsh => &[
            "for v in ${(k)parameters}; do [[ $v == (kept|v) ]] || readonly $v; done 2>/dev/null; :",
            "for v in ${(k)parameters}; do [[ $v == (kept|v) ]] || unset $v; done 2>/dev/null; :",
            "for f in ${(k)functions}; do unfunction $f; done 2>/dev/null; :",
            "disable ${(k)builtins} 2>/dev/null; :",
            "disable -r if while for case { } [[ 2>/dev/null; :",
            "disable -a -m '*' 2>/dev/null; disable -f -m '*' 2>/dev/null; :",
            "precmd() { /bin/echo PC }",
            "precmd_functions=(nosuch)",
            "readonly precmd_functions",
            "unset precmd_functions; precmd_functions=scalar",
            "precmd() { return 5 }; preexec() { return 6 }",
            "precmd() { exit 5 }",
            "autoload -Uz add-zsh-hook; hook() { /bin/echo PC }; add-zsh-hook precmd hook",
            "periodic() { /bin/echo PC }; PERIOD=1",
            "chpwd() { /bin/echo CH }",
            "zmodload -u zsh/zle 2>/dev/null; :",
            "unhash -m '*'; hash -r; rehash",
        ],
        Shell::Sh => &[
            "for v in $(set | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p'); do [ $v = kept ] || [ $v = v ] || [ $v = _ ] || readonly $v; done 2>/dev/null; :",
            "for v in $(set | sed -n 's/^\\([A-Za-z_][A-Za-z0-9_]*\\)=.*/\\1/p'); do [ $v = kept ] || [ $v = v ] || unset $v; done 2>/dev/null; :",
            "readonly PS1 PS2 PS4 PWD OLDPWD IFS PATH OPTIND",
        ],
    };
    harmless(shell, definitions);
}

fn lost_directories_are_harmless(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let temporary = daemon.temporary().display().to_string();
    session.ok("mkdir -p junk/a junk/b; rm -rf junk/*; rmdir junk");
    session.run(&format!("find '{temporary}' -mindepth 1 -delete")).exits(0);
    session.keeps_state();
    session.run(&format!("rmdir '{temporary}'")).exits(0);
    session.keeps_state();
    session.run("kill -9 $$").exits(137);
    session.has_state_back();
    let ran = session.run_with(json!({"command": "sleep 30", "timeout_s": 0.2}));
    assert!(ran.timed_out, "{ran:?}");
    session.survives();
}

/// A hook that never returns holds its shell, but not the session.
fn hooks_that_never_end_cost_only_their_shell(shell: Shell) {
    let daemon = daemon!();
    let hooks: &[&str] = match shell {
        Shell::Bash => &[
            "PROMPT_COMMAND='while :; do :; done'",
            "PROMPT_COMMAND='/bin/sleep 1000'",
            "PS1='$(/bin/sleep 1000)'",
            "builtin() { while :; do :; done; }",
            "trap 'while :; do :; done' DEBUG",
            "trap '/bin/sleep 1000' EXIT; exit",
        ],
        Shell::Zsh => &[
            "precmd() { while :; do :; done }",
            "precmd() { /bin/sleep 1000 }",
            "preexec() { while :; do :; done }",
            "setopt prompt_subst; PS1='$(/bin/sleep 1000)'",
            "trap 'while :; do :; done' DEBUG",
            "zshexit() { /bin/sleep 1000 }; exit",
        ],
        Shell::Sh => &["PS1='$(/bin/sleep 1000)'", "trap '/bin/sleep 1000' EXIT; exit"],
    };
    every(hooks, |hook| {
        let mut session = daemon.session(shell);
        session.ok("kept=yes");
        session.run_with(json!({"command": hook, "timeout_s": 0.5}));
        session.run_with(json!({"command": PROBE, "timeout_s": 0.5}));
        let params = session.params(json!({}));
        session.connection.ok(m::SessionRestart::NAME, params);
        session.destroy();
    });
}

/// People have it in their start-up files; the shell then speaks to a terminal that nobody sits at.
fn line_editing_costs_nothing(shell: Shell) {
    let daemon = daemon!();
    for mode in ["vi", "emacs"] {
        for file in [".bashrc", ".zshrc"] {
            let written = std::fs::write(daemon.user_home().join(file), format!("set -o {mode}\n"));
            assert!(written.is_ok());
        }
        let mut session = daemon.session_with(shell, json!({"rc": shell != Shell::Sh}));
        session.ok("kept=yes; cd /usr");
        let pid = session.pid();
        session.run(&format!("set -o {mode}; (exit 3)")).exits(3).prints("", "");
        session.run("echo $kept $PWD; (exit 4)").exits(4).prints("yes /usr\n", "");
        session.run(&format!("set -o {mode}; echo err >&2; false")).exits(1).prints("", "err\n");
        assert_eq!(session.pid(), pid, "{mode}: the shell is another one");
    }
}

in_each_shell!(
    line_editing_costs_nothing,
    hooks_that_never_end_cost_only_their_shell,
    hijacked_functions_are_harmless,
    hijacked_aliases_are_harmless,
    search_paths_and_separators_are_harmless,
    options_are_harmless,
    traps_are_harmless,
    closed_and_moved_descriptors_are_harmless,
    locked_and_missing_variables_are_harmless,
    lost_directories_are_harmless,
);
