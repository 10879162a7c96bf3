//! The session as a person sees it: prompt, commands and output in one stream of bytes for
//! everyone who is attached.
//!
//! It exists while somebody is attached. What happened before is drawn from the journals; from
//! then on every foreground command shows here, whoever started it. Who is sent what is up to
//! [`crate::subscribers`]. See `docs/decisions/0009-attaching-to-a-session.md`.

use std::collections::VecDeque;

use rustix::termios::Winsize;

use super::emulator::Emulator;
use super::line::{KeyEffect, LineEditor, erased};
use crate::subscribers::Subscribers;

/// Lines that scroll back when somebody attaches.
const SCROLLBACK: usize = 1000;
/// Bytes that may be typed ahead while a command runs that does not read them.
const AHEAD: usize = 4096;

#[derive(Debug)]
pub(crate) struct Console {
    emulator: Emulator,
    /// Bytes that were ever shown.
    total: u64,
    line: LineEditor,
    /// Rows from the prompt's first to the cursor, while the prompt is drawn.
    below: usize,
    /// Typed while something else ran, for the next prompt.
    ahead: VecDeque<u8>,
    /// The command that was typed at the prompt: its line is on the screen already.
    typed: Option<u64>,
    /// The exit status of the last command.
    status: i32,
}

impl Console {
    pub(crate) fn new(size: Winsize) -> Console {
        Console {
            emulator: Emulator::new(size, SCROLLBACK),
            total: 0,
            line: LineEditor::default(),
            below: 0,
            ahead: VecDeque::new(),
            typed: None,
            status: 0,
        }
    }

    pub(crate) fn resize(&mut self, size: Winsize) {
        self.emulator.resize(size);
    }

    /// Bytes that were ever shown.
    pub(crate) fn shown(&self) -> u64 {
        self.total
    }

    pub(crate) fn redraw(&self) -> Vec<u8> {
        self.emulator.redraw()
    }

    pub(crate) fn redraw_with_scrollback(&mut self) -> Vec<u8> {
        self.emulator.redraw_with_scrollback()
    }

    pub(crate) fn is_at_left(&self) -> bool {
        self.emulator.is_at_left()
    }

    pub(crate) fn show(&mut self, subscribers: &mut Subscribers, bytes: &[u8]) {
        self.emulator.feed(bytes);
        subscribers.show(self.total, bytes);
        self.total += bytes.len() as u64;
    }

    // The line at the prompt.

    /// Takes one byte that was typed. `recall` gives the commands before, the last one by 1.
    pub(crate) fn type_key(
        &mut self,
        key: u8,
        recall: &dyn Fn(usize) -> Option<String>,
    ) -> Option<KeyEffect> {
        self.line.take(key, recall)
    }

    /// Draws prompt and line where they were drawn before.
    pub(crate) fn draw_line(&mut self, subscribers: &mut Subscribers, prompt: &str) {
        let (drawn, below) = self.line.draw(prompt, self.below, self.emulator.cols().into());
        self.show(subscribers, drawn.as_bytes());
        self.below = below;
    }

    /// Whether a character at the end of the line can just be added to what is drawn.
    pub(crate) fn line_just_grows(&self, prompt: &str) -> bool {
        self.line.just_grows(prompt, self.emulator.cols().into())
    }

    /// Bytes that erase prompt and line.
    pub(crate) fn erased_line(&self) -> String {
        erased(self.below)
    }

    /// Something else stands where prompt and line were.
    pub(crate) fn line_is_gone(&mut self) {
        self.below = 0;
    }

    // Keys typed ahead.

    /// Keeps keys for the next prompt, or for the typed command that is about to start.
    pub(crate) fn type_ahead(&mut self, keys: &[u8]) {
        if self.ahead.len() + keys.len() <= AHEAD {
            self.ahead.extend(keys);
        }
    }

    pub(crate) fn take_ahead(&mut self) -> Vec<u8> {
        self.ahead.drain(..).collect()
    }

    pub(crate) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    // Commands.

    pub(crate) fn set_typed(&mut self, exec: u64) {
        self.typed = Some(exec);
    }

    /// Whether this command was typed here. True once.
    pub(crate) fn take_typed(&mut self, exec: u64) -> bool {
        self.typed.take_if(|typed| *typed == exec).is_some()
    }

    pub(crate) fn set_status(&mut self, status: i32) {
        self.status = status;
    }

    pub(crate) fn status(&self) -> i32 {
        self.status
    }
}

/// Text as a terminal wants it: each line begins at the left.
pub(crate) fn for_terminal(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 16);
    let mut last = 0;
    for byte in text {
        if *byte == b'\n' && last != b'\r' {
            out.push(b'\r');
        }
        out.push(*byte);
        last = *byte;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_at_the_left() {
        assert_eq!(for_terminal(b"a\nb\r\nc"), b"a\r\nb\r\nc");
    }
}
