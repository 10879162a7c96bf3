//! What the shell itself writes is not taken for a command's output.

use serde_json::json;
use trl_testkit::{GUARD, Session, Shell, daemon, in_each_shell, process, wait_until};

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

/// Starts a job, and returns when it has ended.
#[track_caller]
fn end_a_job(session: &mut Session) {
    session.run("rm -f go; sh -c 'while [ ! -e go ]; do sleep .02; done' & echo $! >job").exits(0);
    // A background command waits until the shell has told its state; a job that ends before that may be forgotten.
    session.run_with(json!({"command": "true", "background": true})).exits(0);
    std::fs::write(session.dir.join("go"), "").unwrap_or_default();
    let job = std::fs::read_to_string(session.dir.join("job")).unwrap_or_default();
    let job = job.trim().parse().unwrap_or_default();
    wait_until("the job has ended", GUARD, || !process::alive(job));
}

fn nothing_is_lost_in_one_stream(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let merged = |command: &str| json!({"command": command, "merge_stderr": true});
    if shell != Shell::Zsh {
        end_a_job(&mut session);
        let listed = session.run_with(merged("jobs"));
        assert!(listed.stdout.contains("Done") && listed.stdout.contains("sleep .02"), "{listed:?}");
        let listed = session.run_with(merged("sleep .05 & sleep .1; jobs"));
        assert_eq!(listed.stdout.matches("sleep .05").count(), 1, "{listed:?}");
    }
    session.run("sleep 1000 &").exits(0);
    if shell == Shell::Bash {
        // What has exactly the form of its notices is taken for one, as on stderr.
        return;
    }
    let text = "[1]+  Done                    make\n[1] + Done                       make\n";
    std::fs::write(session.dir.join("log"), text).unwrap_or_default();
    session.run_with(merged("cat log")).exits(0).prints(text, "");
    session.run_with(merged("cat log >&2; true")).exits(0).prints(text, "");
}

fn jobs_that_have_ended_are_in_no_later_stream(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for command in ["echo own; /bin/true", "/bin/true; echo own >&2", "/bin/true\n(exit 3) || echo own"] {
        end_a_job(&mut session);
        session.run("(exit 7)").exits(7);
        end_a_job(&mut session);
        session.run_with(json!({"command": command, "merge_stderr": true})).exits(0).prints("own\n", "");
    }
    end_a_job(&mut session);
    session.run("sleep 1000 & (exit 7)").exits(7);
    let status = json!({"command": "echo $?; /bin/true", "merge_stderr": true});
    session.run_with(status).exits(0).prints("7\n", "");
    let during = json!({"command": "sleep .05 & sleep .2\ntrue\necho own", "merge_stderr": true});
    session.run_with(during).exits(0).prints("own\n", "");
}

fn a_complaint_does_not_name_the_engines_file(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for text in ["nosuchcommand", "if true; )", "echo \"open", "f() { nosuchother; }; f", "\n\nnosuchthird"] {
        let ran = session.run(text);
        assert!(!ran.stderr.is_empty() && !ran.stderr.contains("/proc/"), "{text:?}: {ran:?}");
        session.run("sleep 1000 & :").exits(0);
        let with_jobs = session.run(text);
        assert_eq!(with_jobs.stderr, ran.stderr, "{text:?}");
        session.run("kill -9 $!; wait $!; :").exits(0);
        let ran = session.run_with(json!({"command": text, "background": true}));
        let names_engine = ["/proc/", "(eval)"].iter().any(|word| ran.stderr.contains(word));
        assert!(!ran.stderr.is_empty() && !names_engine, "{text:?}: {ran:?}");
    }
    let ran = session.run_with(json!({"command": "\n\nnosuchcommand", "background": true}));
    assert!(ran.stderr.starts_with(shell.name()) && ran.stderr.contains('3'), "{ran:?}");
}

fn functions_of_background_commands_do_not_name_the_engines_file(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("g() {\n nosuchcommand\n}; h() {\n eval 'if )'\n}");
    for text in ["g", "h", "g; echo end >&2"] {
        let ran = session.run_with(json!({"command": text, "background": true}));
        assert!(!ran.stderr.is_empty() && !ran.stderr.contains("/proc/"), "{text:?}: {ran:?}");
    }
}

in_each_shell!(
    functions_of_background_commands_do_not_name_the_engines_file,
    the_end_of_a_job_is_in_nobodys_output,
    notices_of_any_form_are_taken_out,
    what_a_command_writes_stays_whatever_it_looks_like,
    nothing_is_lost_in_one_stream,
    jobs_that_have_ended_are_in_no_later_stream,
    a_complaint_does_not_name_the_engines_file,
);
