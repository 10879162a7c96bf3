//! Commands on a terminal: their screen, what is typed to them, whether they wait.
//!
//! A command in the living shell has the shell's own terminal, so that job control,
//! Ctrl-C and changes of size reach it as they would from a person. A command beside
//! the shell has a terminal of its own, whose session it leads. Both are read by
//! [`crate::streams`] into the journal and the emulator; see
//! `docs/decisions/0008-one-terminal-per-session.md`.

mod at_prompt;
mod attached;
mod console;
mod emulator;
mod line;
mod requests;
mod typing;
mod waiting;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::termios::{OptionalActions, QueueSelector, Termios, Winsize};
use trl_protocol::exec::Stream;
use trl_protocol::wire::{RunSpec, Stdin};

use crate::exec::Exec;
use crate::host::Host;
use crate::shell::{Shell, open_terminal, path_of, prompt};
pub(crate) use attached::Watch;
pub(crate) use console::Console;
use emulator::{Emulator, View};
pub(crate) use waiting::Quiet;

/// What is remembered of a terminal's last words, to find a prompt in them.
const LAST_WORDS: usize = 4096;
/// More reads than the kernel's buffers of a terminal can fill.
const READS_AT_END: usize = 256;
const UNSIZED: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
/// Under which programs draw; a session that is not for terminals says `dumb`.
const TERM: &str = "xterm-256color";

/// What a command on a terminal has beyond others.
#[derive(Debug)]
pub(crate) struct Tty {
    screen: Screen,
    /// The terminal of a command beside the shell.
    own: Option<OwnedFd>,
    /// The program's end of the shell's terminal, for the shell to open.
    program_end: Option<OwnedFd>,
    /// How the terminal was before the command.
    modes: Option<Termios>,
    /// Typed, and not taken by the kernel yet.
    pending: VecDeque<u8>,
}

#[derive(Debug)]
enum Screen {
    Live(Box<Emulator>),
    Last(View),
}

impl Tty {
    /// For a command that is still to start; `None` if it wants no terminal.
    pub(crate) fn wanted(run: &mut RunSpec, session_env_term: Option<&str>) -> Option<Box<Tty>> {
        if !run.tty {
            return None;
        }
        if session_env_term == Some("dumb") {
            run.env.entry("TERM".to_owned()).or_insert_with(|| TERM.to_owned());
        }
        let mut pending = VecDeque::new();
        match std::mem::replace(&mut run.stdin, Stdin::Empty) {
            Stdin::Empty => {}
            Stdin::Open(bytes) => pending.extend(bytes),
            Stdin::Whole(bytes) => {
                pending.extend(&bytes);
                pending.extend(typing::end_of_file(&bytes, None));
            }
        }
        let screen = Screen::Live(Box::new(Emulator::new(UNSIZED, 0)));
        Some(Box::new(Tty { screen, own: None, program_end: None, modes: None, pending }))
    }

    /// The master of its terminal.
    fn master<'a>(&'a self, shell: Option<&'a Shell>) -> Option<BorrowedFd<'a>> {
        use std::os::fd::AsFd as _;
        match &self.own {
            Some(own) => Some(own.as_fd()),
            None => shell.map(|shell| shell.terminal.as_fd()),
        }
    }

    /// Where to wait until more can be typed, if there is more.
    pub(crate) fn has_room_to_wait_for<'a>(&'a self, shell: Option<&'a Shell>) -> Option<BorrowedFd<'a>> {
        if self.pending.is_empty() { None } else { self.master(shell) }
    }

    /// A screen of the terminal's size, as empty as at the start.
    fn clear(&mut self, size: Winsize) {
        self.screen = Screen::Live(Box::new(Emulator::new(size, 0)));
    }

    fn emulator(&mut self) -> Option<&mut Emulator> {
        match &mut self.screen {
            Screen::Live(emulator) => Some(emulator),
            Screen::Last(_) => None,
        }
    }

    fn view(&self) -> View {
        match &self.screen {
            Screen::Live(emulator) => emulator.view(),
            Screen::Last(view) => view.clone(),
        }
    }
}

/// The terminal's path for a command that starts in the shell; `None` if it wants none.
pub(crate) fn enter(exec: &mut Exec, shell: &Shell) -> io::Result<Option<String>> {
    let Some(tty) = &mut exec.tty else { return Ok(None) };
    let program_end = shell.open_program_end()?;
    let path = path_of(&program_end);
    tty.modes = rustix::termios::tcgetattr(&program_end).ok();
    tty.clear(rustix::termios::tcgetwinsize(&shell.terminal).unwrap_or(UNSIZED));
    tty.program_end = Some(program_end);
    Ok(Some(path))
}

/// A terminal of its own for a command beside the shell: the host's end to read, the program's end.
pub(crate) fn enter_own(exec: &mut Exec, shell: Option<&Shell>) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
    let Some(tty) = &mut exec.tty else { return Ok(None) };
    let size = shell.and_then(|shell| rustix::termios::tcgetwinsize(&shell.terminal).ok()).unwrap_or(UNSIZED);
    let (master, slave) = open_terminal()?;
    rustix::io::ioctl_fionbio(&master, true)?;
    rustix::termios::tcsetwinsize(&master, size)?;
    tty.clear(size);
    tty.own = Some(master.try_clone()?);
    Ok(Some((master, slave)))
}

