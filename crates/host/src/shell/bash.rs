//! bash: the reference dialect.
//!
//! The text is sourced: no notices of jobs, `return` works, a syntax error is status
//! 2. Where sourcing would show, it runs by `eval` instead: when the user has traps
//! on DEBUG or RETURN, which sourcing hides or sets off, and when the text asks where
//! it comes from. `LINENO` is then put to 1 by the arithmetic in a redirection, which
//! leaves `$?` alone.

use std::collections::BTreeMap;

use super::careful;
use super::dialect::{
    BackgroundStart, Dialect, END_OF_COVERED, Launch, SAVED_PROMPT, SEPARATOR, Settle, is_plain_name,
    is_special, split_covered,
};
use super::messages::Wording;
use super::prompt::MARK;
use super::quote::{ansi, single};
use super::snapshot::{Entries, Hidden, Snapshot, Traps, split_entries, split_functions};

/// bash is slow with long quoted words; from here on a file (and a fork) is cheaper.
const INLINE_TEXT: usize = 800;
/// Options that would end, blind or disturb the restored shell, or belong to the engine.
const NEVER_SET: &[&str] =
    &["noexec", "onecmd", "history", "monitor", "emacs", "vi", "interactive-comments", "privileged"];

#[derive(Debug)]
pub struct Bash;

