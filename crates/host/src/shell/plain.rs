//! Commands that cannot change the shell they run in.
//!
//! `git status` or `/bin/true` is a program of its own: the state after it is the
//! state before, and need not be printed again. Anything that is not plainly so
//! (an assignment, an expansion, a list, a builtin, a function, a hook of the
//! user's) counts as a change. Wrong in the other direction only costs time.

use super::snapshot::{Snapshot, Traps};

/// Builtins that only print or compare.
const HARMLESS: &[&str] = &[":", "true", "false", "echo", "pwd", "test"];

/// Words that are not programs in bash, zsh or dash, or not surely so.
const BUILTINS: &[&str] = &[
    ".",
    "alias",
    "autoload",
    "bg",
    "bind",
    "bindkey",
    "break",
    "builtin",
    "bye",
    "caller",
    "cap",
    "case",
    "cd",
    "chdir",
    "clone",
    "command",
    "compadd",
    "compctl",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disable",
    "disown",
    "do",
    "done",
    "echotc",
    "echoti",
    "elif",
    "else",
    "emulate",
    "enable",
    "end",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "fc",
    "fg",
    "fi",
    "float",
    "for",
    "foreach",
    "function",
    "functions",
    "getcap",
    "getln",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "integer",
    "jobs",
    "kill",
    "let",
    "limit",
    "local",
    "log",
    "logout",
    "mapfile",
    "noglob",
    "nocorrect",
    "popd",
    "print",
    "printf",
    "private",
    "pushd",
    "pushln",
    "r",
    "read",
    "readarray",
    "readonly",
    "rehash",
    "repeat",
    "return",
    "sched",
    "select",
    "set",
    "setcap",
    "setopt",
    "shift",
    "shopt",
    "source",
    "stat",
    "suspend",
    "then",
    "time",
    "times",
    "trap",
    "ttyctl",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unfunction",
    "unhash",
    "unlimit",
    "unset",
    "unsetopt",
    "until",
    "vared",
    "wait",
    "whence",
    "where",
    "which",
    "while",
    "zcompile",
    "zformat",
    "zle",
    "zmodload",
    "zparseopts",
    "zprof",
    "zpty",
    "zregexparse",
    "zsocket",
    "zstyle",
    "ztcp",
];

/// Whether the text leaves a state alone that has no hooks (see [`has_hooks`]).
pub fn leaves_state_alone(text: &str, state: &Snapshot) -> bool {
    let text = text.trim_end_matches('\n');
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_./:@%+,-= ".contains(&b);
    if !text.bytes().all(plain) {
        return false;
    }
    let Some(first) = text.split(' ').find(|word| !word.is_empty()) else { return true };
    if state.functions.contains_key(first) || state.aliases.contains_key(first) {
        return false;
    }
    let is_path = first.starts_with('/') || first.starts_with("./") || first.starts_with("../");
    let is_name = first.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
    let is_program = (is_path || is_name) && !first.contains(['=', '%', '@', ':']);
    HARMLESS.contains(&first) || (is_program && !BUILTINS.contains(&first))
}

/// Whether code of the user's runs around every command; then no text leaves the state alone.
pub fn has_hooks(state: &Snapshot) -> bool {
    let hook = |name: &str| {
        matches!(name, "precmd" | "preexec" | "periodic" | "chpwd" | "zshaddhistory")
            || name.starts_with("TRAP")
    };
    state.traps != Traps::None
        || state.variables.contains_key("PROMPT_COMMAND")
        || state.variables.keys().any(|name| name.ends_with("_functions"))
        || state.functions.keys().any(|name| hook(name))
        // Global and suffix aliases of zsh apply to any word.
        || state.aliases.values().any(|alias| alias.starts_with("alias -g") || alias.starts_with("alias -s"))
}

/// Whether the text may start a background job in the shell, itself or through a function, an
/// alias or a file.
pub fn may_start_jobs(text: &str, state: &Snapshot) -> bool {
    let word = |text: &str, name: &str| words(text).any(|word| word == name);
    let reads_more = [".", "source", "eval", "coproc", "bg", "trap"].iter().any(|name| word(text, name));
    let defined = state.functions.iter().chain(&state.aliases);
    let mut with_jobs = defined.filter(|(_, body)| has_async(body) || body.contains("coproc"));
    reads_more || has_async(text) || with_jobs.any(|(name, _)| word(text, name))
}

