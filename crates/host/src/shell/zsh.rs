//! zsh. The text runs by `eval "$(<file)"`, which zsh reads without a fork.

use super::careful;
use super::dialect::{
    Dialect, END_OF_COVERED, Launch, SAVED_PROMPT, SEPARATOR, Settle, is_plain_name, is_special,
    split_covered,
};
use super::quote::{ansi, single};
use super::snapshot::{BORN_EXPORTED, Entries, Hidden, Snapshot, Traps, split_entries, split_functions};

/// Every zsh has these from the start. A session with no others has no aliases to pass on.
const BORN_ALIASES: [&str; 2] = ["alias run-help=man", "alias which-command=whence"];

/// Options that would end, blind or disturb the restored shell, or belong to the engine.
const NEVER_SET: &[&str] = &[
    "exec",
    "noexec",
    "singlecommand",
    "interactive",
    "shinstdin",
    "zle",
    "monitor",
    "privileged",
    "restricted",
    "login",
    "promptcr",
    "promptsp",
    "nopromptcr",
    "nopromptsp",
    "histignorespace",
    "rcs",
    "norcs",
    "globalrcs",
];

/// Holds what a variable of the shell's own was before a command that has it in its environment.
const SAVED: &str = "TRL_SAVED_";
/// Not the shell's own, although it is never restored.
const POSIX: &str = "POSIXLY_CORRECT";

/// Who the shell runs as: setting these would change it, or fail.
const IDENTITY: &[&str] = &["UID", "EUID", "GID", "EGID", "USERNAME"];

/// Reading `RANDOM` draws a number; these patterns name every other parameter.
const ALL_BUT_RANDOM: &str =
    "'[^R]*' R 'R[^A]*' RA 'RA[^N]*' RAN 'RAN[^D]*' RAND 'RAND[^O]*' RANDO 'RANDO[^M]*' 'RANDOM?*'";

#[derive(Debug)]
pub struct Zsh;

