//! Output as a model reads it well: no escape sequences, no overwritten text.

use std::borrow::Cow;

/// Removes what only a terminal understands: colours, cursor movements, and all that a line
/// was before a carriage return or a backspace changed it.
pub(crate) fn text(raw: &str) -> String {
    let typed = without_rubbed_out(raw);
    let stripped = anstream::adapter::strip_str(&typed).to_string();
    let mut plain = String::with_capacity(stripped.len());
    for line in stripped.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        // What is left to see: a bar that redraws itself is one bar.
        let seen = line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        plain.push_str(seen);
        plain.push_str(end);
    }
    plain
}

fn without_rubbed_out(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\u{8}') {
        return Cow::Borrowed(raw);
    }
    let mut kept = String::with_capacity(raw.len());
    for character in raw.chars() {
        match character {
            '\u{8}' if !kept.ends_with('\n') => drop(kept.pop()),
            '\u{8}' => {}
            other => kept.push(other),
        }
    }
    Cow::Owned(kept)
}

/// The last line that says something, for a look at what goes on.
pub(crate) fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_left_to_see_stays() {
        let cases = [
            ("", ""),
            ("plain\ntext", "plain\ntext"),
            ("\u{1b}[31mred\u{1b}[0m\n", "red\n"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("10%\r50%\r100%\n", "100%\n"),
            ("dos\r\nlines\r\n", "dos\nlines\n"),
            ("working\r", "working"),
            ("ab\u{8}c", "ac"),
            ("\ttab stays", "\ttab stays"),
            ("é€😀", "é€😀"),
        ];
        for (raw, expected) in cases {
            assert_eq!(text(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn the_last_line_is_one_that_says_something() {
        assert_eq!(last_line("a\n b \n\n"), Some("b"));
        assert_eq!(last_line("\n \n"), None);
    }
}
