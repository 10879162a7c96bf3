//! The shell reads the command, byte for byte, and nothing else does.

use serde_json::json;
use trl_testkit::{Shell, daemon, in_each_shell, process};

fn an_unterminated_quote_is_an_error_at_once(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for command in [
        "echo \"abc",
        "echo 'abc",
        "echo `abc",
        "echo $(abc",
        "echo ${abc",
        "if true; then",
        "f() {",
        "case x in",
        "for x in 1 2; do echo $x",
        "while true; do",
        "( echo x",
        "{ echo x",
    ] {
        let ran = session.run(command);
        assert_eq!(ran.exit_code, Some(shell.syntax_error()), "{command:?}: {ran:?}");
        assert!(ran.stdout.is_empty() && !ran.stderr.is_empty() && !ran.timed_out, "{command:?}: {ran:?}");
        session.keeps_state();
    }
    assert_eq!(session.info()["restarts"], 0);
}

fn a_stray_end_is_an_error_and_nothing_after_it_runs(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for command in [
        "echo hi; }; touch hit",
        "}",
        ")",
        "fi",
        "done",
        "esac",
        "echo a; fi; touch hit",
        ";;",
        "&& touch hit",
        "| touch hit",
        "then\ntouch hit",
        "fi\ntouch hit",
        "echo )\ntouch hit",
    ] {
        let ran = session.run(command);
        assert_eq!(ran.exit_code, Some(shell.syntax_error()), "{command:?}: {ran:?}");
        assert!(!ran.stderr.is_empty(), "{command:?}: {ran:?}");
        session.keeps_state();
    }
    assert!(!process::exists(daemon.work().join("kept/hit")));
}

fn lines_before_an_error_have_run_as_in_any_script(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let ran = session.run("echo one\nfi\necho two").exits(shell.syntax_error());
    // zsh reads a command whole before it runs any of it.
    assert_eq!(ran.stdout, if shell == Shell::Zsh { "" } else { "one\n" }, "{ran:?}");
}

fn here_documents_are_exact(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.ok("name=world");
    for (command, stdout) in [
        ("cat << 'EOF'\nhello $name `x` \\\nEOF", "hello $name `x` \\\n"),
        ("cat <<EOF\nhello $name $((1+1))\nEOF", "hello world 2\n"),
        ("cat <<EOF\nhello\nEOF\n", "hello\n"),
        ("cat <<-EOF\n\t\ttabs\n\tEOF", "tabs\n"),
        ("cat <<A; cat <<B\none\nA\ntwo\nB", "one\ntwo\n"),
        ("f() {\ncat <<EOF\nin $1\nEOF\n}\nf a; f b", "in a\nin b\n"),
        ("cat <<'EOF'\nEOF;\nEOF \n EOF\nEOF", "EOF;\nEOF \n EOF\n"),
        ("cat <<EOF && echo after\nbody\nEOF", "body\nafter\n"),
        ("cat <<EOF | tr a-z A-Z\nbody\nEOF\necho end", "BODY\nend\n"),
        ("cat <<''\nempty\n\necho next", "empty\nnext\n"),
        ("x=$(cat <<EOF\nnested\nEOF\n)\necho \"[$x]\"", "[nested]\n"),
    ] {
        session.run(command).exits(0).prints(stdout, "");
    }
}

fn an_unterminated_here_document_ends(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    let ran = session.run("cat <<EOF\nfoo");
    assert!(!ran.timed_out && (ran.stdout.is_empty() || ran.stdout.trim_end() == "foo"), "{ran:?}");
    session.keeps_state();
}

fn a_large_heredoc_arrives_whole(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let body = "0123456789abcde\n".repeat(64 * 1024);
    session.run(&format!("wc -c <<'EOF'\n{body}EOF")).exits(0).prints("1048576\n", "");
}

