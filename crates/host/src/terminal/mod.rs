//! Commands on a terminal: their screen, what is typed to them, whether they wait.
//!
//! A command in the living shell has the shell's own terminal, so that job control, Ctrl-C and
//! changes of size reach it as they would from a person. A background command has a terminal of
//! its own, whose session it leads. The host reads both into the journal and the emulator; see
//! `docs/decisions/0008-one-terminal-per-session.md`.

mod console;
mod emulator;
mod line;
mod typing;
mod waiting;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::termios::{OptionalActions, QueueSelector, Termios, Winsize};
use trl_protocol::wire::{RunSpec, Stdin};

use crate::commands::Exec;
use crate::shell::Shell;
pub(crate) use console::{Console, for_terminal};
pub(crate) use emulator::{Emulator, View};
pub(crate) use line::{KeyEffect, LONGEST as LONGEST_LINE};
pub(crate) use waiting::{NextLook, Reading, is_reading, open_line};

/// What is remembered of the last that was written to a terminal, to find a prompt in it.
const LAST_BYTES: usize = 4096;
/// The size of a terminal that nobody gave one.
pub(crate) const UNSIZED: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
/// Under which programs draw; a session that is not for terminals says `dumb`.
pub(crate) const TERM: &str = "xterm-256color";

/// What the session's terminal is, beyond the shell that has it now.
#[derive(Debug, Default)]
pub(crate) struct SharedTerminal {
    /// The size that was asked for; a new shell's terminal gets it too.
    size: Option<Winsize>,
    /// The foreground command that the terminal was last given to.
    owner: Option<u64>,
}

impl SharedTerminal {
    pub(crate) fn size(&self) -> Option<Winsize> {
        self.size
    }

    pub(crate) fn set_size(&mut self, size: Winsize) {
        self.size = Some(size);
    }

    pub(crate) fn give_to(&mut self, exec: u64) {
        self.owner = Some(exec);
    }

    /// The command that has the terminal, or had it last, while `running` has the shell.
    pub(crate) fn owner(&self, running: Option<u64>) -> Option<u64> {
        self.owner.filter(|owner| running.is_none_or(|running| running == *owner))
    }
}

/// What a command on a terminal has beyond others.
#[derive(Debug)]
pub(crate) struct Tty {
    screen: Screen,
    /// The terminal of a background command.
    own: Option<OwnedFd>,
    /// The program's end of the shell's terminal, for the shell to open.
    program_end: Option<OwnedFd>,
    /// How the terminal was before the command.
    modes: Option<Termios>,
    /// Typed, and not taken by the kernel yet.
    pending: VecDeque<u8>,
}

#[derive(Debug)]
pub(crate) enum Screen {
    Live(Box<Emulator>),
    Last(View),
}

/// A terminal that a command has left.
#[derive(Debug)]
pub(crate) struct LeftTerminal {
    program_end: OwnedFd,
    modes: Option<Termios>,
    /// What was typed, and the kernel has not taken.
    pub(crate) untaken: Vec<u8>,
}

impl LeftTerminal {
    /// What was typed, and nobody has read.
    pub(crate) fn unread(&self) -> Vec<u8> {
        typing::unread(&self.program_end).unwrap_or_default()
    }

    /// Makes the terminal ready for the next command. `restore_modes`: the command had no time to
    /// put back what it had changed.
    pub(crate) fn clean(self, restore_modes: bool) {
        // What nobody read is not for the next command.
        rustix::termios::tcflush(&self.program_end, QueueSelector::IFlush).ok();
        if let (true, Some(modes)) = (restore_modes, self.modes) {
            rustix::termios::tcsetattr(&self.program_end, OptionalActions::Now, &modes).ok();
        }
    }
}

impl Tty {
    /// For a command that is still to start; `None` if it wants no terminal.
    pub(crate) fn wanted(run: &mut RunSpec) -> Option<Box<Tty>> {
        if !run.tty {
            return None;
        }
        let mut pending = VecDeque::new();
        match std::mem::replace(&mut run.stdin, Stdin::Empty) {
            Stdin::Empty => {}
            Stdin::Open(bytes) => pending.extend(bytes),
            Stdin::Whole(bytes) => {
                pending.extend(typing::in_pieces(&bytes, None));
                pending.extend(typing::end_of_file(&bytes, None));
            }
        }
        let screen = Screen::Live(Box::new(Emulator::new(UNSIZED, 0)));
        Some(Box::new(Tty { screen, own: None, program_end: None, modes: None, pending }))
    }