impl Host {
    /// The foreground command that has the shell's terminal, or had it last.
    pub(crate) fn on_screen(&self) -> Option<u64> {
        self.terminal_owner.filter(|owner| self.running_number().is_none_or(|running| running == *owner))
    }

    /// Whether a command on the shell's terminal must wait for its listener.
    pub(crate) fn is_terminal_held_back(&self) -> bool {
        let exec = self.on_screen().and_then(|number| self.execs.get(&number));
        exec.is_some_and(|exec| self.is_held_back(exec, Stream::Stdout))
    }

    /// Something was written to the shell's terminal.
    pub(crate) fn on_terminal(&mut self) {
        self.read_terminal();
    }

    /// Everything that is in the shell's terminal now. A read that finds nothing has
    /// waited for the kernel to bring what was written before it.
    pub(crate) fn drain_terminal(&mut self) {
        for _ in 0..READS_AT_END {
            if !self.read_terminal() {
                return;
            }
        }
    }

    fn read_terminal(&mut self) -> bool {
        let Some(shell) = &self.shell else { return false };
        let mut buffer = [0; 4096];
        let read = match rustix::io::read(&shell.terminal, &mut buffer) {
            Ok(read) => read,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return false,
            // Hung up: the shell is ending, and its end is an event of its own.
            Err(_) => 0,
        };
        if read == 0 {
            return false;
        }
        let bytes = &buffer[..read];
        if let Some(owner) = self.on_screen() {
            self.take_output(owner, Stream::Stdout, bytes);
        } else {
            self.show(bytes);
        }
        self.note_last_words(bytes);
        true
    }

    /// A program that asks at the terminal, past all redirections, or draws there.
    fn note_last_words(&mut self, bytes: &[u8]) {
        let nonce = self.shell.as_ref().map(|shell| shell.nonce().to_owned());
        let Some(exec) = self.running_number().and_then(|number| self.execs.get_mut(&number)) else { return };
        exec.terminal.extend_from_slice(bytes);
        let excess = exec.terminal.len().saturating_sub(LAST_WORDS);
        exec.terminal.drain(..excess);
        exec.stirs();
        if let Some(report) = nonce.and_then(|nonce| prompt::listen(&exec.terminal, &nonce).report) {
            self.on_prompt_at_terminal(report);
        }
    }

    /// The terminal's own echo of what is for the prompt: it comes before that, and is no
    /// command's output.
    fn show_echo(&mut self) {
        let mut buffer = [0; 4096];
        for _ in 0..READS_AT_END {
            let Some(shell) = &self.shell else { return };
            match rustix::io::read(&shell.terminal, &mut buffer) {
                Ok(read) if read > 0 => self.show(&buffer[..read]),
                _ => return,
            }
        }
    }

    /// What a command wrote to its terminal, before it is in the journal.
    pub(crate) fn draw(&mut self, number: u64, bytes: &[u8]) {
        let is_attended = self.is_attended();
        let Some(exec) = self.execs.get_mut(&number) else { return };
        exec.stirs();
        let Some(tty) = &mut exec.tty else { return };
        let size = tty.master(self.shell.as_ref()).and_then(|fd| rustix::termios::tcgetwinsize(fd).ok());
        let Some(emulator) = tty.emulator() else { return };
        if let Some(size) = size {
            // A program may have changed it itself.
            emulator.resize(size);
        }
        emulator.feed(bytes);
        let answers = emulator.take_answers();
        // The terminal of a person who is attached answers itself.
        if !answers.is_empty() && !is_attended {
            tty.pending.extend(answers);
            self.feed(number);
        }
    }

    /// The command is over: its screen stays as it is, the terminal is for the next.
    pub(crate) fn leave_terminal(&mut self, number: u64, was_stopped: bool) {
        let Some(tty) = self.execs.get_mut(&number).and_then(|exec| exec.tty.as_mut()) else { return };
        tty.screen = Screen::Last(tty.view());
        let untaken: Vec<u8> = std::mem::take(&mut tty.pending).into();
        tty.own = None;
        let Some(program_end) = tty.program_end.take() else { return };
        let modes = tty.modes.take();
        if !was_stopped && self.is_attended() {
            // A person who types ahead means the prompt.
            let unread = typing::unread(&program_end).unwrap_or_default();
            if !unread.is_empty() {
                self.show_echo();
            }
            self.keep_for_prompt(&[unread, untaken].concat());
        }
        // What nobody read is not for the next command.
        rustix::termios::tcflush(&program_end, QueueSelector::IFlush).ok();
        if let (true, Some(modes)) = (was_stopped, modes) {
            // It had no time to put back what it had changed.
            rustix::termios::tcsetattr(&program_end, OptionalActions::Now, &modes).ok();
        }
    }
}
