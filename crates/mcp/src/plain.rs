//! Output as a model reads it well: no escape sequences, no overwritten text.
//!
//! A sequence ends in the line that it begins in. Of one that does not, only its introducer is removed: a program that
//! was killed while it set a window's title, or a cut in the middle of a sequence, must not hide what comes after.

use std::iter::Peekable;
use std::str::Chars;

/// Removes what only a terminal understands: colours, cursor movements, and all that a line
/// was before a carriage return or a backspace changed it.
pub(crate) fn text(raw: &str) -> String {
    let mut plain = String::with_capacity(raw.len());
    for line in raw.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let typed = without_rubbed_out(&without_sequences(line));
        // What is left to see: a bar that redraws itself is one bar.
        let seen = typed.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default();
        plain.push_str(seen);
        plain.push_str(end);
    }
    plain
}

/// How a sequence begins, in seven bits after `ESC` or in eight bits.
enum Introducer {
    /// Parameters and one last letter, such as colours.
    Control,
    /// Any text until its terminator, such as a title. Only the title of a window may end with a bell.
    Text { bell_ends: bool },
    /// One letter, perhaps after signs that say what it is about, such as a character set.
    Letter,
}

fn introducer(c: char, chars: &mut Peekable<Chars<'_>>) -> Option<Introducer> {
    let seven_bits = match c {
        '\u{1b}' => *chars.peek()?,
        '\u{90}' | '\u{98}' | '\u{9b}' | '\u{9d}'..='\u{9f}' => char::from_u32(u32::from(c) - 0x40)?,
        _ => return None,
    };
    let introducer = match seven_bits {
        '[' => Introducer::Control,
        ']' => Introducer::Text { bell_ends: true },
        'P' | 'X' | '^' | '_' => Introducer::Text { bell_ends: false },
        ' '..='~' => return Some(Introducer::Letter),
        _ => return None,
    };
    if c == '\u{1b}' {
        chars.next();
    }
    Some(introducer)
}

fn without_sequences(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match introducer(c, &mut chars) {
            Some(Introducer::Control) => {
                while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
                chars.next_if(|c| matches!(c, '@'..='~'));
            }
            Some(Introducer::Text { bell_ends }) => {
                if let Some(rest) = after_terminator(chars.clone(), bell_ends) {
                    chars = rest;
                }
            }
            Some(Introducer::Letter) => {
                while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
                chars.next_if(|c| matches!(c, '0'..='~'));
            }
            None if c.is_control() && !matches!(c, '\t' | '\r' | '\u{8}' | '\u{c}') => {}
            None => kept.push(c),
        }
    }
    kept
}

/// What follows a text sequence; `None` if another sequence begins first, or the line ends.
fn after_terminator(mut chars: Peekable<Chars<'_>>, bell_ends: bool) -> Option<Peekable<Chars<'_>>> {
    while let Some(c) = chars.next() {
        match c {
            '\u{7}' if bell_ends => return Some(chars),
            '\u{9c}' => return Some(chars),
            '\u{1b}' => return chars.next_if_eq(&'\\').map(|_| chars),
            // Terminals give a sequence up at these, too.
            '\u{18}' | '\u{1a}' | '\u{80}'..='\u{9f}' => return None,
            _ => {}
        }
    }
    None
}

fn without_rubbed_out(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    for character in line.chars() {
        match character {
            '\u{8}' => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    kept
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
    fn a_sequence_without_an_end_hides_nothing() {
        for begin in ["\u{1b}]", "\u{1b}P", "\u{1b}X", "\u{1b}^", "\u{1b}_", "\u{9d}", "\u{90}", "\u{9f}"] {
            let cases = [
                ("before{}0;title\nimportant 1\nimportant 2\n", "before0;title\nimportant 1\nimportant 2\n"),
                // Cut off, or cut in the middle.
                ("before{}0;tit", "before0;tit"),
                ("before{}", "before"),
                ("{}first\n{}second\u{1b}\\\nlast", "first\n\nlast"),
                // Another sequence begins where the end should be, or the sequence is given up.
                ("{}title\u{1b}[31mred\u{1b}[0m", "titlered"),
                ("{}a{}b\u{1b}\\c", "ac"),
                ("{}title\u{18}text", "titletext"),
                // These end, however long they are.
                ("a{}0;title\u{1b}\\b", "ab"),
                ("a{}0;title\u{9c}b", "ab"),
            ];
            for (raw, expected) in cases {
                let raw = raw.replace("{}", begin);
                assert_eq!(text(&raw), expected, "{raw:?}");
            }
        }
        let long = format!("a\u{1b}]52;c;{}\u{7}b", "x".repeat(100_000));
        assert_eq!(text(&long), "ab");
        assert_eq!(text(&"\u{1b}]".repeat(200_000)), "");
    }

    #[test]
    fn a_sequence_that_is_cut_or_broken_takes_no_text_with_it() {
        let cases = [
            ("a\u{1b}", "a"),
            ("a\u{1b}[", "a"),
            ("a\u{1b}[31", "a"),
            ("a\u{1b}[31\nnext", "a\nnext"),
            ("a\u{1b}\nnext", "a\nnext"),
            ("a\u{1b}[31é", "aé"),
            ("a\u{1b}(Bb\u{1b}=c\u{1b}7d\u{1b}M", "abcd"),
            ("a\u{9b}31mb\u{9b}0m", "ab"),
            ("le\u{7}after", "leafter"),
            // A backspace takes a character that is seen, not the end of a colour.
            ("ab\u{1b}[0m\u{8}cd", "acd"),
            ("\u{8}a\n\u{8}b", "a\nb"),
            ("bell\u{7} nul\u{0} del\u{7f}", "bell nul del"),
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
