//! Pid 1 of a session: starts what the host asks for, collects the dead, and ends with the host.
//!
//! It is a fork of the host that has entered the plan, so everything that it starts is confined before it
//! runs. It holds one socket and nothing else of the host. When that socket ends, it ends, and the kernel ends
//! everything in its pid namespace.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open};
use serde::{Deserialize, Serialize};

use super::jail::channel::{self, Received};
use super::{Step, Work};

/// What the host asks for. Descriptors come with it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Ask {
    /// The text of the program to start is in the first descriptor; then those of its streams.
    /// A terminal that is made for it has these rows and columns from the start.
    Spawn { streams: [StreamFrom; 3], size: (u16, u16) },
    /// Start a process that holds descriptors, and talks over the one that comes with this.
    Hold,
    /// Do what the text in the first descriptor asks for, and answer over the second.
    Work,
}

/// What a stream of a new process is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamFrom {
    Null,
    /// A descriptor that comes with the request.
    Given,
    /// The same, of a process that gets a terminal all the same.
    GivenBesideTerminal,
    /// The terminal that is made for it.
    Terminal,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Entered,
    NotEntered(Step),
    /// With a pidfd and, if there is one, the terminal's other end.
    Started {
        pid: i32,
    },
    NotStarted {
        errno: i32,
    },
    Ended {
        pid: i32,
        how: Ending,
    },
}

/// How a process has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    Status(i32),
    Signal(i32),
}

/// A program to be started, in bytes, since paths and variables need not be UTF-8.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    pub path: Vec<u8>,
    pub arg0: Vec<u8>,
    pub arguments: Vec<Vec<u8>>,
    /// `NAME=value`.
    pub environment: Vec<Vec<u8>>,
    /// The first that exists is where it starts.
    pub directories: Vec<Vec<u8>>,
}

impl Program {
    pub(super) fn encode(&self) -> Vec<u8> {
        let single = [self.path.clone(), self.arg0.clone()];
        let mut bytes = Vec::new();
        for list in [&single[..], &self.arguments, &self.environment, &self.directories] {
            bytes.extend((list.len() as u32).to_le_bytes());
            for item in list {
                bytes.extend((item.len() as u32).to_le_bytes());
                bytes.extend(item);
            }
        }
        bytes
    }

    pub(super) fn decode(mut bytes: &[u8]) -> Option<Program> {
        let number = |bytes: &mut &[u8]| -> Option<usize> {
            let (head, rest) = bytes.split_first_chunk::<4>()?;
            *bytes = rest;
            Some(u32::from_le_bytes(*head) as usize)
        };
        let mut lists: Vec<Vec<Vec<u8>>> = Vec::new();
        for _ in 0..4 {
            let count = number(&mut bytes)?;
            let mut list = Vec::new();
            for _ in 0..count {
                let length = number(&mut bytes)?;
                let (item, rest) = bytes.split_at_checked(length)?;
                list.push(item.to_vec());
                bytes = rest;
            }
            lists.push(list);
        }
        let [single, arguments, environment, directories]: [Vec<Vec<u8>>; 4] = lists.try_into().ok()?;
        let [path, arg0]: [Vec<u8>; 2] = single.try_into().ok()?;
        Some(Program { path, arg0, arguments, environment, directories })
    }
}

/// Serves the host until it is gone.
pub(super) fn serve(socket: OwnedFd, work: Option<Work>) -> ! {
    let signals = child_signals();
    loop {
        let mut fds = vec![PollFd::new(&socket, PollFlags::IN)];
        fds.extend(signals.as_ref().ok().map(|signals| PollFd::new(signals, PollFlags::IN)));
        let polled = poll(&mut fds, None);
        if polled.is_err_and(|error| error != rustix::io::Errno::INTR) {
            std::process::exit(1);
        }
        let asked = !fds.first().is_none_or(|fd| fd.revents().is_empty());
        if let Ok(signals) = &signals {
            let mut buffer = [0; 128 * 4];
            rustix::io::read(signals, &mut buffer).ok();
        }
        collect(&socket);
        if asked {
            match channel::receive::<Ask>(&socket) {
                Ok(Some(Received { message, fds })) => answer(&socket, message, fds, work),
                Ok(None) => std::process::exit(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => std::process::exit(1),
            }
        }
    }
}

/// SIGCHLD as something to read.
fn child_signals() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialized before it is used; the descriptor is new.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// Tells the host who has ended, orphans too.
fn collect(socket: &OwnedFd) {
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        let how = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Ending::Status(code),
            (None, Some(signal)) => Ending::Signal(signal),
            // Stopped or continued, which was not asked for.
            (None, None) => continue,
        };
        let ended = Answer::Ended { pid: pid.as_raw_nonzero().get(), how };
        channel::send(socket, &ended, &[]).ok();
    }
}

