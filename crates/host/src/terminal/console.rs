//! The session as people see it: prompt, commands, output, in one stream of bytes for
//! everyone who is attached.
//!
//! It exists while somebody is there. What happened before is drawn from the journals;
//! from then on every foreground command shows here, whoever started it. A watcher who
//! cannot keep up is not waited for: the emulator draws the screen anew when there is
//! room again. See `docs/decisions/0009-attaching-to-a-session.md`.

use std::collections::VecDeque;

use rustix::termios::Winsize;

use super::emulator::Emulator;
use super::line::{Line, erased};
use crate::link::Links;
use trl_protocol::exec::Stream;
use trl_protocol::wire::{FromHost, INITIAL_CREDIT, Released};

/// Lines that scroll back when somebody attaches.
const SCROLLBACK: usize = 1000;
/// Of what one event carries.
const PIECE: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Console {
    pub(super) emulator: Emulator,
    watchers: Vec<Watcher>,
    /// Bytes that were ever shown.
    total: u64,
    pub(super) line: Line,
    /// Rows from the prompt's first to the cursor, while the prompt is drawn.
    below: usize,
    /// Typed while something else ran, for the next prompt.
    pub(super) ahead: VecDeque<u8>,
    /// The command that its line was typed for: it is on the screen already.
    pub(super) typed: Option<u64>,
    /// Of the last command.
    pub(super) status: i32,
}

#[derive(Debug)]
struct Watcher {
    link: u64,
    req: u64,
    credit: u64,
    /// Has missed something; sees the screen anew when there is credit.
    behind: bool,
    /// Types, and whose window gives the size.
    writer: bool,
}

impl Console {
    pub(super) fn new(size: Winsize) -> Console {
        Console {
            emulator: Emulator::new(size, SCROLLBACK),
            watchers: Vec::new(),
            total: 0,
            line: Line::default(),
            below: 0,
            ahead: VecDeque::new(),
            typed: None,
            status: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    pub(crate) fn has_writer(&self) -> bool {
        self.watchers.iter().any(|watcher| watcher.writer)
    }

    /// One more, who sees everything from the scrollback on.
    pub(super) fn add(&mut self, links: &mut Links, link: u64, req: u64, writer: bool) {
        self.watchers.push(Watcher { link, req, credit: INITIAL_CREDIT, behind: false, writer });
        let history = self.emulator.redraw_with_scrollback();
        if let Some(watcher) = self.watchers.last_mut() {
            for piece in history.chunks(PIECE) {
                watcher.send(links, self.total, piece);
            }
        }
    }

    /// Draws prompt and line where they were drawn before.
    pub(super) fn draw_line(&mut self, links: &mut Links, prompt: &str) {
        let (drawn, below) = self.line.draw(prompt, self.below, self.emulator.cols().into());
        self.show(links, drawn.as_bytes());
        self.below = below;
    }

    pub(super) fn line_just_grows(&self, prompt: &str) -> bool {
        self.line.just_grows(prompt, self.emulator.cols().into())
    }

    /// Bytes that take prompt and line away.
    pub(super) fn erased_line(&self) -> String {
        erased(self.below)
    }

    /// Something else stands where they were.
    pub(super) fn line_is_gone(&mut self) {
        self.below = 0;
    }

    /// Sends the one who types away, with the reason.
    pub(super) fn release_writer(&mut self, links: &mut Links, reason: Released) {
        self.watchers.retain(|watcher| {
            if let (true, Some(link)) = (watcher.writer, links.get_mut(&watcher.link)) {
                link.send(&FromHost::Released { req: watcher.req, reason });
            }
            !watcher.writer
        });
    }

    pub(super) fn forget(&mut self, is_gone: impl Fn(u64, u64) -> bool) {
        self.watchers.retain(|watcher| !is_gone(watcher.link, watcher.req));
    }

    pub(super) fn show(&mut self, links: &mut Links, bytes: &[u8]) {
        self.emulator.feed(bytes);
        self.total += bytes.len() as u64;
        for watcher in &mut self.watchers {
            if watcher.behind || watcher.credit < bytes.len() as u64 {
                watcher.behind = true;
            } else {
                watcher.send(links, self.total - bytes.len() as u64, bytes);
            }
        }
    }

    pub(super) fn grant(&mut self, links: &mut Links, link: u64, req: u64, bytes: u64) {
        let Some(watcher) = self.watchers.iter_mut().find(|w| w.link == link && w.req == req) else { return };
        watcher.credit = watcher.credit.saturating_add(bytes);
        if watcher.behind {
            let screen = self.emulator.redraw();
            // A screen larger than all credit is sent at once too.
            if watcher.credit >= (screen.len() as u64).min(INITIAL_CREDIT / 2) {
                watcher.behind = false;
                watcher.send(links, self.total, &screen);
            }
        }
    }
}

impl Watcher {
    fn send(&mut self, links: &mut Links, offset: u64, bytes: &[u8]) {
        self.credit = self.credit.saturating_sub(bytes.len() as u64);
        if let Some(link) = links.get_mut(&self.link) {
            link.send_data(self.req, Stream::Stdout, offset, bytes);
        }
    }
}

/// Text as a terminal wants it: each line begins at the left.
pub(super) fn for_terminal(text: &[u8]) -> Vec<u8> {
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
