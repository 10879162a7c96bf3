//! People who are attached to the session, and what they see of its commands.

use rustix::termios::Winsize;
use trl_protocol::exec::Stream;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::wire::{FromHost, Released};

use super::Host;
use crate::commands::{Exec, Requester};
use crate::terminal::{Console, Screen, UNSIZED, for_terminal};

/// Commands, and bytes of each, that are drawn for the first who attaches.
const SHOWN_COMMANDS: usize = 30;
const SHOWN_BYTES: usize = 16 * 1024;
/// Most that is shown of one burst on a pipe; nobody can read more.
const BURST: usize = 64 * 1024;

/// How somebody attaches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attachment {
    pub(super) writer: bool,
    pub(super) take_over: bool,
    pub(super) size: Option<(u16, u16)>,
}

impl Host {
    pub(super) fn on_view(
        &mut self,
        who: Requester,
        attachment: Attachment,
    ) -> Result<Option<FromHost>, Fault> {
        let Attachment { writer, take_over, size } = attachment;
        if writer && self.subscribers.has_writer() {
            if !take_over {
                let message = "another client is attached to this session; take over, or attach read-only";
                return Err(Fault::new(Code::SessionBusy, message));
            }
            self.subscribers.release_writer(Released::TakenOver);
        }
        if let (true, Some((rows, cols))) = (writer, size) {
            self.size_terminal(rows, cols);
        }
        if self.console.is_none() {
            self.open_console();
        }
        if let Some(console) = &mut self.console {
            let history = console.redraw_with_scrollback();
            self.subscribers.add_viewer(who, writer, console.shown(), &history);
        }
        Ok(None)
    }

    /// Sets the size of the session's terminal, for all that runs on it and for everyone who looks.
    pub(super) fn size_terminal(&mut self, rows: u16, cols: u16) {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        self.terminal.set_size(size);
        if let Some(shell) = &self.shell {
            // If the shell is ending, its successor gets the size.
            rustix::termios::tcsetwinsize(&shell.terminal, size).ok();
        }
        if let Some(console) = &mut self.console {
            console.resize(size);
        }
    }

    fn open_console(&mut self) {
        self.console = Some(Console::new(self.terminal.size().unwrap_or(UNSIZED)));
        let foreground = self.commands.all().filter(|exec| !exec.spec.background);
        let numbers: Vec<u64> = foreground.map(|exec| exec.number).collect();
        let first = numbers.len().saturating_sub(SHOWN_COMMANDS);
        for number in &numbers[first..] {
            let past = self.commands.get(*number).map(|exec| self.remembered(exec)).unwrap_or_default();
            self.show(&past);
        }
        if self.driver.foreground().is_none() {
            self.show_prompt();
        }
    }

    /// A command as it is still known: its text, and what it printed last.
    fn remembered(&self, exec: &Exec) -> Vec<u8> {
        let mut bytes = self.announcement(exec);
        match exec.tty.as_ref().map(|tty| tty.screen()) {
            Some(Screen::Live(emulator)) => {
                let view = emulator.view();
                if !view.alternate {
                    // What was before scrolls off instead of being drawn over.
                    bytes.extend(std::iter::repeat_n(b'\n', view.rows.into()));
                }
                return [bytes, emulator.redraw()].concat();
            }
            Some(Screen::Last(view)) if exec.journal.total(Stream::Stdout) > SHOWN_BYTES as u64 / 4 => {
                let used = view.lines.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
                bytes.extend(view.lines[..used].iter().flat_map(|line| [line.as_bytes(), b"\r\n"].concat()));
            }
            Some(Screen::Last(_)) | None => {
                for stream in Stream::BOTH {
                    let mut tail = vec![0; SHOWN_BYTES];
                    let read = self.commands.tail(exec, stream, &mut tail);
                    bytes.extend(for_terminal(&tail[..read]));
                }
            }
        }
        if exec.outcome().is_some() {
            bytes.extend(b"\x1b[0m");
            if !bytes.ends_with(b"\n\x1b[0m") {
                bytes.extend(b"\r\n");
            }
        }
        bytes
    }

    /// The line that says which command runs now.
    fn announcement(&self, exec: &Exec) -> Vec<u8> {
        let text = exec.spec.command.trim_end().replace('\n', "\r\n> ");
        let shown: String = text.chars().filter(|c| !c.is_control() || "\r\n\t".contains(*c)).collect();
        let erased = self.console.as_ref().map(Console::erased_line).unwrap_or_default();
        format!("{erased}{}{shown}\r\n", self.prompt_text()).into_bytes()
    }

    pub(super) fn show(&mut self, bytes: &[u8]) {
        if let Some(console) = &mut self.console {
            console.show(&mut self.subscribers, bytes);
        }
    }

    /// A foreground command starts.
    pub(super) fn show_start(&mut self, number: u64) {
        let Some(console) = &mut self.console else { return };
        if console.take_typed(number) {
            // Its line stands on the screen already, and what was typed since is for it first.
            let ahead = console.take_ahead();
            if let Some(exec) = self.commands.get_mut(number) {
                // So little always has room.
                exec.type_in(self.shell.as_ref(), &ahead, false).ok();
            }
        } else {
            let line = self.commands.get(number).map(|exec| self.announcement(exec)).unwrap_or_default();
            self.show(&line);
        }
        if let Some(console) = &mut self.console {
            console.line_is_gone();
        }
    }

    /// Something a command printed.
    pub(super) fn show_output(&mut self, number: u64, bytes: &[u8]) {
        if self.console.is_none() {
            return;
        }
        match self.commands.get(number) {
            Some(exec) if exec.spec.background => {}
            Some(exec) if exec.tty.is_some() => self.show(bytes),
            Some(_) => {
                let skipped = bytes.len().saturating_sub(BURST);
                self.show(&for_terminal(&bytes[skipped..]));
            }
            None => {}
        }
    }

    /// A foreground command is over.
    pub(super) fn show_end(&mut self, number: u64) {
        let Some(exec) = self.commands.get(number).filter(|exec| !exec.spec.background) else { return };
        let Some(console) = &mut self.console else { return };
        console.set_status(exec.outcome().and_then(|outcome| outcome.exit_code).unwrap_or(0));
        if self.commands.queued() == 0 {
            self.show_prompt();
        }
    }

    /// Somebody may have detached. `was_attended`: somebody typed here before.
    pub(super) fn after_viewers_left(&mut self, was_attended: bool) {
        if !self.subscribers.has_viewers() {
            self.console = None;
        }
        if was_attended && !self.subscribers.has_writer() {
            self.activity.mark();
        }
    }

    /// The one who types leaves; those who only look stay.
    pub(super) fn release_writer(&mut self, reason: Released) {
        self.subscribers.release_writer(reason);
        self.after_viewers_left(true);
    }
}
