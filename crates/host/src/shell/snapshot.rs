//! A shell's state as text that the shell itself printed, and how to bring it back.
//!
//! A [`Snapshot`] holds declarations entry by entry. What is restored is only what
//! differs from the baseline (the snapshot of the fresh shell), so special
//! variables that a new shell sets by itself are never touched.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::dialect::{is_plain_name, is_special};
use super::quote::single;

/// A variable whose declaration is longer is not kept, and said to be lacking.
pub const MAX_VARIABLE: usize = 4 * 1024 * 1024;
/// All of them together; those that come last by name are not kept.
pub const MAX_VARIABLES: usize = 2 * MAX_VARIABLE;

/// Declarations by name, each as the command that makes it again.
pub type Entries = BTreeMap<String, String>;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub variables: Entries,
    pub functions: Entries,
    pub aliases: Entries,
    /// Option name to the command that sets it as it is.
    pub options: Entries,
    pub exported: BTreeSet<String>,
    /// Never restored, and not missing either.
    pub readonly: BTreeSet<String>,
    /// Those of the user's own among them, for background commands.
    #[serde(default)]
    pub constants: Entries,
    /// Variables that are not kept for their size.
    #[serde(default)]
    pub too_large: BTreeSet<String>,
    /// The shell could not print all of it.
    #[serde(skip)]
    pub partial: bool,
    pub umask: String,
    /// The user has set TERM, perhaps to what it was already.
    #[serde(default)]
    pub own_term: bool,
    /// How the shell's previous directory is set again.
    pub old_dir: Option<String>,
    /// The user has set traps: code of theirs runs around every command.
    pub traps: Traps,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Traps {
    #[default]
    None,
    /// Some, but none that sourcing a file would hide or set off.
    Some,
    /// DEBUG or RETURN of bash.
    AroundSource,
}

/// What the programs of a command do not see of a session's environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hidden {
    pub names: Vec<String>,
    /// Functions that bash exports.
    pub functions: Vec<String>,
}

/// Variables of the shell's own that programs see anyway.
pub const BORN_EXPORTED: &[&str] = &["PWD", "OLDPWD", "SHLVL"];

/// Splits shell source into entries: a newline outside quotes ends one.
pub fn split_entries(text: &str) -> Vec<&str> {
    let (mut entries, mut start, mut quote, mut escaped) = (Vec::new(), 0, Quote::None, false);
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, byte) {
            (Quote::Single, b'\'') | (Quote::Double, b'"') | (Quote::Ansi, b'\'') => quote = Quote::None,
            (Quote::None | Quote::Double | Quote::Ansi, b'\\') => escaped = true,
            (Quote::None, b'\'') if at > start && bytes[at - 1] == b'$' => quote = Quote::Ansi,
            (Quote::None, b'\'') => quote = Quote::Single,
            (Quote::None, b'"') => quote = Quote::Double,
            (Quote::None, b'\n') => {
                entries.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < text.len() {
        entries.push(&text[start..]);
    }
    entries.retain(|entry| !entry.is_empty());
    entries
}

#[derive(Clone, Copy, PartialEq)]
enum Quote {
    None,
    Single,
    Double,
    Ansi,
}

/// Splits the listing of functions, whose names are given in the order of the listing.
///
/// `header` is how a function of that name begins, as a whole line. Such a line may also stand
/// in somebody's text (a heredoc, a string), so a name is a boundary only if its header is there
/// once. What cannot be told apart stays with the function before it: as one text it still
/// means what it meant, and the functions inside have an empty entry of their own.
pub fn split_functions<'a>(
    listing: &str,
    names: impl Iterator<Item = &'a str>,
    header: impl Fn(&str) -> String,
) -> Entries {
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let headers: Vec<String> = names.iter().map(|name| header(name)).collect();
    let mut places: BTreeMap<&str, Vec<usize>> =
        headers.iter().map(|header| (header.as_str(), Vec::new())).collect();
    let mut at = 0;
    for line in listing.split_inclusive('\n') {
        if let Some(places) = places.get_mut(line.trim_end_matches('\n')) {
            places.push(at);
        }
        at += line.len();
    }
    let mut functions = Entries::new();
    let mut open: Option<(&str, usize)> = None;
    for (name, header) in names.iter().zip(&headers) {
        let start = match (places[header.as_str()].as_slice(), open) {
            // The listing begins with the first one, whatever else looks like it.
            (_, None) => 0,
            (&[place], Some((_, before))) if place > before => place,
            _ => {
                functions.insert((*name).to_owned(), String::new());
                continue;
            }
        };
        if let Some((before, begun)) = open.replace((*name, start)) {
            functions.insert(before.to_owned(), listing[begun..start].to_owned());
        }
    }
    if let Some((last, begun)) = open {
        functions.insert(last.to_owned(), listing[begun..].to_owned());
    }
    functions
}