fn answer(socket: &OwnedFd, ask: Ask, fds: Vec<OwnedFd>, work: Option<Work>) {
    let started = match ask {
        Ask::Spawn { streams, size } => spawn(streams, size, fds),
        Ask::Hold => hold(fds),
        Ask::Work => do_work(fds, work),
    };
    let sent = match &started {
        Ok(Started { pid, pidfd, terminal }) => {
            let fds: Vec<BorrowedFd<'_>> =
                [Some(pidfd), terminal.as_ref()].into_iter().flatten().map(OwnedFd::as_fd).collect();
            channel::send(socket, &Answer::Started { pid: *pid }, &fds)
        }
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            channel::send(socket, &Answer::NotStarted { errno }, &[])
        }
    };
    if sent.is_err() {
        std::process::exit(1);
    }
}

struct Started {
    pid: i32,
    pidfd: OwnedFd,
    terminal: Option<OwnedFd>,
}

fn spawn(streams: [StreamFrom; 3], size: (u16, u16), fds: Vec<OwnedFd>) -> io::Result<Started> {
    let mut fds = fds.into_iter();
    let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
    let text = channel::read_all(&fds.next().ok_or_else(invalid)?)?;
    let program = Program::decode(&text).ok_or_else(invalid)?;
    let needs_terminal =
        |from: &StreamFrom| matches!(from, StreamFrom::Terminal | StreamFrom::GivenBesideTerminal);
    let terminal = if streams.iter().any(needs_terminal) { Some(open_terminal(size)?) } else { None };
    let mut stdio = |from: StreamFrom| match from {
        StreamFrom::Null => Ok(Stdio::null()),
        StreamFrom::Given | StreamFrom::GivenBesideTerminal => {
            fds.next().map(Stdio::from).ok_or_else(invalid)
        }
        StreamFrom::Terminal => {
            let (_, program_end) = terminal.as_ref().ok_or_else(invalid)?;
            Ok(Stdio::from(program_end.try_clone()?))
        }
    };
    let mut command = Command::new(OsStr::from_bytes(&program.path));
    command
        .arg0(OsStr::from_bytes(&program.arg0))
        .args(program.arguments.iter().map(|argument| OsStr::from_bytes(argument)))
        .env_clear()
        .stdin(stdio(streams[0])?)
        .stdout(stdio(streams[1])?)
        .stderr(stdio(streams[2])?);
    for variable in &program.environment {
        if let Some(at) = variable.iter().position(|byte| *byte == b'=') {
            command.env(OsStr::from_bytes(&variable[..at]), OsStr::from_bytes(&variable[at + 1..]));
        }
    }
    let directories = program.directories.iter().map(|dir| OsStr::from_bytes(dir));
    let is_there = |dir: &&OsStr| std::fs::metadata(dir).is_ok_and(|meta| meta.is_dir());
    let dir = directories.into_iter().find(is_there).unwrap_or(OsStr::new("/"));
    command.env("PWD", dir).current_dir(dir);
    let controlling = terminal.as_ref().map(|(_, program_end)| program_end.as_raw_fd());
    // SAFETY: only async-signal-safe system calls between fork and exec.
    unsafe { command.pre_exec(move || become_leader(controlling)) };
    let child = command.spawn()?;
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
    Ok(Started { pid: child.id() as i32, pidfd, terminal: terminal.map(|(master, _)| master) })
}

/// In the child: a session of its own, on its terminal if it has one, and signals as programs expect them.
fn become_leader(terminal: Option<RawFd>) -> io::Result<()> {
    rustix::process::setsid()?;
    if let Some(terminal) = terminal {
        // SAFETY: the parent keeps the terminal open until the child has become another program.
        rustix::process::ioctl_tiocsctty(unsafe { BorrowedFd::borrow_raw(terminal) })?;
    }
    default_signals();
    Ok(())
}

