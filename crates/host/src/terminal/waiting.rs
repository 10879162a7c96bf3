//! Whether a command waits for input, judged by the system call that its processes sleep in.
//!
//! There is no event for it, so the processes are looked at when somebody asks, and a few times
//! after a command has shown activity (started, printed on its terminal, got input), at growing
//! intervals. A process that may not be looked at (a program of another user, such as `sudo`) is
//! judged by the terminal: an open line there is a prompt.

use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::fd::BorrowedFd;

use super::emulator::View;
use crate::commands::{Exec, Input};
use crate::shell::Shell;

/// The first look comes this long after the last sign of life.
const FIRST_LOOK: Duration = Duration::from_millis(150);
/// Looks before the command is taken to be busy; each waits twice as long as the one before.
const LOOKS: u32 = 7;
/// Descriptors of one call that are looked at.
const MOST_FDS: u64 = 1024;

/// When a silent command is looked at next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextLook {
    pub(crate) at: Instant,
    looks: u32,
}

impl NextLook {
    fn first() -> NextLook {
        NextLook { at: Instant::now() + FIRST_LOOK, looks: 0 }
    }

    /// The look after this one, if there is another.
    pub(crate) fn next(self) -> Option<NextLook> {
        let looks = self.looks + 1;
        (looks < LOOKS).then(|| NextLook { at: Instant::now() + FIRST_LOOK * 2u32.pow(looks), looks })
    }
}

impl Exec {
    /// It has shown a sign of life, so whether it waits for input is open again.
    pub(crate) fn mark_activity(&mut self) {
        self.waiting = None;
        self.next_look = Some(NextLook::first());
    }

    /// The open line on its terminal.
    pub(crate) fn shown_prompt(&self) -> String {
        match &self.tty {
            Some(tty) => {
                let View { lines, cursor, .. } = tty.view();
                lines.get(usize::from(cursor.row)).map(|line| line.trim().to_owned()).unwrap_or_default()
            }
            None => open_line(&self.terminal),
        }
    }