impl Snapshot {
    /// What is known of a shell that has printed nothing yet: what it was started with.
    pub fn of_env(env: &BTreeMap<String, String>) -> Snapshot {
        let declare =
            |(name, value): (&String, &String)| (name.clone(), format!("export {name}={}", single(value)));
        Snapshot { variables: env.iter().map(declare).collect(), ..Snapshot::default() }
    }

    /// Variables, functions and aliases, for the shell of a background command that starts with `env`.
    pub fn definitions(&self, env: &BTreeMap<String, String>, guard: impl Fn(&str) -> String) -> String {
        let unset = env
            .keys()
            .filter(|name| !self.knows(name) && !is_special(name) && is_plain_name(name))
            .map(|name| format!("unset {name}\n"));
        let umask = (!self.umask.is_empty()).then(|| format!("umask {}\n", self.umask));
        let entries = self.variables.values().chain(self.constants.values()).chain(self.functions.values());
        // Last, since they would change how functions are read.
        let entries = entries.chain(self.aliases.values());
        let entries = entries.filter(|entry| !entry.is_empty()).map(|entry| guard(entry));
        unset.chain(umask).chain(entries).collect()
    }

    /// What programs would see besides `given`. `begun` is what the session began with and may still have.
    pub fn exported_beside<'a>(
        &'a self,
        begun: impl Iterator<Item = &'a String>,
        given: &BTreeMap<String, String>,
    ) -> Hidden {
        let own = BORN_EXPORTED.iter().copied();
        let names = self.exported.iter().chain(begun).map(String::as_str).chain(own);
        let names: BTreeSet<&str> =
            names.filter(|name| is_plain_name(name) && !given.contains_key(*name)).collect();
        let is_exported =
            |(name, body): &(&String, &String)| body.ends_with(&format!("export -f {}\n", single(name)));
        Hidden {
            names: names.into_iter().map(str::to_owned).collect(),
            functions: self.functions.iter().filter(is_exported).map(|(name, _)| name.clone()).collect(),
        }
    }

    /// Whether this state says that programs do not see such a variable: it is unset, or not exported. Of the
    /// shell's own variables, constants and those that are too large it says nothing.
    pub(crate) fn keeps_from_programs(&self, name: &str) -> bool {
        let is_told = !is_special(name) && !self.readonly.contains(name) && !self.too_large.contains(name);
        is_told && !self.exported.contains(name)
    }

    /// Whether the shell had such a variable, kept or not.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.variables.contains_key(name) || self.readonly.contains(name) || self.too_large.contains(name)
    }

    /// What `self` has that `baseline` has not, kind by kind.
    pub fn differs_from(&self, baseline: &Snapshot) -> Difference<'_> {
        fn changed<'a>(now: &'a Entries, then: &Entries) -> Vec<&'a str> {
            now.iter()
                .filter(|(name, text)| then.get(*name) != Some(text))
                .map(|(_, text)| text.as_str())
                .collect()
        }
        let gone = baseline.variables.keys().filter(|name| !self.knows(name));
        Difference {
            variables: changed(&self.variables, &baseline.variables),
            unset: gone.cloned().collect(),
            functions: changed(&self.functions, &baseline.functions),
            aliases: changed(&self.aliases, &baseline.aliases),
            options: changed(&self.options, &baseline.options),
            // bash lists only those `shopt` options that are on.
            options_off: baseline
                .options
                .iter()
                .filter(|(name, _)| !self.options.contains_key(*name))
                .map(|(_, text)| text.replacen(" -s ", " -u ", 1))
                .collect(),
            umask: &self.umask,
        }
    }
}

#[derive(Debug)]
pub struct Difference<'a> {
    pub variables: Vec<&'a str>,
    pub unset: Vec<String>,
    pub functions: Vec<&'a str>,
    pub aliases: Vec<&'a str>,
    pub options: Vec<&'a str>,
    pub options_off: Vec<String>,
    pub umask: &'a str,
}

