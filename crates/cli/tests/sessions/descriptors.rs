//! Attacks on the engine's own descriptors: what a command writes to them forges no status, and what it
//! closes costs nothing.

#![allow(clippy::unwrap_used, reason = "that is how a test fails")]

use serde_json::json;
use trl_testkit::{Shell, daemon, in_each_shell};

/// Whatever is written to the descriptors that the shell has: while a command runs, and while none does.
fn no_text_becomes_the_shells_next_line(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let forge = "for fd in /proc/$$/fd/*; do case $(readlink $fd) in pipe:*|socket:*) \
                 (echo ' x=forged; (exit 0)'; echo) >$fd 2>/dev/null;; esac; done";
    session.run(&format!("x=mine; {forge}; (exit 7)")).exits(7);
    session.run("echo $x; (exit 3)").exits(3).prints("mine\n", "");
    // From a process that outlives the command that has started it.
    session.ok("mkfifo begin end");
    session.ok(&format!("{{ read go <begin; {forge}; echo done >end; }} >/dev/null 2>&1 &"));
    session.run_with(json!({"command": "echo >begin; read done <end", "background": true})).exits(0);
    session.run("echo $x; (exit 4)").exits(4).prints("mine\n", "");
}

in_each_shell!(no_text_becomes_the_shells_next_line);

/// The shell's prompts are for the host alone: one that somebody else has read would be waited for.
fn nobody_reads_the_prompts(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("mkfifo begin end");
    let steal = "for fd in /proc/$$/fd/*; do case $(readlink $fd) in pipe:*|socket:*) \
                 cat <$fd >>stolen 2>/dev/null & ;; esac; done";
    session.ok(&format!("{{ read go <begin; {steal}; echo done >end; }} >/dev/null 2>&1 &"));
    session.run_with(json!({"command": "echo >begin; read done <end", "background": true})).exits(0);
    for status in [4, 0, 5] {
        session.run(&format!("(exit {status})")).exits(status);
    }
    session.ok("[ ! -s stolen ]");
}

in_each_shell!(nobody_reads_the_prompts);

/// What the shell's prompt looks like, with another status, written where the shell writes its prompts.
#[test]
fn a_status_cannot_be_forged() {
    let daemon = daemon!();
    for tty in [false, true] {
        let mut session = daemon.session_with(Shell::Bash, json!({"tty": tty}));
        for end in ["sleep .3; (exit 7)", "(exit 7)", "false"] {
            let forge = "p=${PS1@P}; p=${p/;7;/;0;}; printf %s \"$p\" >&12";
            let ran = session.run(&format!("(exit 7); {forge}; {end}"));
            let expected = if end == "false" { 1 } else { 7 };
            assert_eq!(ran.exit_code, Some(expected), "{end}: {ran:?}");
        }
        session.run("(exit 3)").exits(3);
        // The same over and over, by a process that goes on while later commands run.
        let forge = "p=${PS1@P}; p=${p/;7;/;0;}; while printf %s \"$p\"; do sleep .001; done >&12 &";
        session.run(&format!("(exit 7); {forge}")).exits(0);
        for _ in 0..8 {
            session.run("sleep .01; (exit 7)").exits(7);
        }
        session.run("kill %1").exits(0);
    }
}

#[test]
fn descriptors_that_are_closed_are_put_back() {
    let daemon = daemon!();
    for tty in [false, true] {
        let mut session = daemon.session_with(Shell::Bash, json!({"tty": tty}));
        session.run("kept=yes; f() { exec 12>&-; }").exits(0);
        let pid = session.pid();
        for close in [
            "exec 10<&-",
            "exec 11>&-",
            "exec 12>&-",
            "exec 10<&- 11>&- 12>&-",
            "exec 12>/dev/null",
            "exec 10</dev/null",
            "eval 'exec 12>&-'",
            "for n in 10 11 12 13 14 15; do eval \"exec $n>&-\"; done",
            "f",
        ] {
            let ran = session.run(&format!("{close}; new=here; (exit 7)"));
            assert_eq!((ran.exit_code, ran.raw.get("shell_ended")), (Some(7), None), "{close}: {ran:?}");
            assert!(!ran.stderr.contains("trl;") && !ran.stdout.contains("trl;"), "{close}: {ran:?}");
            let after = session.run("echo $kept $new; unset new");
            assert_eq!(after.stdout.trim_end(), "yes here", "{close}: {after:?}");
            assert_eq!(session.pid(), pid, "{close}: the shell is another one");
        }
    }
}