impl Dialect for Bash {
    fn arguments(&self, rc: bool) -> &'static [&'static str] {
        if rc { &["--noediting", "-i"] } else { &["--norc", "--noprofile", "--noediting", "-i"] }
    }

    fn start_env(&self) -> &'static [(&'static str, &'static str)] {
        // Without a history file nothing is read from the user's own history or written to it.
        &[("HISTFILE", "")]
    }

    fn init_line(&self, nonce: &str) -> String {
        // Printable throughout: a start-up file may have switched line editing on, where others are keys. What the
        // user's hooks write around prompts is no command's output, on a terminal neither. Line editing may show only
        // the line's end: that has the mark, too.
        format!(
            " PS1=$'\\E_trl;{nonce};$?;$-;\\\\#;${{PWD-}}\\a' PS2=; \\set +o history; \\set +o vi; \\set +o emacs; \\unset HISTFILE; \\history -c; \\exec >&2; : '{MARK}'\n"
        )
    }

    fn run_line(&self, launch: &Launch<'_>) -> String {
        let cwd = launch.cwd.map(|dir| format!("\\builtin cd -- {} && ", ansi(dir))).unwrap_or_default();
        let env: String = launch.env.iter().map(|(name, value)| format!("{name}={} ", ansi(value))).collect();
        let hide = launch.hidden.map(|hidden| self.hide(hidden, launch.state)).unwrap_or_default();
        let words = Words::for_state(launch.state);
        // `return` works only in what is sourced.
        let shows = asks_for_its_source(launch.text) && !launch.text.contains("return");
        if !words.is_plain() || shows {
            return eval_line(launch, &words, &format!("{hide}{cwd}{env}"));
        }
        let Launch { text_path, stdin, stdout, stderr, .. } = launch;
        let line = [
            " ", &hide, &cwd, &env, words.dot, " ", text_path, " <", stdin, " >|", stdout, " 2>|", stderr,
            "\n",
        ];
        if launch.keep_copies {
            return format!(" {}\n", with_copies(line.concat().trim(), words.eval));
        }
        line.concat()
    }

    fn query_line(&self, nonce: &str) -> String {
        // With line editing on, the prompt goes to the terminal instead of to us, and the line must be printable.
        format!(
            " {SAVED_PROMPT}=$PS1 PS1=$'\\E_trl;{nonce};'\"$?\"$';$-;\\\\#;${{PWD-}}\\a'; \\builtin set +o vi; \\builtin set +o emacs\n"
        )
    }

    fn settle_script(&self, settle: &Settle<'_>) -> String {
        let mut script = String::new();
        if settle.prompt_back {
            script.push_str(&format!("PS1=${SAVED_PROMPT}\nbuiltin unset {SAVED_PROMPT}\n"));
        }
        if let Some(dir) = settle.cwd_back {
            script.push_str(&format!(
                "builtin cd -- {}\n{}\n",
                single(dir),
                settle.state.old_dir.as_deref().unwrap_or("unset OLDPWD")
            ));
        }
        if settle.env_back.contains("POSIXLY_CORRECT") && !is_posix(settle.state) {
            // Setting it switches POSIX mode on, and its end does not switch that off.
            script.push_str("builtin set +o posix\nbuiltin unset POSIXLY_CORRECT\n");
        }
        for name in settle.hidden.iter().flat_map(|hidden| &hidden.names) {
            script.push_str(&format!("[[ -v {name} ]] && builtin export {name}\n"));
        }
        for name in settle.hidden.iter().flat_map(|hidden| &hidden.functions) {
            script.push_str(&format!("builtin export -f {}\n", single(name)));
        }
        for text in
            settle.history.iter().map(|text| text.trim_end_matches('\n')).filter(|text| !text.is_empty())
        {
            script.push_str(&format!("builtin history -s -- {}\n", single(text)));
        }
        let mark = "builtin printf '\\36\\n'\n";
        let print = if settle.careful { careful::bash() } else { "builtin declare -p\n".to_owned() };
        script.push_str(&format!(
            "{mark}{print}{mark}builtin declare -F\n{mark}builtin declare -f\n{mark}builtin alias -p\n{mark}"
        ));
        script.push_str(&format!("builtin return {}\n", settle.status));
        script
    }

    fn settle_line(&self, script: &str, dump: &str, uncover: bool) -> String {
        // The left side of `&&` may fail without ERR traps or `set -e` noticing.
        let body = if uncover {
            format!(
                "( \\typeset -F; \\typeset -f; \\unset -f . source eval builtin command declare typeset printf return history cd trap alias; {END_OF_COVERED}; \\trap -p; \\. {script} )"
            )
        } else {
            // Inside a sourced file a DEBUG trap would not be listed.
            format!("{{ \\builtin trap -p; \\. {script}; }}")
        };
        format!(" {body} </dev/null >|{dump} 2>|/dev/null && [[ 1 ]]\n")
    }

    fn restore_line(&self, script: &str) -> String {
        format!(" \\. {script} </dev/null >|/dev/null 2>&1 && [[ 1 ]]\n")
    }

    fn read_dump(&self, dump: &str) -> Option<Snapshot> {
        let mut sections = dump.split(SEPARATOR);
        let (before, variables) = (sections.next()?, sections.next()?);
        let (names, functions, aliases) = (sections.next()?, sections.next()?, sections.next()?);
        sections.next()?;
        let (covered_names, covered, traps) = split_covered(before, " () \n");
        let mut snapshot = Snapshot {
            functions: read_functions(names, functions),
            traps: read_traps(traps),
            ..Snapshot::default()
        };
        snapshot.functions.extend(read_functions(covered_names, covered));
        let entries = split_entries(variables);
        snapshot.too_large = careful::too_large(&entries);
        snapshot.partial = !careful::is_whole(&entries);
        for entry in entries {
            read_variable(&mut snapshot, entry);
        }
        for entry in split_entries(aliases) {
            read_alias(&mut snapshot.aliases, entry);
        }
        Some(snapshot)
    }

    fn background_arguments(&self) -> &'static [&'static str] {
        &["--norc", "--noprofile", "-c"]
    }

    fn background_prelude(&self, env: &BTreeMap<String, String>) -> String {
        let own = |name: &str| match env.get(name) {
            Some(value) => format!("export {name}={}\n", single(value)),
            None => format!("unset {name}\n"),
        };
        // Both stood aside for the prelude.
        format!("{}{}shopt -s expand_aliases\n", own("BASH_ENV"), own("POSIXLY_CORRECT"))
    }

    /// Aliases hold from the line after the one that defines them, so the prelude is a start-up file.
    fn background_start(&self, prelude: &str, text: &str, _: bool) -> BackgroundStart {
        BackgroundStart { text: text.to_owned(), start_up_file: Some(("BASH_ENV", prelude.to_owned())) }
    }

    fn hide(&self, hidden: &Hidden, state: &Snapshot) -> String {
        let export = match (state.functions.contains_key("builtin"), state.functions.contains_key("command"))
        {
            (false, _) => "\\builtin export",
            (true, false) => "\\command export",
            (true, true) => "\\export",
        };
        let functions: Vec<String> = hidden.functions.iter().map(|name| single(name)).collect();
        let functions = match functions.is_empty() {
            true => String::new(),
            false => format!("{export} -nf {}; ", functions.join(" ")),
        };
        format!("{export} -n {}; {functions}", hidden.names.join(" "))
    }

    fn background(&self, entry: &str) -> String {
        // Sourced in one file, an integer whose value cannot be evaluated would end everything.
        match entry.strip_prefix("declare -").and_then(|rest| rest.split_once(' ')) {
            Some((flags, rest)) if flags.contains('i') && self.is_risky(entry) => {
                let flags = flags.replace('i', "");
                format!("declare -{} {rest}\n", if flags.is_empty() { "-" } else { &flags })
            }
            _ => self.guard(entry),
        }
    }

    fn wording(&self) -> Option<Wording> {
        Some(Wording::Bash)
    }

    fn copies_end(&self) -> Option<u64> {
        Some(254)
    }

    fn may_hide_syntax_error(&self) -> bool {
        // `eval` of a text with an unterminated quote leaves `$?` as it was (seen in 5.2).
        true
    }

    fn is_risky(&self, entry: &str) -> bool {
        // The value of an integer is evaluated; a bad one ends the sourced file.
        entry
            .strip_prefix("declare -")
            .and_then(|rest| rest.split(' ').next())
            .is_some_and(|flags| flags.contains('i'))
    }

    fn is_own_failure(&self, complaint: &str) -> bool {
        [
            ": LINENO: readonly variable",
            ": eval: command not found",
            ": .: command not found",
            ": builtin: command not found",
        ]
        .iter()
        .any(|words| complaint.contains(words))
    }
}

