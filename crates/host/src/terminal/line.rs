//! The line that a person types at the session's prompt: a pure step per key, and how it
//! is drawn.
//!
//! As much of a line editor as a hand misses at once: the cursor moves, the commands
//! before are behind the arrows. Only the host can have it, since everyone who watches
//! sees the line grow; see `docs/decisions/0009-attaching-to-a-session.md`.

use unicode_width::UnicodeWidthChar as _;

/// Longest line that is typed by hand; a longer one stops growing.
pub(crate) const LONGEST: usize = 4096;
/// Of a sequence that a terminal sends; a longer one is none.
const LONGEST_SEQUENCE: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct LineEditor {
    text: String,
    /// Where the cursor is, in bytes.
    at: usize,
    /// How many commands back the arrows have gone.
    back: usize,
    /// Bytes of a character or an escape sequence that is not whole yet.
    begun: Vec<u8>,
}

/// What a key did.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum KeyEffect {
    /// A character more, at the end.
    Append(char),
    /// The line or the place in it is another.
    Edit,
    Enter {
        text: String,
        /// The cursor was behind it.
        at_end: bool,
    },
    /// Ctrl-C: the line is dropped.
    Drop,
    /// Ctrl-L: an empty screen.
    Clear,
    /// Ctrl-D on an empty line.
    Leave,
}

impl LineEditor {
    /// Takes one byte. `recall` knows the commands before, the last one by 1.
    pub(crate) fn take(&mut self, byte: u8, recall: &dyn Fn(usize) -> Option<String>) -> Option<KeyEffect> {
        self.begun.push(byte);
        if self.begun[0] == 0x1b {
            return self.escape(recall);
        }
        let character = match std::str::from_utf8(&self.begun) {
            Ok(text) => text.chars().next(),
            // More of it is to come.
            Err(error) if error.error_len().is_none() => return None,
            Err(_) => None,
        };
        self.begun.clear();
        self.key(character?, recall)
    }

    fn key(&mut self, key: char, recall: &dyn Fn(usize) -> Option<String>) -> Option<KeyEffect> {
        match key {
            '\r' | '\n' => {
                let at_end = self.at == self.text.len();
                Some(KeyEffect::Enter { text: self.emptied(), at_end })
            }
            '\x03' => {
                self.emptied();
                Some(KeyEffect::Drop)
            }
            '\x04' if self.text.is_empty() => Some(KeyEffect::Leave),
            '\x04' => self.erase(self.at, self.right()),
            '\x0c' => Some(KeyEffect::Clear),
            '\x01' => self.go(0),
            '\x02' => self.go(self.left()),
            '\x05' => self.go(self.text.len()),
            '\x06' => self.go(self.right()),
            '\x0e' => self.walk(self.back.checked_sub(1)?, recall),
            '\x10' => self.walk(self.back + 1, recall),
            '\x0b' => self.erase(self.at, self.text.len()),
            '\x15' => self.erase(0, self.at),
            '\x17' => {
                let kept = self.text[..self.at].trim_end();
                let blank = kept.char_indices().rev().find(|(_, c)| c.is_whitespace());
                self.erase(blank.map_or(0, |(at, blank)| at + blank.len_utf8()), self.at)
            }
            '\x7f' | '\x08' => self.erase(self.left(), self.at),
            '\t' => self.insert(' '),
            key if key.is_control() => None,
            key => self.insert(key),
        }
    }

    fn emptied(&mut self) -> String {
        (self.at, self.back) = (0, 0);
        std::mem::take(&mut self.text)
    }

