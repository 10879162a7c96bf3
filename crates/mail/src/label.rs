//! Labels: the names of an agent's sessions, such as `claude:1` or `reviewer`.
//!
//! A `Label` can only be made from a safe text, so whoever holds one may put it
//! into a reply, a prompt or a log. Allocation and ordering are pure.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// ASCII `[A-Za-z0-9_:-]{1,32}`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Label(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a label: 1 to 32 characters of A-Z a-z 0-9 _ : -")]
pub struct BadLabel(pub String);

impl Label {
    pub fn new(text: &str) -> Result<Label, BadLabel> {
        let safe = (1..=32).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:-".contains(&b));
        if safe { Ok(Label(text.to_owned())) } else { Err(BadLabel(text.chars().take(64).collect())) }
    }

    /// `<harness>:<n>`, shortened in front so that it always is a label.
    pub fn numbered(harness: &str, n: u32) -> Label {
        let number = n.to_string();
        let room = 32 - 1 - number.len();
        let stem: String = harness
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
            .take(room)
            .collect();
        let stem = if stem.is_empty() { "session".to_owned() } else { stem };
        Label(format!("{stem}:{number}"))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Label {
    type Error = BadLabel;
    fn try_from(text: String) -> Result<Label, BadLabel> {
        Label::new(&text)
    }
}

impl From<Label> for String {
    fn from(label: Label) -> String {
        label.0
    }
}

/// Runs of digits compare as numbers: `claude:2` before `claude:10`.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    loop {
        match (left.first(), right.first()) {
            (None, None) => return a.cmp(b),
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) if x.is_ascii_digit() && y.is_ascii_digit() => {
                let (m, left_rest) = digits(left);
                let (n, right_rest) = digits(right);
                match m.len().cmp(&n.len()).then_with(|| m.cmp(n)) {
                    Ordering::Equal => (left, right) = (left_rest, right_rest),
                    unequal => return unequal,
                }
            }
            (Some(x), Some(y)) if x == y => (left, right) = (&left[1..], &right[1..]),
            (Some(x), Some(y)) => return x.cmp(y),
        }
    }
}

/// The leading digits without leading zeros, and what follows them.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let (run, rest) = text.split_at(end);
    let zeros = run.iter().position(|b| *b != b'0').unwrap_or(run.len());
    (&run[zeros..], rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_labels_count() {
        let mut labels = ["claude:10", "codex:1", "claude:2", "claude:02", "a", "claude:1", "claude"];
        labels.sort_by(|a, b| natural_order(a, b));
        assert_eq!(labels, ["a", "claude", "claude:1", "claude:02", "claude:2", "claude:10", "codex:1"]);
    }

    #[test]
    fn a_digit_beside_another_character_is_a_character() {
        let mut labels = ["aa", "a1", "a:", "a-", "a0", "a0a", "a00"];
        labels.sort_by(|a, b| natural_order(a, b));
        assert_eq!(labels, ["a-", "a0", "a00", "a0a", "a1", "a:", "aa"]);
    }

    #[test]
    fn a_numbered_label_is_always_a_label() {
        for harness in ["claude", "", "é", "a b/../c", &"x".repeat(90)] {
            let label = Label::numbered(harness, u32::MAX);
            assert!(Label::new(label.as_str()).is_ok(), "{label}");
        }
        assert_eq!(Label::numbered("claude", 3).as_str(), "claude:3");
    }
}