/// Copies of the shell's own descriptors while the text runs, from which they are put back, whatever
/// the text has closed. `$?` is what it was.
fn with_copies(run: &str, eval: &str) -> String {
    let [stdin, stdout, stderr] = COPIES;
    format!(
        "{{ {run}; {eval} \"\\exec <&{stdin} >&{stdout} 2>&{stderr}; ( \\exit $? )\"; }} {stdin}<&0 {stdout}>&1 {stderr}>&2"
    )
}

/// Numbers that texts do not use; below [`Dialect::copies_end`].
const COPIES: [i32; 3] = [251, 252, 253];

fn is_posix(state: &Snapshot) -> bool {
    state.options.get("posix").is_some_and(|option| option.starts_with("set -o"))
}

/// Whether the text could notice that it is sourced.
fn asks_for_its_source(text: &str) -> bool {
    ["BASH_SOURCE", "FUNCNAME", "BASH_LINENO", "caller"].iter().any(|word| text.contains(word))
}

fn eval_line(launch: &Launch<'_>, words: &Words, before: &str) -> String {
    let text = match (&words.prelude, launch.text.len() <= INLINE_TEXT) {
        (Some(prelude), _) => ansi(&format!("{prelude}{}\n", launch.text)),
        (None, true) => ansi(&format!("{}\n", launch.text)),
        (None, false) => format!("\"$(<{})\"$'\\n'", launch.text_path),
    };
    let first_line = 1 - words.prelude.as_ref().map_or(0, |prelude| prelude.matches('\n').count() as i64);
    let (dir, stdout) = launch.stdout.rsplit_once('/').unwrap_or(("", launch.stdout));
    format!(
        " {}{before}{} {text} <{} >|{dir}/$((LINENO={first_line},{stdout})) 2>|{}\n",
        words.uncover, words.eval, launch.stdin, launch.stderr
    )
}

/// The words that still mean what we mean, whatever functions the user has defined.
#[derive(Debug, Default)]
struct Words {
    /// How to source a file; empty if that would be noticed or cannot be done.
    dot: &'static str,
    eval: &'static str,
    uncover: String,
    /// Definitions to put back in front of the user's text.
    prelude: Option<String>,
}

impl Words {
    fn is_plain(&self) -> bool {
        !self.dot.is_empty()
    }

    fn for_state(state: &Snapshot) -> Words {
        let taken = |name: &str| state.functions.contains_key(name);
        let posix = is_posix(state);
        let dot = match (taken("."), taken("builtin"), taken("command")) {
            _ if state.traps == Traps::AroundSource => "",
            // In POSIX mode only `command` keeps assignments before a special builtin temporary.
            (_, _, false) if posix => "\\command .",
            (false, _, _) => "\\.",
            (true, false, _) => "\\builtin .",
            (true, true, false) => "\\command .",
            (true, true, true) => "",
        };
        let (eval, uncover, prelude) = match (taken("eval"), taken("builtin"), taken("command")) {
            (_, _, false) if posix => ("\\command eval", "", None),
            (false, _, _) => ("\\eval", "", None),
            (true, false, _) => ("\\builtin eval", "", None),
            (true, true, false) => ("\\command eval", "", None),
            (true, true, true) => ("\\eval", "\\unset -f eval; ", state.functions.get("eval").cloned()),
        };
        Words { dot, eval, uncover: uncover.to_owned(), prelude }
    }
}

