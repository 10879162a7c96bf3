//! People at the session: who is there, and what they see of its commands.

use std::time::Instant;

use rustix::termios::Winsize;
use trl_protocol::exec::Stream;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::wire::{FromHost, Released};

use super::console::{Console, for_terminal};
use super::{Screen, UNSIZED};
use crate::exec::{Exec, Requester};
use crate::host::{Host, timestamp};

/// Commands, and bytes of each, that are drawn for the first who comes.
const SHOWN_COMMANDS: usize = 30;
const SHOWN_BYTES: usize = 16 * 1024;
/// Of a burst on a pipe nobody can read more.
const BURST: usize = 64 * 1024;

/// How somebody attaches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    pub(crate) writer: bool,
    pub(crate) take_over: bool,
    pub(crate) size: Option<(u16, u16)>,
}

impl Host {
    pub(crate) fn on_watch(&mut self, who: Requester, watch: Watch) -> Result<Option<FromHost>, Fault> {
        if watch.writer && self.is_attended() {
            if !watch.take_over {
                let message = "somebody is attached to this session; take over, or attach read-only";
                return Err(Fault::new(Code::SessionBusy, message));
            }
            if let Some(console) = &mut self.console {
                console.release_writer(&mut self.links, Released::TakenOver);
            }
        }
        if let (true, Some((rows, cols))) = (watch.writer, watch.size) {
            self.size_terminal(rows, cols);
        }
        if self.console.is_none() {
            self.open_console();
        }
        if let Some(console) = &mut self.console {
            console.add(&mut self.links, who.link, who.req, watch.writer);
        }
        Ok(None)
    }

    /// Whether somebody sits here: then the session is in use, whatever runs.
    pub(crate) fn is_attended(&self) -> bool {
        self.console.as_ref().is_some_and(Console::has_writer)
    }

    /// The size of the session's terminal, for all that runs on it and for everyone who watches.
    pub(crate) fn size_terminal(&mut self, rows: u16, cols: u16) {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        self.terminal_size = Some(size);
        if let Some(shell) = &self.shell {
            // A shell that is ending gets a successor, which is told then.
            rustix::termios::tcsetwinsize(&shell.terminal, size).ok();
        }
        if let Some(console) = &mut self.console {
            console.emulator.resize(size);
        }
    }

    fn open_console(&mut self) {
        self.console = Some(Console::new(self.terminal_size.unwrap_or(UNSIZED)));
        let numbers: Vec<u64> =
            self.execs.iter().filter(|(_, exec)| !exec.spec.background).map(|(n, _)| *n).collect();
        let first = numbers.len().saturating_sub(SHOWN_COMMANDS);
        for number in &numbers[first..] {
            let past = self.execs.get(number).map(|exec| self.remembered(exec)).unwrap_or_default();
            self.show(&past);
        }
        if self.running_number().is_none() {
            self.show_prompt();
        }
    }

    /// A command as it is still known: its text, and what it printed last.
    fn remembered(&self, exec: &Exec) -> Vec<u8> {
        let mut bytes = self.announcement(exec);
        match exec.tty.as_ref().map(|tty| &tty.screen) {
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
                    let from = exec.journal.total(stream).saturating_sub(SHOWN_BYTES as u64);
                    let (_, read) = self.journal.read(&exec.journal, stream, from, &mut tail);
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
            console.show(&mut self.links, bytes);
        }
    }

    /// A foreground command starts.
    pub(crate) fn show_start(&mut self, number: u64) {
        let Some(console) = &mut self.console else { return };
        if console.typed.take_if(|typed| *typed == number).is_some() {
            // Its line stands on the screen already, and what was typed since is for it first.
            let ahead: Vec<u8> = console.ahead.drain(..).collect();
            if let Some(exec) = self.execs.get_mut(&number) {
                // So little always has room.
                exec.type_in(self.shell.as_ref(), &ahead, false).ok();
            }
        } else {
            let line = self.execs.get(&number).map(|exec| self.announcement(exec)).unwrap_or_default();
            self.show(&line);
        }
        if let Some(console) = &mut self.console {
            console.line_is_gone();
        }
    }

    /// Something a command printed.
    pub(crate) fn show_output(&mut self, number: u64, bytes: &[u8]) {
        if self.console.is_none() {
            return;
        }
        match self.execs.get(&number) {
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
    pub(crate) fn show_end(&mut self, number: u64) {
        let Some(exec) = self.execs.get(&number).filter(|exec| !exec.spec.background) else { return };
        let Some(console) = &mut self.console else { return };
        console.status = exec.outcome().and_then(|outcome| outcome.exit_code).unwrap_or(0);
        if self.queue.is_empty() {
            self.show_prompt();
        }
    }

    pub(crate) fn forget_watchers(&mut self, is_gone: impl Fn(u64, u64) -> bool) {
        let was_attended = self.is_attended();
        if let Some(console) = &mut self.console {
            console.forget(is_gone);
            if console.is_empty() {
                self.console = None;
            }
        }
        if was_attended && !self.is_attended() {
            self.last_activity = Instant::now();
            self.last_activity_at = timestamp();
        }
    }

    /// The one who types goes; those who look stay.
    pub(super) fn release_writer(&mut self, reason: Released) {
        if let Some(console) = &mut self.console {
            console.release_writer(&mut self.links, reason);
        }
        self.last_activity = Instant::now();
        self.last_activity_at = timestamp();
        self.forget_watchers(|_, _| false);
    }

    pub(crate) fn grant_watcher(&mut self, link: u64, req: u64, bytes: u64) {
        if let Some(console) = &mut self.console {
            console.grant(&mut self.links, link, req, bytes);
        }
    }
}