    /// Where its input comes from.
    pub(crate) fn input_sources(&self, shell: Option<&Shell>) -> InputSources {
        let in_shell = self.running().is_some_and(|running| running.background.is_none());
        let master = match &self.tty {
            Some(tty) => tty.master(shell),
            None => shell.filter(|_| in_shell).map(|shell| shell.terminal.as_fd()),
        };
        let pipe = match &self.input {
            Input::Open { write: Some(write), .. } => rustix::fs::fstat(write).ok(),
            Input::Open { .. } | Input::Empty | Input::Whole(_) | Input::Closed => None,
        };
        InputSources { terminal: master.and_then(device), pipe: pipe.map(|stat| (stat.st_dev, stat.st_ino)) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    Yes,
    No,
    /// It may not be looked at.
    Unknown,
}

/// Where a command's input comes from.
#[derive(Debug, Default)]
pub(crate) struct InputSources {
    /// The terminal's device.
    terminal: Option<u64>,
    /// Device and inode of the pipe that `exec.write` fills.
    pipe: Option<(u64, u64)>,
}

/// The line without an end at which the bytes end.
pub(crate) fn open_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.rsplit(['\n', '\r']).next().unwrap_or_default().trim().to_owned()
}

fn device(master: BorrowedFd<'_>) -> Option<u64> {
    let name = rustix::pty::ptsname(master, Vec::new()).ok()?;
    rustix::fs::stat(&*name).ok().map(|stat| stat.st_rdev)
}

fn either(a: Reading, b: Reading) -> Reading {
    match (a, b) {
        (Reading::Yes, _) | (_, Reading::Yes) => Reading::Yes,
        (Reading::Unknown, _) | (_, Reading::Unknown) => Reading::Unknown,
        (Reading::No, Reading::No) => Reading::No,
    }
}

/// Whether one of these processes waits for input from there.
pub(crate) fn is_reading(pids: &[i32], sources: &InputSources) -> Reading {
    pids.iter().map(|pid| reading(*pid, sources)).reduce(either).unwrap_or(Reading::No)
}

fn reading(pid: i32, sources: &InputSources) -> Reading {
    let call = match trl_sys::process::read_text(format!("/proc/{pid}/syscall")) {
        Ok(call) => call,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Reading::Unknown,
        // It has ended meanwhile.
        Err(_) => return Reading::No,
    };
    let fds = sleeps_in(&call).and_then(|sleep| sleep.watched(pid)).unwrap_or_default();
    let is_source =
        |fd: &u64| fs::metadata(format!("/proc/{pid}/fd/{fd}")).is_ok_and(|file| sources.hold(&file));
    if fds.iter().any(is_source) { Reading::Yes } else { Reading::No }
}

impl InputSources {
    fn hold(&self, file: &fs::Metadata) -> bool {
        // `/dev/tty`, whatever terminal it stands for.
        let controlling = rustix::fs::makedev(5, 0);
        let is_terminal = self
            .terminal
            .is_some_and(|device| file.rdev() != 0 && [device, controlling].contains(&file.rdev()));
        is_terminal || self.pipe == Some((file.dev(), file.ino()))
    }
}

/// A system call that waits for descriptors, with the arguments that say which.
#[derive(Debug, PartialEq, Eq)]
enum Sleep {
    Read { fd: u64 },
    Poll { list: u64, count: u64 },
    Select { below: u64, set: u64 },
    Epoll { fd: u64 },
}

/// `/proc/<pid>/syscall`: number and arguments, or `running`.
fn sleeps_in(call: &str) -> Option<Sleep> {
    let mut words = call.split_ascii_whitespace();
    let number: libc::c_long = words.next()?.parse().ok()?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (first, second) = (argument()?, argument()?);
    Some(match number {
        libc::SYS_read => Sleep::Read { fd: first },
        libc::SYS_ppoll => Sleep::Poll { list: first, count: second },
        libc::SYS_pselect6 => Sleep::Select { below: first, set: second },
        libc::SYS_epoll_pwait => Sleep::Epoll { fd: first },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => Sleep::Poll { list: first, count: second },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => Sleep::Select { below: first, set: second },
        #[cfg(target_arch = "x86_64")]
        libc::SYS_epoll_wait => Sleep::Epoll { fd: first },
        _ => return None,
    })
}

impl Sleep {
    /// The descriptors whose input is waited for.
    fn watched(self, pid: i32) -> Option<Vec<u64>> {
        match self {
            Sleep::Read { fd } => Some(vec![fd]),
            Sleep::Poll { list, count } => {
                let entries = memory(pid, list, count.min(MOST_FDS) * 8)?;
                Some(entries.chunks_exact(8).filter_map(polled).collect())
            }
            Sleep::Select { below, set } => {
                let bits = memory(pid, set, below.min(MOST_FDS).div_ceil(8))?;
                let is_set = |fd: &u64| bits[*fd as usize / 8] & (1 << (fd % 8)) != 0;
                Some((0..below.min(MOST_FDS)).filter(is_set).collect())
            }
            Sleep::Epoll { fd } => {
                let entries = trl_sys::process::read_text(format!("/proc/{pid}/fdinfo/{fd}")).ok()?;
                let targets = entries.lines().filter_map(|line| line.strip_prefix("tfd:"));
                Some(targets.filter_map(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).collect())
            }
        }
    }
}

/// A `pollfd` that asks for input.
fn polled(entry: &[u8]) -> Option<u64> {
    let (fd, events) = entry.split_first_chunk::<4>()?;
    let wants_input = i16::from_ne_bytes(*events.first_chunk()?) & libc::POLLIN != 0;
    u64::try_from(i32::from_ne_bytes(*fd)).ok().filter(|_| wants_input)
}

fn memory(pid: i32, at: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    fs::File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_sleeps_in() {
        let (read, poll) = (libc::SYS_read, libc::SYS_ppoll);
        for (call, expected) in [
            (format!("{read} 0x3 0x7f 0x1 0x0 0x0 0x0 0x7ffd 0x7f\n"), Some(Sleep::Read { fd: 3 })),
            (format!("{poll} 0x7f 0x1"), Some(Sleep::Poll { list: 0x7f, count: 1 })),
            ("running\n".to_owned(), None),
            ("-1 0x7ffd 0x7f\n".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(sleeps_in(&call), expected, "{call}");
        }
    }

    #[test]
    fn a_poll_for_output_waits_for_no_input() {
        let entry = |fd: i32, events: i16| [&fd.to_ne_bytes()[..], &events.to_ne_bytes(), &[0, 0]].concat();
        for (fd, events, expected) in
            [(7, libc::POLLIN | libc::POLLOUT, Some(7)), (7, libc::POLLOUT, None), (-1, libc::POLLIN, None)]
        {
            assert_eq!(polled(&entry(fd, events)), expected);
        }
    }

    #[test]
    fn one_reader_is_enough_and_doubt_is_kept() {
        use Reading::{No, Unknown, Yes};
        for (all, expected) in
            [(&[No, Yes, Unknown][..], Yes), (&[No, Unknown], Unknown), (&[No, No], No), (&[], No)]
        {
            assert_eq!(all.iter().copied().reduce(either).unwrap_or(No), expected);
        }
    }

    #[test]
    fn a_prompt_is_an_open_line() {
        for (text, prompt) in [("Name: ", "Name:"), ("a\nb> ", "b>"), ("done\n", ""), ("", "")] {
            assert_eq!(open_line(text.as_bytes()), prompt);
        }
    }
}
