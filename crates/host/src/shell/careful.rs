//! How a shell with large variables prints the others.
//!
//! Printing a value costs many times its size, after every command. So a shell that has grown
//! looks at the sizes first, in a child of its own, whose variables and options are nobody's, and
//! names what is too large instead of printing it. Lengths are bytes there, which need no counting.

use std::collections::BTreeSet;

use super::snapshot::{MAX_VARIABLE, MAX_VARIABLES, Snapshot};

/// A shell whose own memory is smaller than this has nothing that is too large.
pub const FROM_BYTES: u64 = MAX_VARIABLE as u64;

const TOO_LARGE: &str = "trl-too-large ";
const BEGIN: &str = "trl-careful";
const END: &str = "trl-complete";

/// What looking at sizes changes is printed before: options, the locale, how words are split.
const BASH: &str = r#"(
builtin printf '@BEGIN\n'
builtin declare -p LC_ALL IFS SHELLOPTS BASHOPTS
builtin set +eux -f
builtin trap - DEBUG ERR
LC_ALL=C IFS=$'\n' TRL_LEFT=@ALL
for TRL_NAME in $(builtin compgen -v); do
case $TRL_NAME in (LC_ALL|IFS|SHELLOPTS|BASHOPTS|TRL_LEFT|TRL_NAME|TRL_SIZE|TRL_EACH) continue; esac
builtin eval "TRL_SIZE=\${#$TRL_NAME} TRL_EACH=\${#$TRL_NAME[@]}"
if [[ $TRL_EACH -gt 200000 ]]; then TRL_SIZE=@ALL$TRL_SIZE
elif [[ $TRL_EACH -gt 1 ]]; then builtin eval "TRL_EACH=\"\${!$TRL_NAME[*]}\${$TRL_NAME[*]}\""; TRL_SIZE=${#TRL_EACH}; fi
if [[ $TRL_SIZE -gt @ONE || $TRL_SIZE -gt $TRL_LEFT ]]; then builtin printf '@TOO_LARGE%s\n' "$TRL_NAME"
else builtin declare -p "$TRL_NAME"; TRL_LEFT=$((TRL_LEFT - TRL_SIZE)); fi
done
builtin printf '@END\n'
)
"#;

/// Reading `RANDOM` draws a number, and what hides its value is the shell's.
const ZSH: &str = r#"(
builtin printf '@BEGIN\n'
builtin unsetopt multibyte nounset errexit xtrace ksharrays shwordsplit
TRL_LEFT=@ALL
for TRL_NAME in ${(ko)parameters}; do
case $TRL_NAME in (RANDOM|TRL_LEFT|TRL_NAME|TRL_SIZE|TRL_EACH) continue;; ([A-Za-z_]*) ;; (*) continue;; esac
case ${(Pt)TRL_NAME} in (*hideval*) continue;; esac
TRL_EACH="${(Pkvj::)TRL_NAME}" TRL_SIZE=${#TRL_EACH}
if [[ $TRL_SIZE -gt @ONE || $TRL_SIZE -gt $TRL_LEFT ]]; then builtin printf '@TOO_LARGE%s\n' $TRL_NAME
else builtin typeset -p $TRL_NAME; TRL_LEFT=$((TRL_LEFT - TRL_SIZE)); fi
done
builtin printf '@END\n'
)
"#;

pub fn bash() -> String {
    filled(BASH)
}

pub fn zsh() -> String {
    filled(ZSH)
}

fn filled(script: &str) -> String {
    let (one, all) = (MAX_VARIABLE.to_string(), MAX_VARIABLES.to_string());
    let words = [("@BEGIN", BEGIN), ("@END", END), ("@TOO_LARGE", TOO_LARGE), ("@ONE", &one), ("@ALL", &all)];
    words.iter().fold(script.to_owned(), |script, (word, text)| script.replace(word, text))
}

/// The names that the printed entries name as too large.
pub fn too_large(entries: &[&str]) -> BTreeSet<String> {
    entries.iter().filter_map(|entry| entry.strip_prefix(TOO_LARGE)).map(str::to_owned).collect()
}

/// Whether the child that looks at sizes got to its end, or was not needed.
pub fn is_whole(entries: &[&str]) -> bool {
    entries.first() != Some(&BEGIN) || entries.last() == Some(&END)
}

impl Snapshot {
    /// Drops what is too large of what was printed, and remembers its names.
    pub fn shed(&mut self) {
        let mut left = MAX_VARIABLES;
        let too_large = &mut self.too_large;
        self.variables.retain(|name, entry| {
            let fits = entry.len() <= MAX_VARIABLE && entry.len() <= left;
            if fits {
                left -= entry.len();
            } else {
                too_large.insert(name.clone());
            }
            fits
        });
    }

    /// For people: the variables that a new shell would lack, unless there are none.
    pub fn lacks(&self) -> Option<String> {
        const SHOWN: usize = 5;
        let mut names: Vec<&str> = self.too_large.iter().map(String::as_str).take(SHOWN).collect();
        let more = format!("{} more", self.too_large.len().saturating_sub(SHOWN));
        if self.too_large.len() > SHOWN {
            names.push(&more);
        }
        (!names.is_empty()).then(|| names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_named_and_the_rest_kept() {
        let mut snapshot = Snapshot::default();
        for (name, size) in
            [("a", 10), ("b", MAX_VARIABLE + 1), ("c", MAX_VARIABLE), ("d", MAX_VARIABLE), ("e", 5)]
        {
            snapshot.variables.insert(name.to_owned(), "x".repeat(size));
        }
        assert_eq!(snapshot.lacks(), None);
        snapshot.shed();
        assert_eq!(snapshot.variables.keys().collect::<Vec<_>>(), ["a", "c", "e"]);
        assert_eq!(snapshot.lacks().as_deref(), Some("b, d"));
        snapshot.too_large = (0..9).map(|number| format!("v{number}")).collect();
        assert_eq!(snapshot.lacks().as_deref(), Some("v0, v1, v2, v3, v4, 4 more"));
    }

    #[test]
    fn a_child_that_did_not_get_to_its_end_tells_nothing() {
        assert!(is_whole(&["declare -- a=1"]) && is_whole(&[]));
        assert!(is_whole(&[BEGIN, "declare -- a=1", "trl-too-large b", END]));
        assert!(!is_whole(&[BEGIN]) && !is_whole(&[BEGIN, "declare -- a=1"]));
        assert_eq!(too_large(&["x", "trl-too-large b"]).into_iter().collect::<Vec<_>>(), ["b"]);
        for script in [bash(), zsh()] {
            assert!(
                !["@BEGIN", "@END", "@TOO", "@ONE", "@ALL"].iter().any(|word| script.contains(word)),
                "{script}"
            );
        }
    }
}
