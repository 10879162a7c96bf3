//! POSIX sh as dash speaks it.
//!
//! dash cannot list its functions, so they do not survive a replaced shell, and it
//! keeps no history. Its special builtins cannot be taken by functions.

use std::collections::BTreeSet;

use super::dialect::{Dialect, Launch, SAVED_PROMPT, SEPARATOR, Settle, is_plain_name, is_special};
use super::messages::Wording;
use super::quote::single;
use super::snapshot::{Hidden, Snapshot, Traps, split_entries};

const NEVER_SET: &[&str] = &["interactive", "monitor", "noexec", "stdin", "vi", "emacs", "nolog", "debug"];

/// Holds a value while its variable is made anew.
const ASIDE: &str = "TRL_ASIDE";

#[derive(Debug)]
pub struct Sh;

impl Dialect for Sh {
    fn arguments(&self, _rc: bool) -> &'static [&'static str] {
        &["-i"]
    }

    fn start_env(&self) -> &'static [(&'static str, &'static str)] {
        &[("ENV", "")]
    }

    fn init_line(&self, nonce: &str) -> String {
        let opening = super::prompt::opening(nonce);
        format!(" PS2= PS1='{opening}$?;$-;;${{PWD-}}\x07'; \\unset ENV\n")
    }

    fn run_line(&self, launch: &Launch<'_>) -> String {
        let cwd = launch.cwd.map(|dir| format!("\\command cd -- {} && ", single(dir))).unwrap_or_default();
        let env: String =
            launch.env.iter().map(|(name, value)| format!("{name}={} ", single(value))).collect();
        // Only behind `command` do assignments end with a special builtin.
        let (dot, eval) = if env.is_empty() { ("\\.", "\\eval") } else { ("\\command .", "\\command eval") };
        let hide = launch.hidden.map(|hidden| self.hide(hidden, launch.state)).unwrap_or_default();
        let run = match (launch.quiet, may_return(launch)) {
            (false, _) => format!("{dot} {}{}", launch.text_path, streams(launch)),
            (true, true) => format!("{dot} {}", launch.text_path),
            (true, false) => format!("{eval} {}{}", single(launch.text), streams(launch)),
        };
        format!(" {hide}{cwd}{env}{run}\n")
    }

    /// dash tells about its jobs before each line of a file, and forgets those that have ended. It does
    /// not before the lines of `eval`; where `return` needs a file around it, that has one line.
    fn quiet_text(&self, launch: &Launch<'_>) -> Option<String> {
        launch.quiet.then(|| format!("\\eval {}{}\n", single(launch.text), streams(launch)))
    }

    fn query_line(&self, nonce: &str) -> String {
        let opening = super::prompt::opening(nonce);
        format!(" {SAVED_PROMPT}=$PS1 PS1='{opening}'\"$?\"';$-;;${{PWD-}}\x07'\n")
    }

    fn settle_script(&self, settle: &Settle<'_>) -> String {
        let mut script = String::new();
        if settle.prompt_back {
            script.push_str(&format!("PS1=${SAVED_PROMPT}\nunset {SAVED_PROMPT}\n"));
        }
        if let Some(dir) = settle.cwd_back {
            script.push_str(&format!(
                "command cd -- {}\n{}\n",
                single(dir),
                settle.state.old_dir.as_deref().unwrap_or("unset OLDPWD")
            ));
        }
        for name in settle.hidden.iter().flat_map(|hidden| &hidden.names) {
            script.push_str(&format!("case ${{{name}+x}} in x) export {name};; esac\n"));
        }
        let mark = "command printf '\\36\\n'\n";
        script.push_str(&format!(
            "trap\n{mark}set\n{mark}export -p\n{mark}readonly -p\n{mark}command alias\n{mark}set +o\n{mark}return {}\n",
            settle.status
        ));
        script
    }

    fn settle_line(&self, script: &str, dump: &str, _uncover: bool) -> String {
        format!(" \\. {script} </dev/null >|{dump} 2>|/dev/null && \\:\n")
    }

    fn restore_line(&self, script: &str) -> String {
        format!(" \\. {script} </dev/null >|/dev/null 2>|/dev/null && \\:\n")
    }

    fn read_dump(&self, dump: &str) -> Option<Snapshot> {
        let mut sections = dump.split(SEPARATOR);
        let before = sections.next()?;
        let (variables, exported, readonly) = (sections.next()?, sections.next()?, sections.next()?);
        let (aliases, options) = (sections.next()?, sections.next()?);
        sections.next()?;
        let names = |listing: &str, word: &str| -> BTreeSet<String> {
            let entries = split_entries(listing)
                .into_iter()
                .filter_map(|entry| entry.strip_prefix(word).map(str::to_owned));
            entries.map(|entry| entry.split('=').next().unwrap_or_default().to_owned()).collect()
        };
        let readonly = names(readonly, "readonly ");
        let traps = if before.contains("trap -- ") { Traps::Some } else { Traps::None };
        let mut snapshot = Snapshot { exported: names(exported, "export "), traps, ..Snapshot::default() };
        for entry in split_entries(variables) {
            let Some((name, _)) = entry.split_once('=') else { continue };
            if name == "OLDPWD" {
                snapshot.old_dir = Some(entry.to_owned());
            }
            if is_special(name) || !is_plain_name(name) {
                continue;
            }
            let export = if snapshot.exported.contains(name) { "export " } else { "" };
            if readonly.contains(name) {
                snapshot.constants.insert(name.to_owned(), format!("{export}{entry}; readonly {name}"));
                continue;
            }
            snapshot.variables.insert(name.to_owned(), format!("{export}{entry}"));
        }
        snapshot.readonly = readonly;
        for entry in split_entries(aliases) {
            if let Some((name, _)) = entry.split_once('=') {
                snapshot.aliases.insert(name.to_owned(), format!("alias {entry}"));
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
        &["-c"]
    }

    /// dash cannot take back an export: a variable is made anew without it. Those that are readonly stay.
    fn hide(&self, hidden: &Hidden, state: &Snapshot) -> String {
        let names = hidden.names.iter().filter(|name| !state.readonly.contains(*name));
        let anew = names.map(|name| {
            format!("case ${{{name}+x}} in x) {ASIDE}=${name}; \\unset {name}; {name}=${ASIDE};; esac; ")
        });
        anew.chain([format!("\\unset {ASIDE}; ")]).collect()
    }

    fn wording(&self) -> Option<Wording> {
        Some(Wording::Dash)
    }

    fn may_hide_syntax_error(&self) -> bool {
        false
    }
}

/// Whether the text may leave the file that it is in. Outside of one the shell would end.
fn may_return(launch: &Launch<'_>) -> bool {
    let leaves = |text: &str| text.contains("return") || text.contains("eval");
    leaves(launch.text) || launch.state.aliases.values().any(|alias| leaves(alias))
}

fn streams(launch: &Launch<'_>) -> String {
    format!(" <{} >|{} 2>|{}", launch.stdin, launch.stdout, launch.stderr)
}
