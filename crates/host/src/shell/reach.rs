//! Texts that could reach the engine's own descriptors.
//!
//! While a text runs, the shell keeps the engine's channels at descriptors from 10 on. A text that
//! names descriptors can write to them or close them. Nothing is forbidden: what such a text says
//! about itself is only checked, and what it closes is put back. Wrong in one direction costs time;
//! in the other, the shell is replaced as after a crash.

use super::plain::has_async;
use super::snapshot::Snapshot;

/// Whether the text, or what it may call, could write to a descriptor that is not its own.
pub fn may_reach_descriptors(text: &str, state: &Snapshot) -> bool {
    names_descriptors(text) || calls(text, state, names_descriptors)
}

/// Whether the text, or what it may call, could close such a descriptor for good.
pub fn may_close_descriptors(text: &str, state: &Snapshot) -> bool {
    has_word(text, "exec") || reads_more(text) || calls(text, state, |body| has_word(body, "exec"))
}

/// Whether the text may leave a process behind that writes to such a descriptor while later texts run.
pub fn may_leave_writer(text: &str, state: &Snapshot) -> bool {
    let does = |what: fn(&str) -> bool| what(text) || calls(text, state, what);
    does(has_async) && does(writes_to_descriptors)
}

fn names_descriptors(text: &str) -> bool {
    writes_to_descriptors(text) || has_word(text, "exec") || reads_more(text)
}

fn writes_to_descriptors(text: &str) -> bool {
    text.contains("/proc/") || text.contains("/dev/fd") || dups(text)
}

/// A text from elsewhere may do anything.
fn reads_more(text: &str) -> bool {
    ["eval", "source", "."].iter().any(|word| has_word(text, word))
}

/// `>&12`, `<&$fd`, `>&${fd}`, but not `2>&1` or `>&-`.
fn dups(text: &str) -> bool {
    text.match_indices('&').any(|(at, _)| {
        let before = text[..at].ends_with(['<', '>']);
        let target = text[at + 1..].trim_start();
        let digits = target.bytes().take_while(u8::is_ascii_digit).count();
        before && (digits > 1 || target.starts_with(['$', '{', '"', '`']))
    })
}

/// Only what the text names is looked into: a shell may have megabytes of functions.
fn calls(text: &str, state: &Snapshot, does: impl Fn(&str) -> bool) -> bool {
    let body = |word: &str| [state.functions.get(word), state.aliases.get(word)];
    words(text).flat_map(body).flatten().any(|body| does(body))
}

fn has_word(text: &str, word: &str) -> bool {
    words(text).any(|other| other == word)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || "_./-".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_name_descriptors_are_found() {
        let state = Snapshot::default();
        for text in [
            "printf x >&12",
            "exec 12>&-",
            "echo x > /proc/$$/fd/10",
            "cat <&$fd",
            "echo >&\"$fd\"",
            "eval \"$x\"",
            ". ./file",
            "source x",
            "tee /dev/fd/12",
        ] {
            assert!(may_reach_descriptors(text, &state), "{text}");
        }
        for text in [
            "make 2>&1",
            "a && b",
            "cat <&0",
            "x >&2 &",
            "ls ./a ../b",
            "cd /tmp; x=1",
            "a 3>&1 1>&2",
            "x <&-",
        ] {
            assert!(!may_reach_descriptors(text, &state), "{text}");
            assert!(!may_close_descriptors(text, &state), "{text}");
        }
        assert!(may_close_descriptors("exec 12>&-", &state) && !may_close_descriptors("echo x >&12", &state));
    }

    #[test]
    fn so_are_those_that_call_one_that_does() {
        let mut state = Snapshot::default();
        state.functions.insert("f".to_owned(), "f () { echo x >&12; }".to_owned());
        assert!(may_reach_descriptors("f", &state) && !may_reach_descriptors("ff", &state));
        assert!(!may_close_descriptors("f", &state));
        assert!(may_leave_writer("f &", &state) && !may_leave_writer("f", &state));
        assert!(
            !may_leave_writer("make 2>&1 &", &state)
                && may_leave_writer("while :; do x >&12; done &", &state)
        );
        state.aliases.insert("q".to_owned(), "alias q='exec 10<&-'".to_owned());
        assert!(may_close_descriptors("q", &state));
    }
}