    fn left(&self) -> usize {
        self.text[..self.at].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn right(&self) -> usize {
        self.at + self.text[self.at..].chars().next().map_or(0, char::len_utf8)
    }

    fn go(&mut self, to: usize) -> Option<KeyEffect> {
        self.at = to;
        Some(KeyEffect::Edit)
    }

    fn insert(&mut self, key: char) -> Option<KeyEffect> {
        if self.text.len() + key.len_utf8() > LONGEST {
            return None;
        }
        self.text.insert(self.at, key);
        self.at += key.len_utf8();
        Some(if self.at == self.text.len() { KeyEffect::Append(key) } else { KeyEffect::Edit })
    }

    fn erase(&mut self, from: usize, to: usize) -> Option<KeyEffect> {
        self.text.replace_range(from..to, "");
        self.go(from)
    }

    fn walk(&mut self, back: usize, recall: &dyn Fn(usize) -> Option<String>) -> Option<KeyEffect> {
        self.text = if back == 0 { String::new() } else { recall(back)? };
        self.back = back;
        self.go(self.text.len())
    }

    /// Keys that are sequences; every other sequence is swallowed whole, as what a terminal
    /// answers to a program that is gone.
    fn escape(&mut self, recall: &dyn Fn(usize) -> Option<String>) -> Option<KeyEffect> {
        let is_whole = match self.begun.as_slice() {
            [_] | [_, b'[' | b'O' | b']' | b'P' | b'_' | b'^'] => false,
            [_, b'[' | b'O', .., last] => (0x40..=0x7e).contains(last),
            [_, b']' | b'P' | b'_' | b'^', .., last] => *last == 0x07 || self.begun.ends_with(b"\x1b\\"),
            _ => true,
        };
        if !is_whole && self.begun.len() < LONGEST_SEQUENCE {
            return None;
        }
        let sequence = std::mem::take(&mut self.begun);
        let key = match sequence.get(1..)? {
            [b'[' | b'O', b'A'] => '\x10',
            [b'[' | b'O', b'B'] => '\x0e',
            [b'[' | b'O', b'C'] => '\x06',
            [b'[' | b'O', b'D'] => '\x02',
            [b'[' | b'O', b'H'] | b"[1~" | b"[7~" => '\x01',
            [b'[' | b'O', b'F'] | b"[4~" | b"[8~" => '\x05',
            b"[3~" if self.text.is_empty() => return None,
            b"[3~" => '\x04',
            _ => return None,
        };
        self.key(key, recall)
    }

    /// Whether the last character can simply be written behind the others, in their row.
    pub(crate) fn just_grows(&self, prompt: &str, cols: usize) -> bool {
        let (before, after) =
            (place([prompt, &self.text[..self.left()]], cols), place([prompt, &self.text], cols));
        before.0 == after.0 && before != after
    }

    /// Bytes that draw prompt and line in place of those drawn before, whose cursor is
    /// `below` rows under their first; and how far below it is now.
    pub(crate) fn draw(&self, prompt: &str, below: usize, cols: usize) -> (String, usize) {
        let end = place([prompt, &self.text], cols);
        let cursor = place([prompt, &self.text[..self.at]], cols);
        let mut drawn = format!("{}{prompt}{}", erased(below), self.text);
        if end.1 == 0 && end.0 > 0 {
            // A terminal wraps only when the next character comes.
            drawn.push_str("\r\n");
        }
        if end.0 > cursor.0 {
            drawn.push_str(&format!("\x1b[{}A", end.0 - cursor.0));
        }
        if cursor != end {
            drawn.push('\r');
            if cursor.1 > 0 {
                drawn.push_str(&format!("\x1b[{}C", cursor.1));
            }
        }
        (drawn, cursor.0)
    }
}

/// Bytes that take away what was drawn from `below` rows above the cursor on.
pub(crate) fn erased(below: usize) -> String {
    let up = if below > 0 { format!("\x1b[{below}A") } else { String::new() };
    format!("{up}\r\x1b[0m\x1b[J")
}

/// Rows below the first and columns from the left, behind these texts.
fn place(texts: [&str; 2], cols: usize) -> (usize, usize) {
    let (mut row, mut col) = (0, 0);
    for width in texts.iter().flat_map(|text| text.chars()).filter_map(|c| c.width()) {
        if col + width > cols {
            (row, col) = (row + 1, 0);
        }
        col += width;
    }
    if col >= cols { (row + 1, 0) } else { (row, col) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(keys: &str) -> (LineEditor, Vec<KeyEffect>) {
        let history = ["second", "first"];
        let recall = |back: usize| history.get(back - 1).map(|text| (*text).to_owned());
        let mut line = LineEditor::default();
        let did = keys.bytes().filter_map(|byte| line.take(byte, &recall)).collect();
        (line, did)
    }

    #[test]
    fn what_is_typed_is_what_runs() {
        for (keys, expected) in [
            ("echo hi\r", "echo hi"),
            ("ab\x7fc\r", "ac"),
            ("one two\x17x\r", "one x"),
            ("一\u{3000}二\x17x\r", "一\u{3000}x"),
            ("gone\x15kept\r", "kept"),
            ("日本\x7f\r", "日"),
            ("ac\x1b[Db\r", "abc"),
            ("bc\x01a\x05d\r", "abcd"),
            ("bc\x1b[Ha\x1bOFd\r", "abcd"),
            ("abxc\x02\x02\x04\r", "abc"),
            ("abc\x1b[D\x1b[D\x0b\r", "a"),
            ("日x\x1b[D\x1b[D\x1b[3~\r", "x"),
            ("\x1b[D\x1b[C\x7f\x1b[3~a\r", "a"),
            ("\x1b[A\r", "second"),
            ("\x1b[A\x1bOA\r", "first"),
            ("\x1b[A\x1b[A\x1b[A\x1b[B\x1b[Bz\r", "z"),
            // What a terminal says of itself is no text.
            ("a\x1b]11;rgb:0/0/0\x07b\x1bP>|xterm\x1b\\c\x1b[?1;2cd\r", "abcd"),
            ("\r", ""),
        ] {
            let (_, mut did) = typed(keys);
            assert!(matches!(did.pop(), Some(KeyEffect::Enter { text, .. }) if text == expected), "{keys:?}");
        }
    }

    #[test]
    fn control_keys() {
        assert_eq!(typed("\x04").1, [KeyEffect::Leave]);
        assert_eq!(typed("a\x0c").1, [KeyEffect::Append('a'), KeyEffect::Clear]);
        let (line, did) = typed("a\x03");
        assert_eq!((line.text.as_str(), did.last()), ("", Some(&KeyEffect::Drop)));
    }

    #[test]
    fn a_line_is_drawn_where_it_was() {
        for (keys, below, expected, now_below) in [
            ("ab", 0, "\r\x1b[0m\x1b[J$ ab", 0),
            ("ab\x02", 0, "\r\x1b[0m\x1b[J$ ab\r\x1b[3C", 0),
            // Four columns: the cursor is at the beginning of the next row, or beyond.
            ("abc", 0, "\r\x1b[0m\x1b[J$ abc", 1),
            ("ab\x01", 1, "\x1b[1A\r\x1b[0m\x1b[J$ ab\r\n\x1b[1A\r\x1b[2C", 0),
            ("a日", 0, "\r\x1b[0m\x1b[J$ a日", 1),
        ] {
            let cols = if now_below > 0 || below > 0 { 4 } else { 10 };
            assert_eq!(typed(keys).0.draw("$ ", below, cols), (expected.to_owned(), now_below), "{keys:?}");
        }
    }

    #[test]
    fn only_what_stays_in_its_row_just_grows() {
        for (keys, cols, expected) in [("a", 10, true), ("ab", 4, false), ("abc", 4, true), ("a日", 5, false)]
        {
            assert_eq!(typed(keys).0.just_grows("$ ", cols), expected, "{keys:?}");
        }
    }

    #[test]
    fn what_is_drawn_is_what_an_emulator_shows() {
        for cols in [4, 5, 7, 20] {
            let (mut line, mut below) = (LineEditor::default(), 0);
            let mut emulator = vt100::Parser::new(30.try_into().unwrap(), cols.try_into().unwrap(), 0);
            for key in "echo 日本語 and more\x02\x02x\x01y\x7f\x05\x17\x17z\x06".bytes() {
                if line.take(key, &|_| None).is_some() {
                    let drawn;
                    (drawn, below) = line.draw("p ", below, cols.into());
                    emulator.process(drawn.as_bytes());
                }
            }
            let shown: String = emulator.screen().rows(0, cols).collect();
            assert_eq!(shown.split_whitespace().collect::<String>(), "pecho日本語z", "{cols}");
        }
    }
}
