//! A drawn screen as bytes for a terminal.

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::style::{Color, Modifier};
use unicode_width::UnicodeWidthStr as _;

/// The whole of it, over what is there. Terminals that can show it in one go.
pub(crate) fn bytes(buffer: &Buffer) -> String {
    let mut bytes = String::from("\x1b[?2026h\x1b[?25l");
    for row in 0..buffer.area.height {
        bytes.push_str(&format!("\x1b[{};1H", row + 1));
        let (mut style, mut col) = (None, 0);
        while col < buffer.area.width {
            let cell = &buffer[(col, row)];
            let wanted = style_of(cell);
            if style.as_ref() != Some(&wanted) {
                bytes.push_str(&wanted);
                style = Some(wanted);
            }
            bytes.push_str(cell.symbol());
            // A wide character covers the cells behind it.
            col += (cell.symbol().width() as u16).max(1);
        }
        bytes.push_str("\x1b[0m");
    }
    bytes.push_str("\x1b[?2026l");
    bytes
}

/// As much as we use: the usual colours, and bold.
fn style_of(cell: &Cell) -> String {
    let colour = match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        _ => "",
    };
    let bold = if cell.modifier.contains(Modifier::BOLD) { ";1" } else { "" };
    format!("\x1b[0{colour}{bold}m")
}

#[cfg(test)]
mod tests {
    use ratatui_core::layout::Rect;
    use ratatui_core::style::Style;

    use super::*;

    #[test]
    fn a_terminal_shows_what_was_drawn() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 2));
        buffer.set_string(0, 0, "日本 a", Style::new().fg(Color::Green).add_modifier(Modifier::BOLD));
        buffer.set_string(1, 1, "b", Style::new());
        let mut emulator = trl_testkit::emulator(2, 8);
        emulator.process(bytes(&buffer).as_bytes());
        assert_eq!(trl_testkit::seen(&emulator), "日本 a\n b");
        let first = emulator.screen().cell(0, 0).unwrap();
        assert!(first.bold());
        assert!(!emulator.screen().cell(1, 1).unwrap().bold());
    }
}
