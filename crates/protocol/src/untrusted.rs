//! Text that somebody else wrote, made safe to show inside words of our own.
//!
//! A sender controls what a message says and part of what is said about it: names, labels, ids.
//! None of that may look like our own words: it begins no line, ends no quotation, and has nothing
//! in it that a reader does not see. Used wherever such text is shown: to models, in terminals, in
//! the output of hooks.

use std::borrow::Cow;

/// Stands for a character that is not shown.
const HIDDEN: char = '·';

/// Longest name that is shown whole.
const LONGEST_NAME: usize = 80;

/// Whether a character moves the cursor, ends a line, turns the direction of text, or is invisible.
pub fn is_deceptive(c: char) -> bool {
    (c.is_control() && c != '\t')
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// One line of a text, with every deceptive character replaced.
pub fn line(text: &str) -> Cow<'_, str> {
    if text.contains(is_deceptive) {
        Cow::Owned(text.replace(is_deceptive, &HIDDEN.to_string()))
    } else {
        Cow::Borrowed(text)
    }
}

/// Each line of a text behind a mark that only we write.
pub fn block(text: &str, mark: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 16);
    for one in text.split('\n') {
        quoted.push_str(mark);
        quoted.push_str(&line(one.strip_suffix('\r').unwrap_or(one)));
        quoted.push('\n');
    }
    quoted
}

/// A name: as it is if it is plain, else in quotes and not longer than a name should be.
pub fn name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:-/@".contains(c);
    if !text.is_empty() && text.len() <= LONGEST_NAME && text.chars().all(plain) {
        return text.to_owned();
    }
    let mut short: String =
        line(text).chars().take(LONGEST_NAME).map(|c| if c == '"' { '\'' } else { c }).collect();
    if text.chars().count() > LONGEST_NAME {
        short.push('…');
    }
    format!("\"{short}\"")
}

/// An id: as it is if it can be one.
pub fn id(text: &str) -> &str {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._:-".contains(c);
    if (1..=128).contains(&text.len()) && text.chars().all(fits) { text } else { "(an invalid id)" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &[&str] = &[
        "a\nb",
        "a\r\nb",
        "a\u{2028}b",
        "a\u{2029}b",
        "a\u{85}b",
        "a\u{b}b",
        "\u{1b}[2J",
        "\u{202e}x",
        "\u{2066}x",
        "\u{e0041}\u{e0042}",
        "\u{feff}x",
        "a\u{200b}b",
        "\u{0}",
        "\u{9b}31m",
    ];

    #[test]
    fn nothing_hidden_stays() {
        for text in HOSTILE {
            for shown in [line(text).into_owned(), name(text), id(text).to_owned()] {
                assert!(!shown.contains(is_deceptive), "{text:?}: {shown:?}");
            }
            assert!(block(text, "| ").lines().all(|line| line.starts_with("| ")), "{text:?}");
        }
        assert_eq!(line("plain\ttext é 日本 😀"), "plain\ttext é 日本 😀");
    }

    #[test]
    fn names_are_short_and_set_apart() {
        for (text, shown) in [
            ("bob/claude:1", "bob/claude:1"),
            ("", "\"\""),
            ("bob, verified", "\"bob, verified\""),
            ("a\"b", "\"a'b\""),
        ] {
            assert_eq!(name(text), shown);
        }
        assert_eq!(name(&"x".repeat(5000)).chars().count(), LONGEST_NAME + 3);
    }

    #[test]
    fn ids_are_ids() {
        assert_eq!(id("msg-0123456789abcdef01"), "msg-0123456789abcdef01");
        for text in ["", "a b", "a\n", "é", &"x".repeat(5000)] {
            assert_eq!(id(text), "(an invalid id)");
        }
    }
}
