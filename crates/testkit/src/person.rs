//! A person at a terminal: a program on a PTY of its own, keys typed to it, and what is
//! seen of it, rendered by an emulator.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::wait::GUARD;

/// Lines that the person can scroll back.
const SCROLLBACK: usize = 1000;

pub struct Person {
    terminal: File,
    /// Keeps the terminal alive, to be looked at after its program has ended.
    _other_end: OwnedFd,
    child: Child,
    screen: vt100::Parser,
}

impl Person {
    /// Starts the program on a terminal of 24 rows and 80 columns.
    #[track_caller]
    pub fn at(mut command: Command) -> Person {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        rustix::pty::unlockpt(&master).expect("unlocked");
        let name = rustix::pty::ptsname(&master, Vec::new()).expect("its name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(&*name, flags, Mode::empty()).expect("its other end");
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 })
            .expect("a size");
        let end = || slave.try_clone().expect("a descriptor");
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color");
        // SAFETY: only async-signal-safe system calls between fork and exec.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let child = command.spawn().expect("the program starts");
        let screen = vt100::Parser::new(side(24), side(80), SCROLLBACK);
        Person { terminal: File::from(master), _other_end: slave, child, screen }
    }

    #[track_caller]
    pub fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits until the text is on the screen.
    #[track_caller]
    pub fn sees(&mut self, text: &str) {
        self.looks(&format!("to see {text:?}"), |screen| screen.contains(text));
    }

    /// Waits until the screen is as it should be.
    #[track_caller]
    pub fn looks(&mut self, what: &str, is_right: impl Fn(&str) -> bool) {
        let end = Instant::now() + GUARD;
        while !is_right(&self.screen()) {
            assert!(self.read(end), "waited in vain {what}:\n{}", self.screen());
        }
    }

    /// The screen as it is after all that was read.
    pub fn screen(&self) -> String {
        seen(&self.screen)
    }

    /// Everything, from as far up as one can scroll.
    pub fn all_lines(&mut self) -> String {
        let screen = self.screen.screen_mut();
        let rows = usize::from(screen.size().0.get());
        screen.set_scrollback(usize::MAX);
        let mut left = screen.scrollback();
        let mut lines = String::new();
        while left > 0 {
            screen.set_scrollback(left);
            let cols = screen.size().1.get();
            for line in screen.rows(0, cols).take(left.min(rows)) {
                lines.push_str(line.trim_end());
                lines.push('\n');
            }
            left = left.saturating_sub(rows);
        }
        screen.set_scrollback(0);
        lines + &self.screen()
    }

    pub fn sees_colours(&self) -> bool {
        let screen = self.screen.screen();
        let (rows, cols) = screen.size();
        let cells = (0..rows.get()).flat_map(|row| (0..cols.get()).map(move |col| (row, col)));
        cells
            .filter_map(|(row, col)| screen.cell(row, col))
            .any(|cell| (cell.fgcolor(), cell.bgcolor()) != (vt100::Color::Default, vt100::Color::Default))
    }

    pub fn is_on_other_screen(&self) -> bool {
        self.screen.screen().alternate_screen()
    }

    /// False at the end of the time.
    fn read(&mut self, end: Instant) -> bool {
        let left = end.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(&self.terminal, PollFlags::IN)];
        if poll(&mut fds, Some(&time)).unwrap_or(0) == 0 {
            return false;
        }
        let mut buffer = [0; 4096];
        match self.terminal.read(&mut buffer) {
            Ok(read) => self.screen.process(&buffer[..read]),
            Err(_) => return false,
        }
        true
    }

    pub fn resizes(&mut self, rows: u16, cols: u16) {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.terminal, size).expect("a size");
        self.screen.set_size(side(rows), side(cols));
    }

    pub fn signals(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the program runs");
    }

    /// Waits for the end of the program, and looks at what it left on the terminal.
    #[track_caller]
    pub fn ends(&mut self) -> ExitStatus {
        let end = Instant::now() + GUARD;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                break status;
            }
            assert!(Instant::now() < end, "it does not end:\n{}", self.screen());
            self.read(Instant::now() + std::time::Duration::from_millis(20));
        };
        while self.read(Instant::now()) {}
        status
    }

    /// Whether keys are shown and lines handed over, as a shell expects it, and nothing that
    /// programs switch on is left behind.
    pub fn terminal_is_sound(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("its modes").local_modes;
        let screen = self.screen.screen();
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
            && !screen.alternate_screen()
            && !screen.hide_cursor()
            && !screen.bracketed_paste()
            && !screen.application_cursor()
            && !screen.application_keypad()
            && screen.mouse_protocol_mode() == vt100::MouseProtocolMode::None
    }
}

/// A terminal of this size that nobody sits at.
pub fn emulator(rows: u16, cols: u16) -> vt100::Parser {
    vt100::Parser::new(side(rows), side(cols), 0)
}

/// What one sees there, row by row, without the blanks at the ends.
pub fn seen(emulator: &vt100::Parser) -> String {
    let screen = emulator.screen();
    let rows: Vec<String> =
        screen.rows(0, screen.size().1.get()).map(|row| row.trim_end().to_owned()).collect();
    rows.join("\n").trim_end_matches('\n').to_owned()
}

fn side(length: u16) -> NonZeroU16 {
    NonZeroU16::new(length).expect("a terminal has a size")
}

impl std::fmt::Debug for Person {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Person").field("child", &self.child).finish_non_exhaustive()
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