fn ends_of_commands_that_look_unfinished_are_fine(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for (command, stdout) in [
        ("echo hi # comment", "hi\n"),
        ("echo hi;", "hi\n"),
        ("echo hi &", ""),
        ("false || true #", ""),
        ("echo hi#there", "hi#there\n"),
        ("echo hi\n", "hi\n"),
        ("echo hi\n\n\n", "hi\n"),
        ("  echo hi  ", "hi\n"),
        ("\techo hi", "hi\n"),
        ("echo hi \\\nthere", "hi there\n"),
        ("echo 'a\nb'", "a\nb\n"),
    ] {
        let ran = session.run(command).exits(0).without_job_notices();
        if command.ends_with('&') {
            assert_eq!(ran.stderr, "", "no notice about a job: {ran:?}");
        } else {
            ran.prints(stdout, "");
        }
    }
}

fn a_trailing_backslash_changes_nothing(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("echo hi \\").exits(0).prints("hi\n", "");
    session.survives();
}

fn many_lines_run_as_a_script(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for (command, stdout) in [
        ("echo 1\necho 2\n\n\necho 3", "1\n2\n3\n"),
        ("if true\nthen\n  echo yes\nelse\n  echo no\nfi", "yes\n"),
        ("for x in a b\ndo\n  echo $x\ndone", "a\nb\n"),
        ("n=0\nwhile [ $n -lt 3 ]\ndo\n  n=$((n+1))\n  echo $n\ndone", "1\n2\n3\n"),
        ("case abc in\n  a*) echo starts;;\n  *) echo other;;\nesac", "starts\n"),
        ("square() {\n  echo $(($1 * $1))\n}\nsquare 7", "49\n"),
        ("(\n  cd /\n  pwd\n)\n{ echo block\n}", "/\nblock\n"),
        ("echo a &&\necho b ||\necho c", "a\nb\n"),
        ("echo a |\n  tr a b", "b\n"),
    ] {
        session.run(command).exits(0).prints(stdout, "");
    }
    session.run("echo first\nfalse\necho last").exits(0).prints("first\nlast\n", "");
    session.run("true\nfalse").exits(1);
}

fn odd_bytes_reach_the_shell_unchanged(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for text in [
        "\"double\" `back` $dollar \\",
        "\u{2028}\u{2029}",
        "\u{1f600}\u{1f468}\u{200d}\u{1f469}",
        "\u{7f}\u{1}\u{1b}[31m",
        "tab\there",
        "r\rn",
        "\u{feff}bom",
        "日本語",
        "a\\nb\\0c",
        "!! !x ^a^b",
        "%s%d",
        "~ * ? [a]",
    ] {
        session.run(&format!("printf %s '{text}'")).exits(0).prints(text, "");
        session.run(&format!("cat <<'EOF'\n{text}\nEOF")).exits(0).prints(&format!("{text}\n"), "");
    }
    session.run("printf '%s' 'it'\\''s'").prints("it's", "");
    session.run("echo \"bang!\" !! !$").exits(0).prints("bang! !! !$\n", "");
}

fn line_ends_of_another_system_are_not_hidden(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.run("echo hi\r\n").exits(0).prints("hi\r\n", "");
    assert_eq!(session.run("true\r\n").exit_code, Some(127));
    assert_eq!(session.run("\u{feff}true").exit_code, Some(127));
    session.survives();
}

fn a_nul_is_refused(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.refused(json!({"command": "touch hit\u{0}"}), "INVALID_PARAMS");
    session.refused(json!({"command": "\u{0}"}), "INVALID_PARAMS");
    session.survives();
    assert!(!process::exists(daemon.work().join("hit")));
}

fn what_is_no_command_fails_in_the_shell(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    for command in [
        "[\"ls\"]",
        "{'command': 'ls'}",
        "{\"command\":\"ls\"}",
        "import os",
        "<html>",
        "no-such-command-here",
        "./no-such-file",
        "/dev/null",
        "/",
    ] {
        let ran = session.run(command);
        assert!(ran.exit_code.is_some_and(|code| code != 0), "{command:?}: {ran:?}");
        assert!(!ran.stderr.is_empty(), "{command:?}: {ran:?}");
        session.survives();
    }
    session.run("no-such-command-here").exits(127);
    session.run("/dev/null").exits(126);
}

