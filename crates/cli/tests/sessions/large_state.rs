//! Variables of many megabytes: they work, but are not kept for a new shell, and that is told.

use serde_json::json;
use trl_protocol::{Method as _, methods as m};
use trl_testkit::{GUARD, Session, Shell, daemon, in_each_shell, wait_until};

/// Large enough to be left out, and to make each print of it felt.
const BIG: &str = "big=$(head -c 5000000 /dev/zero | tr '\\0' x)";

#[track_caller]
fn put_big_and_small(session: &mut Session) {
    session.ok("small='kept  ü'; IFS=:");
    session.ok(BIG);
    let told = session.run("echo ${#big}").exits(0);
    assert_eq!(told.stdout, "5000000\n");
    assert!(told.has_note("big") && told.has_note("too large"), "{told:?}");
    session.run("another=1; echo ${#big}").exits(0).prints("5000000\n", "").quietly();
    session.run("echo $another").exits(0).prints("1\n", "").quietly();
}

#[track_caller]
fn has_small_and_no_big(session: &mut Session) {
    let next = session.run("echo \"$small|${big-none}|$another|$IFS\"").exits(0);
    assert_eq!(next.stdout, "kept  ü|none|1|:\n");
    assert!(next.has_note("without big"), "{next:?}");
    session.survives();
}

fn a_large_variable_is_told_and_left_out(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    put_big_and_small(&mut session);
    session.run("kill -9 $$").exits(137);
    has_small_and_no_big(&mut session);
    put_big_and_small(&mut session);
    // What a command leaves is on disk when the next one runs.
    session.ok(":");
    session.kill_host();
    wait_until("the session is lost", GUARD, || session.info()["state"] == "lost");
    let params = session.params(json!({}));
    session.connection.ok(m::SessionRestart::NAME, params);
    has_small_and_no_big(&mut session);
}

fn one_that_is_small_again_is_kept_again(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    put_big_and_small(&mut session);
    session.ok("big=small");
    session.ok(":");
    session.run("kill -9 $$").exits(137);
    let next = session.run("echo $big").exits(0);
    assert_eq!(next.stdout, "small\n");
    assert!(!next.has_note("without"), "{next:?}");
}

in_each_shell!(a_large_variable_is_told_and_left_out, one_that_is_small_again_is_kept_again);

#[test]
fn large_lists_are_left_out_and_others_come_back() {
    for (shell, fill, count) in [
        (Shell::Bash, "huge=({1..300000}); declare -A map=([k]='v w'); set -u", "${#huge[@]}"),
        (Shell::Zsh, "huge=({1..900000}); typeset -A map=(k 'v w'); setopt nounset", "${#huge}"),
    ] {
        let daemon = daemon!();
        let mut session = daemon.session(shell);
        session.ok("list=(a 'b  c' 'ü'); export EXPORTED=out; few=(1)");
        session.ok(fill);
        assert!(session.run(&format!("echo {count}")).exits(0).has_note("huge"));
        session.run("kill -9 $$").exits(137);
        let back = session.run("echo \"${map[k]} ${#list[@]} ${list[@]} ${few[@]} ${huge-none}\"").exits(0);
        assert_eq!(back.stdout, "v w 3 a b  c ü 1 none\n");
        assert!(back.has_note("without huge"), "{back:?}");
        session.run("echo $EXPORTED; echo $nothing").exits(1);
    }
}