/// Every signal at its default and none blocked.
pub(super) fn default_signals() {
    for signal in 1..32 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: setting a default disposition has no preconditions.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    // SAFETY: the set is initialized before it is used.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// A terminal of this namespace: the host's end, and the program's.
fn open_terminal((rows, cols): (u16, u16)) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let master = rustix::fs::open("/dev/ptmx", flags, Mode::empty())?;
    rustix::pty::unlockpt(&master)?;
    let name = rustix::pty::ptsname(&master, Vec::new())?;
    let program_end = rustix::fs::open(&*name, flags, Mode::empty())?;
    let size = rustix::termios::Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, size)?;
    Ok((master, program_end))
}

/// A process that holds descriptors, which others inside open through its `/proc/<pid>/fd`.
fn hold(fds: Vec<OwnedFd>) -> io::Result<Started> {
    let socket = fds.into_iter().next().ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: there is only this thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => hold_for(&socket),
        pid => {
            let held = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
            Ok(Started { pid, pidfd: pidfd_open(held, PidfdFlags::empty())?, terminal: None })
        }
    }
}

/// A process that does one thing of the host's own, with the rights of what runs here.
fn do_work(fds: Vec<OwnedFd>, work: Option<Work>) -> io::Result<Started> {
    let mut fds = fds.into_iter();
    let (Some(request), Some(answer), Some(work)) = (fds.next(), fds.next(), work) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    // SAFETY: there is only this thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let text = channel::read_all(&request);
            drop(request);
            close_all_but(&answer);
            default_signals();
            if let Ok(text) = text {
                work(&text, answer);
            }
            // SAFETY: ends this process without running what the host wants to run at its own end.
            unsafe { libc::_exit(0) }
        }
        pid => {
            let child = Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
            Ok(Started { pid, pidfd: pidfd_open(child, PidfdFlags::empty())?, terminal: None })
        }
    }
}

fn hold_for(socket: &OwnedFd) -> ! {
    close_all_but(socket);
    forget_environment();
    // Others of this session are to open what it holds.
    super::namespaces::set_dumpable(true).ok();
    let mut held: std::collections::BTreeMap<i32, OwnedFd> = std::collections::BTreeMap::new();
    loop {
        match channel::receive::<Vec<i32>>(socket) {
            Ok(Some(Received { message: closed, fds })) => {
                for number in closed {
                    held.remove(&number);
                }
                let numbers: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
                held.extend(fds.into_iter().map(|fd| (fd.as_raw_fd(), fd)));
                if !numbers.is_empty() && channel::send(socket, &numbers, &[]).is_err() {
                    std::process::exit(1);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(None) | Err(_) => std::process::exit(0),
        }
    }
}

/// Nothing of the host's is open here but this.
pub(super) fn close_all_but(socket: &OwnedFd) {
    let kept = socket.as_raw_fd() as libc::c_uint;
    // SAFETY: nothing that is closed here is used afterwards.
    unsafe {
        if kept > 0 {
            libc::close_range(0, kept - 1, 0);
        }
        libc::close_range(kept + 1, libc::c_uint::MAX, 0);
    }
    // Programs and libraries expect the first three to be taken.
    for _ in 0..3 {
        if let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()) {
            if null.as_raw_fd() > 2 {
                break;
            }
            std::mem::forget(null);
        }
    }
}

/// The environment that the host was started with is not for its session to read.
fn forget_environment() {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
    let number = |index: usize| fields.get(index).and_then(|field| field.trim().parse::<usize>().ok());
    if let (Some(start), Some(end)) = (number(47), number(48))
        && start != 0
        && end > start
    {
        // SAFETY: the kernel says that the environment's text is there; nothing here reads it any more.
        unsafe { std::ptr::write_bytes(start as *mut u8, 0, end - start) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_arrives_as_it_was_sent() {
        let program = Program {
            path: b"/bin/sh".to_vec(),
            arg0: b"sh".to_vec(),
            arguments: vec![b"-c".to_vec(), b"echo \xff".to_vec()],
            environment: vec![b"A=b=c".to_vec(), Vec::new()],
            directories: vec![b"/".to_vec()],
        };
        assert_eq!(Program::decode(&program.encode()), Some(program.clone()));
        let bytes = program.encode();
        for length in 0..bytes.len() {
            assert_eq!(Program::decode(&bytes[..length]), None, "{length}");
        }
    }
}
