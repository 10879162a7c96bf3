//! What a person would see: the bytes of a terminal, rendered.
//!
//! The emulator is the `vt100` crate: small, without I/O of its own, and it can write
//! its state back as escape sequences, which is what a person who attaches later is
//! shown. Memory is bounded by the size of the screen and the lines it scrolls back.

use std::num::NonZeroU16;

use rustix::termios::Winsize;
use trl_protocol::exec::Cursor;
use trl_protocol::limits::MAX_TERMINAL_SIDE;

/// Longest title that is kept.
const TITLE_BYTES: usize = 1024;
/// What programs asked of the terminal in one go, at most.
const ANSWER_BYTES: usize = 4096;

pub(crate) struct Emulator {
    parser: vt100::Parser<Side>,
}

/// What programs tell and ask the terminal beyond what is drawn.
#[derive(Debug, Default)]
struct Side {
    title: String,
    answers: Vec<u8>,
}

/// A screen as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) rows: u16,
    pub(crate) cols: u16,
    pub(crate) cursor: Cursor,
    pub(crate) lines: Vec<String>,
    pub(crate) title: String,
    pub(crate) alternate: bool,
    pub(crate) bracketed_paste: bool,
    pub(crate) application_cursor: bool,
}

impl Emulator {
    pub(crate) fn new(size: Winsize, scrollback: usize) -> Emulator {
        let (rows, cols) = (side(size.ws_row), side(size.ws_col));
        Emulator { parser: vt100::Parser::new_with_callbacks(rows, cols, scrollback, Side::default()) }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.parser.process(bytes);
    }

    pub(crate) fn resize(&mut self, size: Winsize) {
        let size = (side(size.ws_row), side(size.ws_col));
        if self.parser.screen().size() != size {
            self.parser.set_size(size.0, size.1);
        }
    }

    /// What a terminal answers to the questions that came since the last time.
    pub(crate) fn take_answers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.parser.callbacks_mut().answers)
    }

    /// The screen as bytes that draw it on another terminal, modes and all.
    pub(crate) fn redraw(&self) -> Vec<u8> {
        let screen = self.parser.screen();
        let other = if screen.alternate_screen() { "\x1b[?1049h" } else { "\x1b[?1049l" };
        let title = &self.parser.callbacks().title;
        let title = if title.is_empty() { String::new() } else { format!("\x1b]2;{title}\x07") };
        format!("{other}{title}{}", screen.state_formatted()).into_bytes()
    }

    /// As [`Emulator::redraw`], behind the lines that have scrolled off.
    pub(crate) fn redraw_with_scrollback(&mut self) -> Vec<u8> {
        let is_other = self.parser.screen().alternate_screen();
        if is_other {
            // What scrolls is the first screen; the other comes back as it is.
            self.parser.process(b"\x1b[?47l");
        }
        let mut bytes = self.scrolled_off();
        if !bytes.is_empty() {
            // Off the screen with them, before it is drawn over.
            let rows = self.parser.screen().size().0;
            bytes.extend(std::iter::repeat_n(b'\n', rows.get().into()));
        }
        bytes.extend(self.redraw());
        if is_other {
            self.parser.process(b"\x1b[?47h");
            bytes.extend(self.redraw());
        }
        bytes
    }

    fn scrolled_off(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let screen = self.parser.screen_mut();
        let (rows, cols) = screen.size();
        screen.set_scrollback(usize::MAX);
        let mut left = screen.scrollback();
        while left > 0 {
            screen.set_scrollback(left);
            let count = left.min(usize::from(rows.get()));
            for row in screen.rows_formatted(0, cols.get()).take(count) {
                bytes.extend_from_slice(row.as_bytes());
                bytes.extend_from_slice(b"\x1b[0m\r\n");
            }
            left -= count;
        }
        screen.set_scrollback(0);
        bytes
    }

    pub(crate) fn cols(&self) -> u16 {
        self.parser.screen().size().1.get()
    }

    pub(crate) fn is_at_left(&self) -> bool {
        self.parser.screen().cursor_position().1 == 0
    }

    pub(crate) fn view(&self) -> View {
        let screen = self.parser.screen();
        let (rows, cols) = screen.size();
        let (row, col) = screen.cursor_position();
        View {
            rows: rows.get(),
            cols: cols.get(),
            // Behind the last column while the next character would wrap.
            cursor: Cursor { row, col: col.min(cols.get() - 1), visible: !screen.hide_cursor() },
            lines: screen.rows(0, cols.get()).map(|line| line.trim_end().to_owned()).collect(),
            title: self.parser.callbacks().title.clone(),
            alternate: screen.alternate_screen(),
            bracketed_paste: screen.bracketed_paste(),
            application_cursor: screen.application_cursor(),
        }
    }
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator").field("size", &self.parser.screen().size()).finish_non_exhaustive()
    }
}

fn side(length: u16) -> NonZeroU16 {
    NonZeroU16::new(length.min(MAX_TERMINAL_SIDE)).unwrap_or(NonZeroU16::MIN)
}

impl Side {
    fn answer(&mut self, text: &str) {
        if self.answers.len() + text.len() <= ANSWER_BYTES {
            self.answers.extend_from_slice(text.as_bytes());
        }
    }
}

impl vt100::Callbacks for Side {
    fn set_window_title(&mut self, _: &mut vt100::Screen, title: &[u8]) {
        let kept = &title[..title.len().min(TITLE_BYTES)];
        self.title = String::from_utf8_lossy(kept).replace(char::is_control, "");
    }

