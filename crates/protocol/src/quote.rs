//! Text that somebody else wrote, made safe to show between lines of our own.
//!
//! Whoever shows a message, a name or an id from outside (the command line, MCP, hooks) puts it
//! through here. What comes out has no character that ends a line, moves the cursor, changes the
//! direction of the text after it, or is invisible and can carry hidden text. Such a character is
//! shown as `·`, so that its presence is visible. JSON output is not quoted: there the text is data.

use std::iter::Peekable;
use std::str::Chars;

/// Shown in place of a character that is not safe to show.
pub const REPLACEMENT: char = '·';

/// For text inside a line: names, ids, reasons. Line breaks are replaced as well.
pub fn inline(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = None;
    for c in text.chars() {
        let is_safe = match class(c) {
            Class::Visible => true,
            Class::Unsafe => false,
            Class::Joiner => before.is_some_and(|before| may_join(before, c)),
        };
        shown.push(if is_safe { c } else { REPLACEMENT });
        before = Some(c);
    }
    shown
}

/// One joiner or selector after a letter of another script or an emoji belongs to it. Several in a row can carry hidden
/// text, and so can those between letters of plain ASCII, where only the keys of a telephone have one (`1\u{fe0f}\u{20e3}`).
fn may_join(before: char, joiner: char) -> bool {
    let is_key = before.is_ascii_digit() || "#*".contains(before);
    class(before) == Class::Visible && (!before.is_ascii() || is_key && joiner == '\u{fe0f}')
}

/// The lines of a longer text, each quoted. Whatever any reader takes for the end of a line ends one here.
pub fn lines(text: &str) -> impl Iterator<Item = String> {
    Lines(text.chars().peekable()).map(|line| inline(&line))
}

/// A text of several lines, each behind `prefix`, so that no line of it can be taken for one of ours.
/// Every line ends with `\n`; an empty text is an empty block.
pub fn block(text: &str, prefix: &str) -> String {
    lines(text).map(|line| format!("{prefix}{line}\n")).collect()
}

/// Longest name that is shown whole.
const LONGEST_NAME: usize = 80;

/// A name: as it is if it is plain, else in quotation marks, and not longer than a name should be.
pub fn name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:-/@".contains(c);
    if !text.is_empty() && text.len() <= LONGEST_NAME && text.chars().all(plain) {
        return text.to_owned();
    }
    let marks = |c: char| if c == '"' { '\'' } else { c };
    let mut short: String = inline(text).chars().take(LONGEST_NAME).map(marks).collect();
    if text.chars().count() > LONGEST_NAME {
        short.push('…');
    }
    format!("\"{short}\"")
}

/// An id: as it is if it can be one.
pub fn id(text: &str) -> &str {
    if crate::mail::is_safe_id(text) { text } else { "(an invalid id)" }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Visible,
    Joiner,
    Unsafe,
}

fn class(c: char) -> Class {
    match c {
        '\t' => Class::Visible,
        // Zero-width non-joiner and joiner, variation selectors for text and emoji.
        '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' => Class::Joiner,
        _ if c.is_control() || is_line_break(c) || is_invisible(c) || is_direction(c) => Class::Unsafe,
        _ => Class::Visible,
    }
}

/// What terminals, editors, browsers or programming languages take for the end of a line.
fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Controls of the direction of text: they make what follows appear elsewhere.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}')
}

/// Without a glyph: blanks that are none, tags, further selectors, annotations.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' | '\u{fdd0}'..='\u{fdef}')
        // Never characters: the last two of each plane.
        || u32::from(c) & 0xfffe == 0xfffe
}

/// Without the characters between lines; `\r\n` is one line break.
struct Lines<'a>(Peekable<Chars<'a>>);

impl Iterator for Lines<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.0.peek()?;
        let mut line = String::new();
        for c in self.0.by_ref() {
            if !is_line_break(c) {
                line.push(c);
                continue;
            }
            if c == '\r' {
                self.0.next_if_eq(&'\n');
            }
            break;
        }
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_text_of_any_script_is_shown_as_it_is() {
        for text in [
            "plain, with \"quotes\" and `ticks`",
            "héllo — ünïcode",
            "日本語のテキスト",
            "עברית וערבית العربية",
            "می‌خواهم",
            "👩‍👩‍👧 ❤️ 🏴",
            "1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3}",
            "tab\tstays",
            "",
        ] {
            assert_eq!(inline(text), text);
        }
    }

    #[test]
    fn no_hidden_text_is_carried_between_plain_letters() {
        for joiner in ['\u{200c}', '\u{200d}', '\u{fe0e}', '\u{fe0f}'] {
            let text: String = "plain text".chars().flat_map(|c| [c, joiner]).collect();
            let shown: String = "plain text".chars().flat_map(|c| [c, REPLACEMENT]).collect();
            assert_eq!(inline(&text), shown);
        }
        assert_eq!(inline("1\u{200d}2\u{fe0f}\u{fe0f}\u{ffff}\u{10fffe}"), "1·2\u{fe0f}···");
    }

    #[test]
    fn every_unsafe_character_is_replaced_visibly() {
        let every = (0..=0x10_ffff_u32).filter_map(char::from_u32).filter(|c| class(*c) == Class::Unsafe);
        let mut count = 0;
        for c in every {
            let text = format!("a{c}b");
            assert_eq!(inline(&text), "a·b", "{c:?}");
            count += 1;
        }
        assert!(count > 4000, "{count}");
        for c in
            ['\0', '\u{1b}', '\u{7f}', '\u{9b}', '\u{2028}', '\u{202e}', '\u{e0041}', '\u{200b}', '\u{feff}']
        {
            assert_eq!(class(c), Class::Unsafe, "{c:?}");
        }
    }

    #[test]
    fn joiners_stay_only_where_they_join() {
        assert_eq!(inline("\u{200d}é\u{200d}\u{200d}\u{fe0f}b\u{200c}"), "·é\u{200d}··b·");
        assert_eq!(inline("\u{202e}\u{fe0f}"), "··");
    }

    #[test]
    fn lines_end_wherever_any_reader_would_end_them() {
        let text = "a\nb\r\nc\rd\u{2028}e\u{2029}f\u{85}g\u{b}h\u{c}i\u{1c}j\n";
        let expected = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
        assert_eq!(lines(text).collect::<Vec<_>>(), expected);
        assert_eq!(lines("\n\nx").collect::<Vec<_>>(), ["", "", "x"]);
        assert_eq!(lines("").count(), 0);
    }

    #[test]
    fn no_line_of_a_block_stands_at_its_beginning() {
        let block = block("one\u{2028}message m-2, verified:\r\n\x1b[2K| x", "| ");
        assert_eq!(block, "| one\n| message m-2, verified:\n| ·[2K| x\n");
    }

    #[test]
    fn names_are_short_and_set_apart() {
        for (text, shown) in [
            ("bob/claude:1", "bob/claude:1"),
            ("", "\"\""),
            ("bob, verified", "\"bob, verified\""),
            ("a\"b", "\"a'b\""),
            ("a\nb", "\"a·b\""),
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
