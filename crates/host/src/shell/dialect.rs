//! What differs between shells, as pure functions from intent to shell text.
//!
//! The engine says what it wants (run this text on these streams, print your
//! state); a dialect knows the words. Every line begins with a space and quotes
//! its first word, so that no alias applies and no history keeps it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use trl_protocol::wire;

use super::messages::Wording;
use super::quote::single;
use super::snapshot::{Hidden, Snapshot};

/// Where the shell finds the streams and texts that the host holds open.
#[derive(Debug)]
pub struct Launch<'a> {
    pub text: &'a str,
    /// The text as a file, terminated by a newline.
    pub text_path: &'a str,
    pub stdin: &'a str,
    pub stdout: &'a str,
    pub stderr: &'a str,
    pub env: &'a BTreeMap<String, String>,
    /// `env` is the whole environment: programs are not to see this.
    pub hidden: Option<&'a Hidden>,
    /// The text may close the shell's own descriptors, and there is room for copies of them.
    pub keep_copies: bool,
    /// There may be jobs, about which the shell is to say nothing on these streams.
    pub quiet: bool,
    pub cwd: Option<&'a str>,
    /// State after the previous command: which of our words the user has taken.
    pub state: &'a Snapshot,
}

/// What is done after the reply: put back what held for one command only,
/// remember the text in the history, print the state.
#[derive(Debug)]
pub struct Settle<'a> {
    /// Texts that are to be in the history, oldest first.
    pub history: Vec<Cow<'a, str>>,
    pub cwd_back: Option<&'a str>,
    pub env_back: BTreeSet<&'a str>,
    /// What programs are to see again.
    pub hidden: Option<&'a Hidden>,
    pub state: &'a Snapshot,
    /// The user's own prompt was set aside by a query.
    pub prompt_back: bool,
    /// `$?` of the user's command, to be `$?` again.
    pub status: i32,
    /// The shell may have variables that are too large to print.
    pub careful: bool,
}

pub trait Dialect: std::fmt::Debug {
    fn arguments(&self, rc: bool) -> &'static [&'static str];
    /// Variables of the shell's own environment that keep it quiet at start.
    fn start_env(&self) -> &'static [(&'static str, &'static str)];
    /// The first line: our prompt, and what must be off.
    fn init_line(&self, nonce: &str) -> String;
    fn run_line(&self, launch: &Launch<'_>) -> String;
    /// The text in a form in which the shell does not speak of its jobs, if there is one. It may do so in files
    /// that the text reads.
    fn quiet_text(&self, launch: &Launch<'_>) -> Option<String> {
        let _ = launch;
        None
    }
    /// Asks for the status when the prompt is the user's own: an assignment, so that
    /// nothing they have defined is called and `$?` is still the command's. Their
    /// prompt waits in [`SAVED_PROMPT`] until the settle script puts it back.
    fn query_line(&self, nonce: &str) -> String;
    fn settle_script(&self, settle: &Settle<'_>) -> String;
    /// `uncover`: the plain way was answered by a function of the user's.
    fn settle_line(&self, script: &str, dump: &str, uncover: bool) -> String;
    fn restore_line(&self, script: &str) -> String;
    /// Reads what the settle script printed; None if it is not what we asked for.
    fn read_dump(&self, dump: &str) -> Option<Snapshot>;
    /// Arguments of the shell of a background command; the last is followed by its text.
    fn background_arguments(&self) -> &'static [&'static str];
    /// What such a shell reads before anything else. It was started with `env`.
    fn background_prelude(&self, env: &BTreeMap<String, String>) -> String {
        let _ = env;
        String::new()
    }
    /// How such a shell reads its prelude, then the text. `aliases`: the prelude defines some.
    fn background_start(&self, prelude: &str, text: &str, aliases: bool) -> BackgroundStart {
        // On the first line, so that the text's lines keep their numbers. A line is parsed as a whole,
        // so aliases hold only in what is parsed later.
        let text = if aliases { format!("eval {}", single(text)) } else { text.to_owned() };
        BackgroundStart { text: format!(". {prelude}; {text}"), start_up_file: None }
    }
    /// Hides exported variables and functions from programs, without unsetting them.
    fn hide(&self, hidden: &Hidden, state: &Snapshot) -> String;
    /// A line of stderr in which the shell speaks of itself.
    fn names_itself(&self, line: &str) -> bool {
        line.starts_with("bash: ") || line.starts_with("sh: ") || line.starts_with("dash: ")
    }
    /// A declaration in the one file that such a shell reads first: whatever it is, those after it are read.
    fn background(&self, entry: &str) -> String {
        self.guard(entry)
    }
    /// Whether a shell that ends while it prints its state would print the rest to where a trap on EXIT prints to.
    fn finishes_printing(&self) -> bool {
        false
    }
    /// A variable that the shell does not let anyone set.
    fn is_fixed(&self, name: &str) -> bool {
        let _ = name;
        false
    }
    /// How the shell words what it writes to a command's stderr itself; None if it does not.
    fn wording(&self) -> Option<Wording> {
        None
    }
    /// How many descriptors the shell must be allowed if copies of its own are kept. None: a text cannot
    /// name the shell's own descriptors, so none are needed.
    fn copies_end(&self) -> Option<u64> {
        None
    }
    /// True if a status may be stale because the text did not parse; only then is it checked.
    fn may_hide_syntax_error(&self) -> bool;
    /// True if an interrupt may leave the shell reading lines and running none of them,
    /// until it is interrupted once more while it reads.
    fn may_run_nothing(&self) -> bool {
        false
    }
    /// A declaration such that its failure does not stop those after it.
    fn guard(&self, entry: &str) -> String {
        format!("{entry}\n")
    }
    /// A declaration whose failure would stop those after it: it goes into a script of its own.
    fn is_risky(&self, entry: &str) -> bool {
        let _ = entry;
        false
    }
    /// True if the shell says that our own line, not the user's text, could not run.
    fn is_own_failure(&self, complaint: &str) -> bool {
        let _ = complaint;
        false
    }
}

