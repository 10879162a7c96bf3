//! Lines of text as one screen for a terminal.

use crate::table::{self, Keep};

/// As much as we use: the usual colours, and bold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Bold,
    Green,
    Yellow,
}

impl Style {
    fn escape(self) -> &'static str {
        match self {
            Style::Plain => "\x1b[0m",
            Style::Bold => "\x1b[0;1m",
            Style::Green => "\x1b[0;32m",
            Style::Yellow => "\x1b[0;33m",
        }
    }
}

/// The whole screen, over what is there; lines that do not fit are cut. Terminals that can show it in one go.
pub(crate) fn bytes(lines: &[(Style, String)], cols: u16, rows: u16) -> String {
    let mut bytes = String::from("\x1b[?2026h\x1b[?25l");
    let empty = (Style::Plain, String::new());
    for (row, (style, text)) in (1..=rows).zip(lines.iter().chain(std::iter::repeat(&empty))) {
        let shown = table::fit(text, usize::from(cols), Keep::Start);
        bytes.push_str(&format!("\x1b[{row};1H{}{shown}\x1b[0m\x1b[K", style.escape()));
    }
    bytes.push_str("\x1b[?2026l");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_shows_what_was_drawn() {
        let mut emulator = trl_testkit::emulator(3, 8);
        emulator.process(b"\x1b[31mwhat was there before");
        let lines = [(Style::Bold, "日本 a".to_owned()), (Style::Plain, " longer than it is".to_owned())];
        emulator.process(bytes(&lines, 8, 3).as_bytes());
        assert_eq!(trl_testkit::seen(&emulator), "日本 a\n longer…");
        let first = emulator.screen().cell(0, 0).unwrap();
        assert!(first.bold());
        assert!(!emulator.screen().cell(1, 1).unwrap().bold());
    }
}