    /// Questions that programs wait for an answer to.
    fn unhandled_csi(
        &mut self,
        screen: &mut vt100::Screen,
        first: Option<u8>,
        _: Option<u8>,
        params: &[&[u16]],
        last: char,
    ) {
        let param = params.first().and_then(|param| param.first()).copied().unwrap_or(0);
        match (first, last, param) {
            // Who are you: a VT100 with advanced video.
            (None, 'c', 0) => self.answer("\x1b[?1;2c"),
            (Some(b'>'), 'c', 0) => self.answer("\x1b[>0;10;1c"),
            // Are you well, and where is the cursor.
            (None, 'n', 5) => self.answer("\x1b[0n"),
            (None, 'n', 6) => {
                let (row, col) = screen.cursor_position();
                self.answer(&format!("\x1b[{};{}R", row + 1, col + 1));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn size(rows: u16, cols: u16) -> Winsize {
        Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 }
    }

    fn after(bytes: &[u8]) -> Emulator {
        let mut emulator = Emulator::new(size(4, 10), 0);
        emulator.feed(bytes);
        emulator
    }

    #[test]
    fn a_screen_is_told_as_it_looks() {
        let view = after(b"one  \r\ntwo\x1b]2;a \x07title\x1b[?25l").view();
        assert_eq!(view.lines, ["one", "twotitle", "", ""]);
        assert_eq!(view.cursor, Cursor { row: 1, col: 8, visible: false });
        assert_eq!((view.title.as_str(), view.alternate, view.rows, view.cols), ("a ", false, 4, 10));
    }

    #[test]
    fn the_other_screen_goes_and_the_first_comes_back() {
        let mut emulator = after(b"shell\x1b[?1049h\x1b[2J\x1b[Hvim");
        assert!(emulator.view().alternate);
        assert_eq!(emulator.view().lines[0], "vim");
        emulator.feed(b"\x1b[?1049l");
        assert_eq!((emulator.view().lines[0].as_str(), emulator.view().alternate), ("shell", false));
    }

    #[test]
    fn a_redraw_shows_the_same_with_its_modes() {
        let first = after(b"\x1b]2;t\x07shell\x1b[?1049h\x1b[?2004h\x1b[?1002h\x1b[2;3H\x1b[1mx");
        let mut second = Emulator::new(size(4, 10), 0);
        second.feed(&first.redraw());
        assert_eq!(second.view(), first.view());
        let modes = |emulator: &Emulator| emulator.parser.screen().input_mode_formatted();
        assert_eq!(modes(&second), modes(&first));
        second.feed(b"\x1b[?1049l");
        assert!(!second.view().alternate);
    }

    #[test]
    fn what_scrolled_off_is_above_a_redraw() {
        let mut first = Emulator::new(size(2, 10), 100);
        first.feed(b"1\r\n2\r\n3\r\n4\r\n5");
        let mut second = Emulator::new(size(2, 10), 100);
        second.feed(&first.redraw_with_scrollback());
        assert_eq!(second.view().lines, ["4", "5"]);
        second.parser.screen_mut().set_scrollback(usize::MAX);
        let seen: Vec<String> = second.parser.screen().rows(0, 10).collect();
        assert_eq!(seen, ["1", "2"]);
    }

    #[test]
    fn below_another_screen_the_first_is_drawn_too() {
        let mut first = Emulator::new(size(2, 10), 100);
        first.feed(b"1\r\n2\r\n3\x1b[?1049hvim");
        let before = first.view();
        let mut second = Emulator::new(size(2, 10), 100);
        second.feed(&first.redraw_with_scrollback());
        assert_eq!((second.view(), first.view()), (before.clone(), before));
        second.feed(b"\x1b[?1049l");
        assert_eq!(second.view().lines, ["2", "3"]);
        second.parser.screen_mut().set_scrollback(usize::MAX);
        assert_eq!(second.parser.screen().rows(0, 10).next().as_deref(), Some("1"));
    }

    #[test]
    fn questions_are_answered_once() {
        let mut emulator = after(b"ab\x1b[6n\x1b[c\x1b[5n\x1b[>c");
        assert_eq!(emulator.take_answers(), b"\x1b[1;3R\x1b[?1;2c\x1b[0n\x1b[>0;10;1c");
        assert_eq!(emulator.take_answers(), b"");
    }

    #[test]
    fn sizes_out_of_bounds_are_brought_into_them() {
        let mut emulator = Emulator::new(size(0, 0), 0);
        assert_eq!((emulator.view().rows, emulator.view().cols), (1, 1));
        emulator.resize(size(2, u16::MAX));
        assert_eq!((emulator.view().rows, emulator.view().cols), (2, MAX_TERMINAL_SIDE));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// A program may print anything at any size: nothing of it may end the session.
        #[test]
        fn no_bytes_and_no_sizes_break_it(
            steps in proptest::collection::vec(
                prop_oneof![
                    proptest::collection::vec(any::<u8>(), 0..40).prop_map(Ok),
                    "(\x1b\\[[?0-9;]{0,6}[@-~]|[a-z日本🎉]{1,20}|\r\n){1,6}".prop_map(|text| Ok(text.into_bytes())),
                    (0u16..60, 0u16..60).prop_map(Err),
                ],
                1..40,
            ),
        ) {
            let mut emulator = Emulator::new(size(5, 7), 20);
            for step in steps {
                match step {
                    Ok(bytes) => emulator.feed(&bytes),
                    Err((rows, cols)) => emulator.resize(size(rows, cols)),
                }
                let view = emulator.view();
                prop_assert_eq!(view.lines.len(), usize::from(view.rows));
            }
        }
    }
}
