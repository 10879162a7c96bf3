//! `docs/cli.md` is made from the definitions of the command line. The test fails where the
//! two differ; `UPDATE=1` writes the file.

use clap::CommandFactory as _;

use crate::args::Cli;

const WIDTH: usize = 100;
const HEAD: &str = "\
# The command line

Generated from the definitions that `trl --help` shows; `UPDATE=1 cargo nextest run -p trl manual` updates it.

Exit statuses: `trl run` and `trl sh` end with the command's own; 124 on timeout, 125 if the status is unknown, 130 if the
command was cancelled before it ran, 141 if the reader of the output is gone. Errors of trl itself: 64 wrong usage, 65
unreadable input, 66 no such session, command or file, 67 no such agent, 68 no such runtime, 69 no daemon, 70 a fault of the
daemon, 71 the system refused, 73 the file exists, 75 busy or full, 77 not allowed, 78 bad settings. `trl doctor` ends with 1
if a check fails, `trl attach` with 3 if another client took over.

With `--json` the answer is one JSON object on stdout (`run --json-stream` and `logs --follow`: one per line), and so is
an error: `{\"ok\":false,\"error\":{\"code\":…,\"message\":…}}`. `code` is one of those in `docs/protocol.md`, or one of the command
line itself: `USAGE` (64), `UNAVAILABLE` (69), `SYSTEM` (71), `CONFIG` (78).
";

fn manual() -> String {
    let mut command = Cli::command().term_width(WIDTH).bin_name("trl");
    command.build();
    let mut text = HEAD.to_owned();
    section(&mut text, &command);
    text.push_str("\nThe global options go with every verb; they are not repeated below.\n");
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        section(&mut text, verb);
    }
    text
}

fn section(text: &mut String, command: &clap::Command) {
    let name = command.get_bin_name().unwrap_or("trl");
    let help = command.clone().term_width(WIDTH).render_long_help().to_string();
    let is_verb = name != "trl";
    let lines: Vec<&str> =
        help.lines().map(str::trim_end).take_while(|line| !(is_verb && *line == "Global options:")).collect();
    text.push_str(&format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end()));
}

#[test]
fn the_manual_is_what_help_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let made = manual();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == made, "docs/cli.md is out of date; UPDATE=1 writes it anew");
}

/// `trl man` makes them when it is asked, so they cannot be old; but they must be there and whole.
#[test]
fn every_verb_has_a_page_that_says_what_help_says() {
    let dir = tempfile::tempdir().unwrap();
    clap_mangen::generate_to(Cli::command(), dir.path()).unwrap();
    let page = |name: &str| std::fs::read_to_string(dir.path().join(format!("{name}.1"))).unwrap_or_default();
    for verb in Cli::command().get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let text = page(&format!("trl-{}", verb.get_name())).replace('\\', "");
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(text.contains(&about), "{}: {text}", verb.get_name());
        for option in verb.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(|arg| arg.get_long()) {
            assert!(text.contains(&format!("--{option}")), "{} --{option}", verb.get_name());
        }
    }
    assert!(page("trl").contains("TRL_"), "what the environment says is told too");
}

#[test]
fn every_verb_says_what_it_does() {
    for verb in Cli::command().get_subcommands() {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(!about.is_empty() && !about.ends_with('.') || verb.is_hide_set(), "{}", verb.get_name());
        for arg in verb.get_arguments() {
            let says = arg.get_help().is_some() || arg.is_hide_set() || arg.get_id() == "shell";
            assert!(says, "{} {}", verb.get_name(), arg.get_id());
        }
    }
}