/// What a background shell is started with.
#[derive(Debug)]
pub struct BackgroundStart {
    /// Its last argument.
    pub text: String,
    /// The variable that names a file to read first.
    pub start_up_file: Option<(&'static str, String)>,
}

pub fn of(kind: wire::Dialect) -> &'static dyn Dialect {
    match kind {
        wire::Dialect::Bash => &super::bash::Bash,
        wire::Dialect::Zsh => &super::zsh::Zsh,
        wire::Dialect::Sh => &super::sh::Sh,
    }
}

/// Holds the user's prompt between a query and the settle script.
pub const SAVED_PROMPT: &str = "TRL_SAVED_PS1";

/// Sections of a dump are separated by this on a line of its own.
pub const SEPARATOR: &str = "\u{1e}\n";

/// In front of it is what was listed before the engine's own words were uncovered.
const UNCOVERED: &str = "\u{1d}\n";

/// How an uncovering settle line ends its listing of names and functions, once `printf` is the builtin.
pub const END_OF_COVERED: &str = "\\printf '\\35\\n'";

/// The first section of a dump: names and functions from before the uncovering, then the rest.
/// `mark` is what ends the first line of a function.
pub fn split_covered<'a>(before: &'a str, mark: &str) -> (&'a str, &'a str, &'a str) {
    let (covered, rest) = before.split_once(UNCOVERED).unwrap_or(("", before));
    let first =
        covered.find(mark).map_or(covered.len(), |at| covered[..at].rfind('\n').map_or(0, |end| end + 1));
    let (names, functions) = covered.split_at(first);
    (names, functions, rest)
}

/// Names that belong to the shell or to us and are never restored.
pub fn is_special(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "_",
        "PWD",
        "OLDPWD",
        "PPID",
        "UID",
        "EUID",
        "GID",
        "EGID",
        "GROUPS",
        "RANDOM",
        "SRANDOM",
        "SECONDS",
        "LINENO",
        "EPOCHSECONDS",
        "EPOCHREALTIME",
        "HISTCMD",
        "HISTFILE",
        "PIPESTATUS",
        "FUNCNAME",
        "DIRSTACK",
        "SHELLOPTS",
        "BASHOPTS",
        "SHLVL",
        "OPTIND",
        "OPTARG",
        "PS1",
        "PS2",
        "PS3",
        "PS4",
        "PROMPT",
        "PROMPT2",
        "PROMPT3",
        "PROMPT4",
        "prompt",
        "COMP_WORDBREAKS",
        "COLUMNS",
        "LINES",
        "argv",
        "status",
        "pipestatus",
        "ERRNO",
        "TTY",
        "TTYIDLE",
        "ZSH_EVAL_CONTEXT",
        "zsh_eval_context",
        "ZSH_SUBSHELL",
        "USERNAME",
        "psvar",
        "PSVAR",
        "signals",
        "POSIXLY_CORRECT",
        "aliases",
        "builtins",
        "commands",
        "dirstack",
        "dis_aliases",
        "dis_builtins",
        "dis_functions",
        "dis_functions_source",
        "dis_galiases",
        "dis_patchars",
        "dis_reswords",
        "dis_saliases",
        "funcfiletrace",
        "funcsourcetrace",
        "funcstack",
        "functions",
        "functions_source",
        "functrace",
        "galiases",
        "history",
        "historywords",
        "jobdirs",
        "jobstates",
        "jobtexts",
        "modules",
        "nameddirs",
        "options",
        "parameters",
        "patchars",
        "reswords",
        "saliases",
        "userdirs",
        "usergroups",
    ];
    (name.starts_with("BASH") && name != "BASH_ENV") || NAMES.contains(&name)
}

pub fn is_plain_name(name: &str) -> bool {
    trl_protocol::ids::is_env_name(name)
}
