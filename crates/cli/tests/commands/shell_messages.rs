//! What the shell itself writes is not taken for a command's output.

use serde_json::json;
use trl_testkit::{Shell, daemon, in_each_shell};

fn the_end_of_a_job_is_in_nobodys_output(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("(sleep .1; echo x) & echo first").exits(0);
    session.run("sleep .4").exits(0).prints("", "");
    session.run("sleep .1 & sleep .3; wait").exits(0).prints("", "");
    session.run("for i in 1 2; do sleep .05; done & wait; echo end >&2").exits(0).prints("", "end\n");
    session.run("start() { sleep .05 & }; start; sleep .2").exits(0).prints("", "");
    session.run("start; sleep .2").exits(0).prints("", "");
    // Jobs are still there to be listed and waited for.
    session
        .run("sleep .2 & jobs >/dev/null && wait $! && wait %1 2>/dev/null; echo done")
        .exits(0)
        .prints("done\n", "");
    session.run("sleep 30 &").exits(0);
    let listed = session.run("jobs; kill $!");
    assert!(listed.exit_code == Some(0) && listed.stdout.contains("sleep 30"), "{listed:?}");
}

/// Whatever the job's text looks like, and wherever on a line the notice begins.
fn notices_of_any_form_are_taken_out(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let texts = [
        "sleep .05 & printf 'no end' >&2; sleep .1; printf ' of line' >&2",
        "cd /tmp; sleep .05 & cd /; sleep .1; printf 'no end of line' >&2",
        "case a in a) sleep .05;; b) :;; esac & sleep .1; printf 'no end of line' >&2",
        "sleep .05 | cat 'x\ny' 2>/dev/null & sleep .1; printf 'no end of line' >&2",
        "cat >/dev/null <<E & sleep .1; printf 'no end of line' >&2\nhere\ndoc\nE",
        "{ for i in 1 2; do :; done; if true; then sleep .05; fi; } & sleep .1; printf 'no end of line' >&2",
        "sleep 30 & kill -STOP $!; sleep .1; kill -9 $!; wait $!; printf 'no end of line' >&2",
    ];
    for text in texts {
        session.run(text).exits(0).prints("", "no end of line");
    }
    session.run("sleep .05 &").exits(0);
    session.run("cd /usr; sleep .1").exits(0).prints("", "");
}

fn what_a_command_writes_stays_whatever_it_looks_like(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for text in ["[1]+  Done                    x", "[1] + Done                       x", "[1] 4242"] {
        session.run(&format!("echo '{text}' >&2")).exits(0).prints("", &format!("{text}\n"));
    }
    // A line without an end is not kept back.
    session.run("printf '[1]' >&2").exits(0).prints("", "[1]");
}

fn a_complaint_does_not_name_the_engines_file(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for text in ["nosuchcommand", "if true; )", "echo \"open", "f() { nosuchother; }; f", "\n\nnosuchthird"] {
        let ran = session.run(text);
        assert!(!ran.stderr.is_empty() && !ran.stderr.contains("/proc/"), "{text:?}: {ran:?}");
        let ran = session.run_with(json!({"command": text, "background": true}));
        let names_engine = ["/proc/", "(eval)"].iter().any(|word| ran.stderr.contains(word));
        assert!(!ran.stderr.is_empty() && !names_engine, "{text:?}: {ran:?}");
    }
    let ran = session.run_with(json!({"command": "\n\nnosuchcommand", "background": true}));
    assert!(ran.stderr.starts_with(shell.name()) && ran.stderr.contains('3'), "{ran:?}");
}

in_each_shell!(
    the_end_of_a_job_is_in_nobodys_output,
    notices_of_any_form_are_taken_out,
    what_a_command_writes_stays_whatever_it_looks_like,
    a_complaint_does_not_name_the_engines_file,
);