impl Difference<'_> {
    /// Scripts to source one after the other: one that the shell cannot read
    /// (a broken function, a broken alias) does not take the others along.
    /// Aliases come last, since they would change how functions are read.
    pub fn scripts(&self, guard: impl Fn(&str) -> String, is_risky: impl Fn(&str) -> bool) -> Vec<String> {
        let mut variables = String::new();
        for name in &self.unset {
            variables.push_str(&format!("unset {name}\n"));
        }
        let (risky, sound): (Vec<&str>, Vec<&str>) = self.variables.iter().partition(|entry| is_risky(entry));
        for entry in sound {
            variables.push_str(&guard(entry));
        }
        if !self.umask.is_empty() {
            variables.push_str(&format!("umask {}\n", self.umask));
        }
        let join = |entries: &[&str]| entries.iter().map(|entry| guard(entry)).collect::<String>();
        let mut scripts: Vec<String> = vec![variables];
        // Without it bash cannot read the patterns in functions.
        scripts.extend(
            self.options.iter().filter(|option| option.ends_with(" -s extglob")).map(|option| guard(option)),
        );
        scripts.extend(risky.iter().map(|entry| guard(entry)));
        let functions = self.functions.iter().filter(|function| !function.is_empty());
        scripts.extend(functions.map(|function| format!("{function}\n")));
        scripts.push(join(&self.aliases));
        scripts.push(self.options_off.join("\n"));
        scripts.push(join(&self.options));
        scripts.retain(|script| !script.is_empty());
        scripts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_inside_quotes_does_not_end_an_entry() {
        let text = "declare -- a=\"x\ny\"\ndeclare -- b=$'it\\'s\\n'\ndeclare -a c=([0]=\"1\" [1]=\"q\\\"\n\")\nd='p\nq'\\''r'\n";
        assert_eq!(split_entries(text).len(), 4, "{:?}", split_entries(text));
    }

    fn split(listing: &str, names: &[&str]) -> Entries {
        split_functions(listing, names.iter().copied(), |name| format!("{name} () "))
    }

    #[test]
    fn functions_are_told_apart() {
        let text = "f () \n{ \n    echo '}';\n    g () \n    { \n        :\n    }\n}\nh () \n{ \n    cat <<E\n}x\nE\n\n}\n";
        let functions = split(text, &["f", "h"]);
        assert_eq!(functions.keys().collect::<Vec<_>>(), ["f", "h"]);
        assert!(functions["f"].ends_with("}\n") && functions["f"].contains("g ()"));
        assert!(functions["h"].starts_with("h () \n") && functions["h"].ends_with("}\n"));
    }

    #[test]
    fn what_looks_like_a_function_inside_a_text_is_none() {
        let text = "gen () \n{ \n    cat <<E\nsetup() {\n  :\n}\ntouch hit; main() { :; }\nE\n\n}\nlast () \n{ \n    :\n}\n";
        let functions = split(text, &["gen", "last"]);
        assert_eq!(functions.keys().collect::<Vec<_>>(), ["gen", "last"]);
        assert!(functions["gen"].ends_with("E\n\n}\n"), "{}", functions["gen"]);
        assert_eq!(functions["last"], "last () \n{ \n    :\n}\n");
    }

    #[test]
    fn what_cannot_be_told_apart_stays_together() {
        // `b` is a function, and its header also stands in the text of `a`.
        let inner = "a () \n{ \n    cat <<E\n}\nb () \n{ \nE\n\n}\n";
        let text = format!("{inner}b () \n{{ \n    :\n}}\nc () \n{{ \n    :\n}}\n");
        let functions = split(&text, &["a", "b", "c"]);
        assert_eq!(functions["a"], format!("{inner}b () \n{{ \n    :\n}}\n"));
        assert_eq!((functions["b"].as_str(), functions["c"].as_str()), ("", "c () \n{ \n    :\n}\n"));
    }

    #[test]
    fn only_differences_are_restored() {
        let entries = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect::<Entries>()
        };
        let baseline = Snapshot { variables: entries(&[("A", "A=1"), ("B", "B=1")]), ..Default::default() };
        let now = Snapshot {
            variables: entries(&[("A", "A=1"), ("C", "C=1")]),
            umask: "0022".into(),
            ..Default::default()
        };
        assert_eq!(
            now.differs_from(&baseline).scripts(|entry| format!("{entry}\n"), |_| false),
            ["unset B\nC=1\numask 0022\n"]
        );
    }
}