impl Dialect for Zsh {
    fn arguments(&self, rc: bool) -> &'static [&'static str] {
        // Before the first prompt nothing is to be drawn for a person.
        const QUIET: &[&str] =
            &["-f", "-i", "+Z", "-o", "histignorespace", "+o", "promptsp", "+o", "promptcr"];
        if rc { &QUIET[1..] } else { QUIET }
    }

    fn start_env(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn init_line(&self, nonce: &str) -> String {
        format!(
            " \\unsetopt promptsp promptcr checkjobs hup; \\setopt rmstarsilent; \\exec >&2; HISTSIZE=1000 PS2= RPS1= PS1=$'\\e_trl;{nonce};%?;;%i;%/\\a'\n"
        )
    }

    fn run_line(&self, launch: &Launch<'_>) -> String {
        let taken = |name: &str| launch.state.functions.contains_key(name);
        let cwd = launch.cwd.map(|dir| format!("\\builtin cd -- {} && ", ansi(dir))).unwrap_or_default();
        // An assignment in front of eval would not reach the programs that it starts.
        let env: String = launch
            .env
            .iter()
            .map(|(name, value)| {
                // What the shell itself looks after is in no snapshot: its value waits aside.
                let aside = is_special(name).then(|| format!("{SAVED}{name}=${{{name}-}}; "));
                format!("{}\\builtin export {name}={}; ", aside.unwrap_or_default(), ansi(value))
            })
            .collect();
        let (uncover, eval, prelude) = match (taken("eval"), taken("builtin")) {
            (false, _) => ("", "\\eval", String::new()),
            (true, false) => ("", "\\builtin eval", String::new()),
            (true, true) => (
                "\\unset -f eval; ",
                "\\eval",
                launch.state.functions.get("eval").cloned().unwrap_or_default(),
            ),
        };
        // zsh traces to the stderr from before the redirection: switch it on behind it.
        let traced = launch.state.options.get("xtrace").is_some_and(|option| option.starts_with("set -o"));
        let (untrace, trace) =
            if traced { ("{ \\unsetopt xtrace } 2>|/dev/null; ", "\\setopt xtrace;") } else { ("", "") };
        let hide = launch.hidden.map(|hidden| self.hide(hidden, launch.state)).unwrap_or_default();
        format!(
            " {untrace}{uncover}{hide}{env}{cwd}{eval} {}\"$(<{})\"$'\\n' <{} >|{} 2>|{}\n",
            if prelude.is_empty() && trace.is_empty() {
                String::new()
            } else {
                ansi(&format!("{prelude}{trace}"))
            },
            launch.text_path,
            launch.stdin,
            launch.stdout,
            launch.stderr
        )
    }

    fn query_line(&self, nonce: &str) -> String {
        format!(" {SAVED_PROMPT}=$PS1 PS1=$'\\e_trl;{nonce};'\"$?\"$';;%i;%/\\a'\n")
    }

    fn settle_script(&self, settle: &Settle<'_>) -> String {
        let mut script = String::new();
        if settle.prompt_back {
            script.push_str(&format!("PS1=${SAVED_PROMPT}\nbuiltin unset {SAVED_PROMPT}\n"));
        }
        if let Some(dir) = settle.cwd_back {
            // `cd -` goes where zsh has been, not where OLDPWD says: it is taken there once more.
            let old_dir = settle.state.old_dir.as_deref().unwrap_or("OLDPWD=$PWD");
            let dir = single(dir);
            script.push_str(&format!("{old_dir}\nbuiltin cd -q -- \"$OLDPWD\"\nbuiltin cd -q -- {dir}\n"));
        }
        for name in settle.hidden.iter().flat_map(|hidden| &hidden.names) {
            script.push_str(&format!("(( ${{+{name}}} )) && builtin export {name}\n"));
        }
        for name in &settle.env_back {
            if *name == POSIX {
                let saved = format!("${SAVED}{name}");
                script.push_str(&format!(
                    "[[ -n {saved} ]] && builtin export {name}={saved} || builtin unset {name}\nbuiltin unset {SAVED}{name}\n"
                ));
                continue;
            }
            if is_special(name) {
                let inward = if BORN_EXPORTED.contains(name) { "" } else { "builtin typeset -g +x " };
                script.push_str(&format!("{inward}{name}=${SAVED}{name}\nbuiltin unset {SAVED}{name}\n"));
                continue;
            }
            script.push_str(&format!("builtin unset {name}\n"));
            if let Some(entry) = settle.state.variables.get(*name) {
                script.push_str(&format!("{entry}\n"));
            }
        }
        for text in
            settle.history.iter().map(|text| text.trim_end_matches('\n')).filter(|text| !text.is_empty())
        {
            script.push_str(&format!("builtin print -sr -- {}\n", single(text)));
        }
        let mark = "builtin printf '\\36\\n'\n";
        let print =
            if settle.careful { careful::zsh() } else { format!("builtin typeset -pm {ALL_BUT_RANDOM}\n") };
        script.push_str(&format!(
            "{mark}{print}{mark}builtin typeset +f\n{mark}builtin typeset -f\n{mark}builtin alias -L\n{mark}builtin set +o\n{mark}"
        ));
        script.push_str(&format!("builtin return {}\n", settle.status));
        script
    }

    fn settle_line(&self, script: &str, dump: &str, uncover: bool) -> String {
        let body = if uncover {
            format!(
                "( \\typeset +f; \\typeset -f; \\unset -f . source eval builtin typeset alias set printf return print cd; {END_OF_COVERED}; \\. {script} )"
            )
        } else {
            format!("{{ \\builtin trap; \\. {script} }}")
        };
        format!(" {body} </dev/null >|{dump} 2>|/dev/null && [[ -n 1 ]]\n")
    }

    fn restore_line(&self, script: &str) -> String {
        format!(" \\. {script} </dev/null >|/dev/null 2>|/dev/null && [[ -n 1 ]]\n")
    }

    fn read_dump(&self, dump: &str) -> Option<Snapshot> {
        let mut sections = dump.split(SEPARATOR);
        let before = sections.next()?;
        let (variables, names, functions) = (sections.next()?, sections.next()?, sections.next()?);
        let (aliases, options) = (sections.next()?, sections.next()?);
        sections.next()?;
        let (covered_names, covered, before) = split_covered(before, " () {\n");
        let traps = if before.contains("trap -- ") { Traps::Some } else { Traps::None };
        let mut snapshot =
            Snapshot { functions: read_functions(names, functions), traps, ..Snapshot::default() };
        snapshot.functions.extend(read_functions(covered_names, covered));
        snapshot.functions.retain(|_, body| !body.contains("builtin autoload -X"));
        let entries = split_entries(variables);
        snapshot.too_large = careful::too_large(&entries);
        snapshot.partial = !careful::is_whole(&entries);
        for entry in entries {
            read_variable(&mut snapshot, entry);
        }
        for entry in split_entries(aliases).into_iter().filter(|entry| !BORN_ALIASES.contains(entry)) {
            if let Some(name) =
                entry.strip_prefix("alias ").and_then(|rest| rest.split_once('=')).map(|(name, _)| name)
            {
                snapshot.aliases.insert(name.to_owned(), entry.to_owned());
            }
        }
        for line in options.lines() {
            let name = line.rsplit(' ').next().unwrap_or_default();
            if line.starts_with("set ") && !NEVER_SET.contains(&name) {
                snapshot.options.insert(name.to_owned(), line.to_owned());
            }
        }
        Some(snapshot)
    }

    fn background_arguments(&self) -> &'static [&'static str] {
        &["-f", "-c"]
    }

    fn hide(&self, hidden: &Hidden, _: &Snapshot) -> String {
        // `typeset` would make a variable that is not there.
        let hide = |name: &String| format!("(( ${{+{name}}} )) && \\builtin typeset +x {name}; ");
        hidden.names.iter().map(hide).chain(["[[ -n 1 ]]; ".to_owned()]).collect()
    }

    fn names_itself(&self, line: &str) -> bool {
        line.starts_with("(eval):") || line.starts_with("zsh:")
    }

    fn finishes_printing(&self) -> bool {
        true
    }

    fn is_fixed(&self, name: &str) -> bool {
        IDENTITY.contains(&name)
    }

    fn may_hide_syntax_error(&self) -> bool {
        false
    }

    /// An interrupt tells zsh to leave as many loops as it is in. One that comes just when the
    /// last loop has looked for that order stays, and with it nothing runs any more. While zsh
    /// reads it is in no loop: an interrupt then makes it leave none, and so ends the order.
    fn may_run_nothing(&self) -> bool {
        true
    }

    fn guard(&self, entry: &str) -> String {
        // An error would end the whole sourced file.
        format!("{{ {entry}\n}} always {{ TRY_BLOCK_ERROR=0 }}\n")
    }

    fn is_own_failure(&self, complaint: &str) -> bool {
        complaint.ends_with("command not found: eval") || complaint.ends_with("command not found: builtin")
    }
}