fn a_long_command_runs_whole(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    let long = "x".repeat(1_000_000);
    session.run(&format!("v='{long}'; echo ${{#v}}")).exits(0).prints("1000000\n", "");
    let script = "n=$((n+1))\n".repeat(20_000);
    session.run(&format!("n=0\n{script}echo $n")).exits(0).prints("20000\n", "");
    let comments = "# nothing\n".repeat(100_000);
    session.run(&format!("{comments}echo end")).exits(0).prints("end\n", "");
}

fn leaving_what_one_is_not_in_changes_nothing(shell: Shell) {
    let daemon = daemon!();
    let mut session = daemon.session(shell);
    session.put_state();
    for command in
        ["break", "continue", "break 5", "shift 2>/dev/null", "local x=1", "set --", "set -- a b c"]
    {
        let ran = session.run(command);
        assert!(!ran.timed_out && ran.exit_code.is_some(), "{command}: {ran:?}");
        session.keeps_state();
    }
    session.run("return 7").exits(7).quietly();
    session.run("return 7; touch hit").exits(7).quietly();
    session.run("f() { return 5; }; f").exits(5).quietly();
    session.keeps_state();
    assert!(!process::exists(daemon.work().join("kept/hit")));
}

in_each_shell!(
    an_unterminated_quote_is_an_error_at_once,
    a_stray_end_is_an_error_and_nothing_after_it_runs,
    lines_before_an_error_have_run_as_in_any_script,
    here_documents_are_exact,
    an_unterminated_here_document_ends,
    a_large_heredoc_arrives_whole,
    ends_of_commands_that_look_unfinished_are_fine,
    a_trailing_backslash_changes_nothing,
    many_lines_run_as_a_script,
    odd_bytes_reach_the_shell_unchanged,
    line_ends_of_another_system_are_not_hidden,
    a_nul_is_refused,
    what_is_no_command_fails_in_the_shell,
    a_long_command_runs_whole,
    leaving_what_one_is_not_in_changes_nothing,
);

#[test]
fn what_only_larger_shells_understand_is_understood() {
    for shell in [Shell::Bash, Shell::Zsh] {
        let daemon = daemon!();
        let mut session = daemon.session(shell);
        for (command, stdout) in [
            ("a=x; b=x; [[ $a == $b ]] && echo same", "same\n"),
            ("A=(); echo x", "x\n"),
            ("cat <(echo one) <(echo two)", "one\ntwo\n"),
            ("echo {1..3} {a,b}c", "1 2 3 ac bc\n"),
            ("printf %s $'a\\tb\\x41'", "a\tbA"),
            ("cat <<< \"here $((6*7))\"", "here 42\n"),
            ("for ((i=0; i<3; i++)); do echo $i; done", "0\n1\n2\n"),
            ("[[ abc =~ ^a.c$ ]] && echo match", "match\n"),
            ("echo hi |& cat", "hi\n"),
            ("function f { echo \"f $1\"; }; f x", "f x\n"),
            ("echo one > >(cat); wait", "one\n"),
            ("coproc cat; kill $! 2>/dev/null; wait 2>/dev/null; echo over", "over\n"),
        ] {
            let ran = session.run(command).exits(0);
            assert_eq!(ran.stdout, stdout, "{shell:?} {command}: {ran:?}");
        }
    }
}

/// Words that ask where a text comes from do not change what `return` does.
#[test]
fn return_ends_the_text_whatever_else_it_says() {
    let daemon = daemon!();
    let mut session = daemon.session(Shell::Bash);
    for word in ["caller", "FUNCNAME", "BASH_SOURCE", "BASH_LINENO"] {
        session.run(&format!("echo {word}; return 7; echo no")).exits(7).prints(&format!("{word}\n"), "");
    }
}