fn read_traps(listing: &str) -> Traps {
    let mut traps = listing.lines().filter(|line| line.starts_with("trap -- ")).peekable();
    match traps.peek() {
        None => Traps::None,
        Some(_) if listing.lines().any(|line| line.ends_with(" DEBUG") || line.ends_with(" RETURN")) => {
            Traps::AroundSource
        }
        Some(_) => Traps::Some,
    }
}

/// `declare -F` tells the names, `declare -f` the functions.
fn read_functions(names: &str, functions: &str) -> Entries {
    let listed = names.lines().filter(|line| line.starts_with("declare -f"));
    let listed = listed.filter_map(|line| line.split(' ').nth(2));
    let mut functions = split_functions(functions, listed, |name| match is_reserved(name) {
        true => format!("function {name} () "),
        false => format!("{name} () "),
    });
    for name in names.lines().filter_map(|line| line.strip_prefix("declare -fx ")) {
        if let Some(function) = functions.get_mut(name) {
            function.push_str(&format!("export -f {}\n", single(name)));
        }
    }
    functions
}

/// bash writes `function` before names that would else begin something.
fn is_reserved(name: &str) -> bool {
    const WORDS: &[&str] = &[
        "if", "then", "else", "elif", "fi", "case", "esac", "for", "select", "while", "until", "do", "done",
        "in", "function", "time", "{", "}", "!", "[[", "]]", "coproc",
    ];
    WORDS.contains(&name)
}

/// One line of `declare -p`: `declare -FLAGS NAME[=VALUE]`.
fn read_variable(snapshot: &mut Snapshot, entry: &str) {
    let Some((flags, rest)) = entry.strip_prefix("declare -").and_then(|rest| rest.split_once(' ')) else {
        return;
    };
    let (name, value) = rest.split_once('=').map_or((rest, None), |(name, value)| (name, Some(value)));
    match (name, value) {
        ("SHELLOPTS", Some(value)) => {
            snapshot.options.extend(options(value, SET_OPTIONS, "set -o", "set +o"))
        }
        ("BASHOPTS", Some(value)) => {
            snapshot.options.extend(
                value
                    .trim_matches('"')
                    .split(':')
                    .map(|name| (format!("shopt {name}"), format!("shopt -s {name}"))),
            );
        }
        _ => {}
    }
    if name == "OLDPWD" && value.is_some() {
        snapshot.old_dir = Some(entry.to_owned());
    }
    if flags.contains('r') {
        snapshot.readonly.insert(name.to_owned());
    }
    if is_special(name) || !is_plain_name(name) {
        return;
    }
    if flags.contains('r') {
        snapshot.constants.insert(name.to_owned(), entry.to_owned());
        return;
    }
    if flags.contains('x') {
        snapshot.exported.insert(name.to_owned());
    }
    // Restored from inside a sourced file at top level, where `declare` is global.
    snapshot.variables.insert(name.to_owned(), entry.to_owned());
}

const SET_OPTIONS: &[&str] = &[
    "allexport",
    "braceexpand",
    "errexit",
    "errtrace",
    "functrace",
    "hashall",
    "histexpand",
    "ignoreeof",
    "keyword",
    "noclobber",
    "noglob",
    "nolog",
    "notify",
    "nounset",
    "physical",
    "pipefail",
    "posix",
    "verbose",
    "xtrace",
];

fn options<'a>(
    list: &'a str,
    known: &'a [&'a str],
    on: &'a str,
    off: &'a str,
) -> impl Iterator<Item = (String, String)> + 'a {
    let set: Vec<&str> = list.trim_matches('"').split(':').collect();
    known.iter().filter(|name| !NEVER_SET.contains(name)).map(move |name| {
        let command = if set.contains(name) { on } else { off };
        ((*name).to_owned(), format!("{command} {name}"))
    })
}

/// `alias ll='ls -l'`. A name that bash would not take back is left out.
fn read_alias(aliases: &mut Entries, entry: &str) {
    let Some((name, value)) = entry.strip_prefix("alias ").and_then(|rest| rest.split_once('=')) else {
        return;
    };
    let sound =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-+.:@%,!".contains(&b));
    if sound {
        aliases.insert(name.to_owned(), format!("alias -- {name}={value}"));
    }
}