    /// The host's end of its terminal.
    pub(crate) fn master<'a>(&'a self, shell: Option<&'a Shell>) -> Option<BorrowedFd<'a>> {
        match &self.own {
            Some(own) => Some(own.as_fd()),
            None => shell.map(|shell| shell.terminal.as_fd()),
        }
    }

    /// Whether it is a terminal of the command's own.
    pub(crate) fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Where to wait until more can be typed, if there is more.
    pub(crate) fn has_room_to_wait_for<'a>(&'a self, shell: Option<&'a Shell>) -> Option<BorrowedFd<'a>> {
        if self.pending.is_empty() { None } else { self.master(shell) }
    }

    /// A screen of the terminal's size, as empty as at the start.
    fn clear(&mut self, size: Winsize) {
        self.screen = Screen::Live(Box::new(Emulator::new(size, 0)));
    }

    pub(crate) fn screen(&self) -> &Screen {
        &self.screen
    }

    pub(crate) fn view(&self) -> View {
        match &self.screen {
            Screen::Live(emulator) => emulator.view(),
            Screen::Last(view) => view.clone(),
        }
    }

    pub(crate) fn resize(&mut self, size: Winsize) {
        if let Screen::Live(emulator) = &mut self.screen {
            emulator.resize(size);
        }
    }

    /// Draws what the command wrote. Gives the answers to what it asked the terminal.
    pub(crate) fn draw(&mut self, shell: Option<&Shell>, bytes: &[u8]) -> Vec<u8> {
        let size = self.master(shell).and_then(|fd| rustix::termios::tcgetwinsize(fd).ok());
        let Screen::Live(emulator) = &mut self.screen else { return Vec::new() };
        if let Some(size) = size {
            // A program may have changed it itself.
            emulator.resize(size);
        }
        emulator.feed(bytes);
        emulator.take_answers()
    }

    /// The command is over: its screen stays as it is, the terminal is for the next command.
    pub(crate) fn leave(&mut self) -> Option<LeftTerminal> {
        self.screen = Screen::Last(self.view());
        let untaken: Vec<u8> = std::mem::take(&mut self.pending).into();
        self.own = None;
        Some(LeftTerminal { program_end: self.program_end.take()?, modes: self.modes.take(), untaken })
    }
}

/// Gives a command that starts in the shell its terminal, if it wants one.
pub(crate) fn enter(exec: &mut Exec, shell: &Shell) -> io::Result<()> {
    let Some(tty) = &mut exec.tty else { return Ok(()) };
    let program_end = shell.open_program_end()?;
    tty.modes = rustix::termios::tcgetattr(&program_end).ok();
    tty.clear(rustix::termios::tcgetwinsize(&shell.terminal).unwrap_or(UNSIZED));
    tty.program_end = Some(program_end);
    Ok(())
}

/// The size of the session's terminal, which background commands begin with.
pub(crate) fn size_of(shell: Option<&Shell>) -> Winsize {
    shell.and_then(|shell| rustix::termios::tcgetwinsize(&shell.terminal).ok()).unwrap_or(UNSIZED)
}

/// A background command has a terminal of its own, whose end to read this is.
pub(crate) fn own(exec: &mut Exec, master: &OwnedFd) -> io::Result<()> {
    let Some(tty) = &mut exec.tty else { return Ok(()) };
    rustix::io::ioctl_fionbio(master, true)?;
    tty.clear(rustix::termios::tcgetwinsize(master)?);
    tty.own = Some(master.try_clone()?);
    Ok(())
}

impl Exec {
    /// The end of the shell's terminal that this command has.
    pub(crate) fn terminal_end(&self) -> Option<BorrowedFd<'_>> {
        self.tty.as_ref()?.program_end.as_ref().map(OwnedFd::as_fd)
    }

    /// Remembers the last that was written to the terminal while this command has the shell.
    pub(crate) fn remember_terminal(&mut self, bytes: &[u8]) {
        self.terminal.extend_from_slice(bytes);
        let excess = self.terminal.len().saturating_sub(LAST_BYTES);
        self.terminal.drain(..excess);
        self.mark_activity();
    }
}