/// Whether the text may list jobs, itself or through what it reads or calls.
pub fn may_list_jobs(text: &str, state: &Snapshot) -> bool {
    let called = words(text).flat_map(|word| [state.functions.get(word), state.aliases.get(word)]);
    lists_jobs(text) || called.flatten().any(|body| lists_jobs(body))
}

fn lists_jobs(text: &str) -> bool {
    words(text).any(|word| ["jobs", "source", "eval"].contains(&word))
        || text.split(['\n', ';', '&', '|', '(', '{']).any(|command| command.trim_start().starts_with(". "))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || "_.-".contains(c)))
}

/// An `&` that is not part of `&&`, `>&`, `<&` or `&>`.
pub fn has_async(text: &str) -> bool {
    let bytes = text.as_bytes();
    let at = |index: Option<usize>| index.and_then(|index| bytes.get(index)).copied().unwrap_or(b' ');
    (0..bytes.len()).any(|index| {
        bytes[index] == b'&'
            && !b"&<>".contains(&at(index.checked_sub(1)))
            && !b"&>".contains(&at(index.checked_add(1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(function: &str, alias: &str) -> Snapshot {
        let mut state = Snapshot::default();
        state.functions.insert(function.into(), String::new());
        state.aliases.insert(alias.into(), format!("alias {alias}=x"));
        state
    }

    #[test]
    fn programs_and_printing_leave_the_state_alone() {
        for text in [
            ":",
            "true",
            "",
            "  ",
            "/bin/true",
            "ls -la /tmp",
            "git status",
            "./run x=1",
            "dd if=/dev/zero count=1",
            "echo hi\n",
        ] {
            assert!(leaves_state_alone(text, &Snapshot::default()), "{text}");
        }
    }

    #[test]
    fn whatever_may_change_it_does_not() {
        let texts = [
            "x=1",
            "cd /",
            "a;b",
            "a&",
            "$x",
            "`x`",
            "a\nb",
            "f",
            "q",
            "exit",
            "source x",
            ". x",
            "a|b",
            "a>b",
            "echo *",
            "(a)",
            "%1",
            "export A=1",
            "kill 1",
            "A=1 ls",
            "wait",
            "printf x",
            "set",
            "!!",
            "~/x",
            "[ a ]",
            "a\tb",
        ];
        for text in texts {
            assert!(!leaves_state_alone(text, &state("f", "q")), "{text}");
        }
    }

    #[test]
    fn jobs_are_started_by_an_ampersand_or_what_has_one() {
        let mut state = state("f", "q");
        for text in ["a &", "(a; b) & c", "a&\nb", ". ./x", "eval \"$x\"", "coproc a"] {
            assert!(may_start_jobs(text, &state), "{text}");
        }
        for text in ["a && b", "a >&2", "a 2>&1", "a &>x", "a <&3", "f", "wait", "ls -l .."] {
            assert!(!may_start_jobs(text, &state), "{text}");
        }
        state.functions.insert("f".to_owned(), "f () { a & }".to_owned());
        assert!(may_start_jobs("f", &state) && !may_start_jobs("ff", &state));
    }

    #[test]
    fn jobs_are_listed_by_their_builtin_or_by_what_may_call_it() {
        let mut state = state("f", "q");
        for text in ["jobs", "x; jobs -l", "(jobs)", "eval \"$x\"", "$(jobs -p)", ". ./x"] {
            assert!(may_list_jobs(text, &state), "{text}");
        }
        for text in ["make", "cat jobs.txt", "ls ..", "git add .", "f", "wait"] {
            assert!(!may_list_jobs(text, &state), "{text}");
        }
        state.functions.insert("g".to_owned(), "g () { jobs; }".to_owned());
        assert!(may_list_jobs("g", &state) && !may_list_jobs("f", &state));
    }

    #[test]
    fn with_hooks_nothing_is_plain() {
        let trapped = Snapshot { traps: Traps::Some, ..Snapshot::default() };
        assert!(has_hooks(&trapped));
        assert!(has_hooks(&state("precmd", "q")));
        assert!(!has_hooks(&state("f", "q")));
    }
}