fn read_functions(names: &str, functions: &str) -> Entries {
    split_functions(functions, names.lines(), |name| format!("{name} () {{"))
}

/// One line of `typeset -p`: `typeset [-FLAGS…] NAME=VALUE` or `export NAME=VALUE`.
fn read_variable(snapshot: &mut Snapshot, entry: &str) {
    let (left, _) = entry.split_once('=').unwrap_or((entry, ""));
    let mut words = left.split(' ');
    let exported = match words.next() {
        Some("typeset") => false,
        Some("export") => true,
        _ => return,
    };
    let words: Vec<&str> = words.collect();
    // `-T PATH path` ties two names; the first is the one that programs see.
    let (flags, names): (Vec<&str>, Vec<&str>) = words.iter().partition(|word| word.starts_with('-'));
    let Some(name) = names.first() else { return };
    let flag = |letter: char| flags.iter().any(|word| word.contains(letter));
    if *name == "OLDPWD" {
        snapshot.old_dir = Some(entry.to_owned());
    }
    if flag('r') {
        snapshot.readonly.insert((*name).to_owned());
    }
    if is_special(name) || !is_plain_name(name) {
        return;
    }
    if flag('r') {
        snapshot.constants.insert((*name).to_owned(), entry.to_owned());
        return;
    }
    if exported || flag('x') {
        snapshot.exported.insert((*name).to_owned());
    }
    // Sourced, `typeset` would make it local to the file's caller only inside functions; `-g` says global.
    let entry = if exported { entry.to_owned() } else { entry.replacen("typeset ", "typeset -g ", 1) };
    snapshot.variables.insert((*name).to_owned(), entry);
}
