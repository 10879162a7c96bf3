//! Lengths around the buffers of pipes, terminals and pages, and names that are no text.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;
use trl_testkit::{Shell, daemon, in_each_shell};

/// Around what an engine, a terminal or a pipe may hold in one piece.
fn lengths() -> impl Iterator<Item = usize> {
    let around = |middle: usize| middle - 12..middle + 12;
    (1..40)
        .chain(around(256))
        .chain(around(800))
        .chain(around(1024))
        .chain(around(4096))
        .chain(around(8192))
        .chain(around(65536))
}

fn a_command_may_have_any_length(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for length in lengths() {
        let text = "x".repeat(length);
        session.run(&format!("v={text}; echo ${{#v}}")).exits(0).prints(&format!("{length}\n"), "");
    }
}

fn text_of_several_bytes_a_character_may_have_any_length(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for length in [255, 256, 799, 800, 801, 1023, 1024, 1025, 2047, 4094, 4095, 4096, 4097, 8191, 8192] {
        for shift in ["", "a", "ab"] {
            let text = format!("{shift}{}'\n", "é😀".repeat(length / 6));
            let quoted = text.replace('\'', r"'\''");
            session.run(&format!("printf %s '{quoted}'")).exits(0).prints(&text, "");
        }
    }
}

fn a_variable_may_have_any_length(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for length in lengths() {
        let params = json!({"command": "echo ${#V}", "env": {"V": "v".repeat(length)}});
        session.run_with(params).exits(0).prints(&format!("{length}\n"), "");
    }
    session.run("echo ${V-unset}").prints("unset\n", "");
}

fn output_may_have_any_length(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("head -c 70000 /dev/zero | tr '\\0' x >file");
    for length in lengths() {
        let ran = session.run(&format!("head -c {length} file; head -c {length} file >&2")).exits(0);
        assert_eq!((ran.stdout.len(), ran.stderr.len()), (length, length));
    }
}

fn a_directory_deeper_than_a_path_can_say_is_survived(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("kept=yes");
    let name = "d".repeat(240);
    for _ in 0..20 {
        let ran = session.run(&format!("mkdir {name} && cd {name}"));
        assert!(ran.exit_code.is_some() && !ran.timed_out, "{ran:?}");
        session.run("echo $kept").exits(0).prints("yes\n", "");
    }
    session.run("kill -9 $$").exits(137);
    session.run("echo $kept").exits(0).prints("yes\n", "");
    session.survives();
}

fn a_directory_that_is_no_text_is_entered_and_found_again(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let made = std::fs::create_dir(daemon.work().join(OsStr::from_bytes(b"no\xff\xfetext")));
    assert!(made.is_ok());
    session.ok("cd no*text && echo there >file");
    session.run("cat file").exits(0).prints("there\n", "");
    session.survives();
    session.run_with(json!({"command": "pwd", "working_dir": "/"})).exits(0).prints("/\n", "");
    session.run("cat file").exits(0).prints("there\n", "");
    session.run("kill -9 $$").exits(137);
    session.run("cat file").exits(0).prints("there\n", "");
}

fn a_value_that_is_no_text_comes_back(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("bytes=$(printf '\\377\\376\\200 \\001x'); export bytes; plain=$(printf 'a\\303')");
    let probe = "printf %s \"$bytes$plain\" | od -An -tx1; sh -c 'printf %s \"$bytes\"' | od -An -tx1";
    let expected = session.ok(probe);
    assert_eq!(expected, " ff fe 80 20 01 78 61 c3\n ff fe 80 20 01 78\n");
    session.run("kill -9 $$").exits(137);
    session.run(probe).exits(0).prints(&expected, "");
}

fn text_comes_back_whatever_the_locale(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for locale in ["C", "C.UTF-8", "POSIX", "nonsense"] {
        session.run(&format!("LC_ALL={locale}; export LC_ALL; v='é日😀'; w=$v$v")).exits(0);
        session.run("kill -9 $$").exits(137);
        let ran = session.run("printf %s \"$v/$w\"").exits(0);
        assert_eq!(ran.stdout, "é日😀/é日😀é日😀", "{locale}: {ran:?}");
    }
}

in_each_shell!(
    a_command_may_have_any_length,
    text_of_several_bytes_a_character_may_have_any_length,
    a_variable_may_have_any_length,
    output_may_have_any_length,
    a_directory_deeper_than_a_path_can_say_is_survived,
    a_directory_that_is_no_text_is_entered_and_found_again,
    a_value_that_is_no_text_comes_back,
    text_comes_back_whatever_the_locale,
);
