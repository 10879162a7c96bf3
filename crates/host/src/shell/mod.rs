//! The living shell as a process: started on a terminal of its own, spoken to over
//! the control channel, heard on the status channel.
//!
//! Nothing in here decides; [`crate::driver`] does. The shell is interactive and a
//! session leader, so SIGINT to the foreground unwinds it to its prompt with its
//! state intact.

pub mod assigns;
mod bash;
pub mod careful;
pub mod control;
pub mod dialect;
pub mod messages;
mod notice;
pub mod plain;
pub mod prompt;
pub mod quote;
pub mod reach;
mod sh;
pub mod snapshot;
pub mod text;
mod zsh;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::fs::{MemfdFlags, Mode, OFlags};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::process::Pid;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use trl_confine::linux::init::StreamFrom;
use trl_protocol::wire::SessionSpec;
use trl_sys::shells;

use crate::cage::{Cage, Visible};
use crate::strays::ProcessSnapshot;
use crate::terminal::UNSIZED;
use control::Control;
use dialect::Dialect;
use prompt::Heard;

/// Most that is remembered of what the shell says outside commands.
const STATUS_BYTES: usize = 64 * 1024;

#[derive(Debug)]
pub struct Shell {
    pub pid: Pid,
    pub dialect: &'static dyn Dialect,
    pub control: Control,
    pub status: OwnedFd,
    /// What its descriptor refers to, as `/proc` names it.
    status_link: Option<CString>,
    /// Its descriptors, in `/proc`.
    descriptors: Option<OwnedFd>,
    pub terminal: OwnedFd,
    nonce: String,
    /// Under which its status was asked for last, until it has come back.
    asked: Option<String>,
    heard: Vec<u8>,
    /// Nobody has its end of the status channel any more.
    is_mute: bool,
    /// It has not had a command yet.
    pub(crate) is_new: bool,
    /// The count in its last prompt.
    count: Option<String>,
    reads_startup_files: bool,
    /// It may have background jobs, whose end it tells.
    pub(crate) may_have_jobs: bool,
    /// A text that may start jobs was run, in a shell that cannot list its functions.
    pub(crate) has_started_jobs: bool,
    /// A process of an earlier text may write to the status channel: no prompt is believed without a secret.
    pub(crate) may_be_lied_to: bool,
    /// The state that it prints now.
    pub(crate) state_print: Option<StatePrint>,
    /// The script that it reads now.
    pub(crate) script: Option<(MemFile, Visible)>,
    /// After a command was stopped: what was below the shell before. Anything else is a stray.
    pub(crate) stray_watch: Option<ProcessSnapshot>,
}

/// A script that prints the shell's state, and where it prints to.
#[derive(Debug)]
pub(crate) struct StatePrint {
    /// Kept while the shell may read it.
    #[expect(dead_code, reason = "its descriptor is what the shell reads")]
    pub(crate) text: MemFile,
    pub(crate) script: Visible,
    pub(crate) dump: MemFile,
    pub(crate) printed_to: Visible,
    /// The shell may not write files of that size (`ulimit -f`): it would die of trying.
    pub(crate) mute: bool,
}

impl Shell {
    /// `rc`: the user's start-up files are read. `on_stdout`: it prints its prompt there.
    pub fn spawn(
        spec: &SessionSpec,
        dir: &str,
        rc: bool,
        on_stdout: bool,
        cage: &mut Cage,
    ) -> io::Result<Shell> {
        let dialect = dialect::of(spec.dialect);
        let (control, stdin) = Control::new()?;
        let (status, stderr) = status_channel()?;
        let status_link =
            rustix::fs::readlink(format!("/proc/self/fd/{}", stderr.as_raw_fd()), Vec::new()).ok();

        let mut command = Command::new(&spec.shell_path);
        command
            .args(dialect.arguments(rc))
            .env_clear()
            .envs(cage.environment(spec))
            .env("PWD", text::os(dir))
            .current_dir(text::os(dir));
        for (name, value) in dialect.start_env() {
            command.env(name, value);
        }
        let arg0 = spec.shell.rsplit('/').next().unwrap_or(&spec.shell);
        let (pid, terminal) = if cage.is_closed() {
            let (stdin, stderr) = (stdin.as_fd(), stderr.as_fd());
            let (stdout, given) = match on_stdout {
                true => (StreamFrom::GivenBesideTerminal, &[stdin, stderr, stderr][..]),
                false => (StreamFrom::Terminal, &[stdin, stderr][..]),
            };
            let streams = [StreamFrom::Given, stdout, StreamFrom::Given];
            let spawned = cage.spawn(&command, arg0, streams, UNSIZED, given)?;
            let pid = Pid::from_raw(spawned.pid).ok_or(io::ErrorKind::NotFound)?;
            (pid, spawned.terminal.ok_or(io::ErrorKind::NotFound)?)
        } else {
            let (terminal, slave) = open_terminal(UNSIZED)?;
            // Its own stdout is of no use to a shell whose commands all have another.
            let stdout = if on_stdout { stderr.try_clone()? } else { slave.try_clone()? };
            command.arg0(arg0).stdin(stdin).stdout(stdout).stderr(stderr);
            let mut confine = cage.before_exec();
            let controlling = slave.as_raw_fd();
            // SAFETY: only async-signal-safe system calls between fork and exec.
            unsafe {
                command.pre_exec(move || {
                    become_session_leader(controlling)?;
                    confine()
                });
            }
            (Pid::from_child(&command.spawn()?), terminal)
        };
        rustix::io::ioctl_fionbio(&terminal, true)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptors = rustix::fs::open(format!("/proc/{pid}/fd"), flags, Mode::empty()).ok();
        let mut shell = Shell {
            pid,
            dialect,
            control,
            status,
            status_link,
            descriptors,
            terminal,
            nonce: nonce()?,
            asked: None,
            heard: Vec::new(),
            is_mute: false,
            is_new: true,
            count: None,
            reads_startup_files: rc && dialect.arguments(true) != dialect.arguments(false),
            // A start-up file may have started some.
            may_have_jobs: rc,
            has_started_jobs: false,
            may_be_lied_to: false,
            state_print: None,
            script: None,
            stray_watch: None,
        };
        let init = shell.dialect.init_line(&shell.nonce);
        shell.control.send(&init)?;
        Ok(shell)
    }

    pub fn raw_pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Whether it reads the user's start-up files before its first prompt.
    pub fn reads_startup_files(&self) -> bool {
        self.reads_startup_files
    }

    /// What its next prompt begins with.
    pub fn secret(&self) -> &str {
        self.asked.as_ref().unwrap_or(&self.nonce)
    }

    /// Another descriptor of the end that programs have of the terminal. Its name may be one of
    /// another mount namespace, so it is asked for by its other end.
    pub fn open_program_end(&self) -> io::Result<OwnedFd> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        Ok(rustix::pty::ioctl_tiocgptpeer(&self.terminal, flags)?)
    }

    /// Takes in what the shell has written on its status channel.
    pub fn hear(&mut self) {
        let mut buffer = [0; 4096];
        while let Ok(read) = rustix::io::read(&self.status, &mut buffer) {
            self.is_mute = read == 0;
            self.heard.extend_from_slice(&buffer[..read]);
            if self.heard.len() > STATUS_BYTES {
                let excess = self.heard.len() - STATUS_BYTES / 2;
                self.heard.drain(..excess);
            }
            if read < buffer.len() {
                break;
            }
        }
    }

    /// Whether nothing more can come on its status channel. It is ending, most likely.
    pub fn is_mute(&self) -> bool {
        self.is_mute
    }

    /// Everything heard since the last time, now that the shell is at its prompt.
    pub fn at_prompt(&mut self) -> Heard {
        let heard = prompt::listen(&self.heard, self.secret());
        self.take_in(heard)
    }

    /// The same, if the shell has printed a prompt since, for a line that it has taken since.
    pub fn come_back(&mut self) -> Option<Heard> {
        if self.may_be_lied_to {
            return None;
        }
        let heard = prompt::listen(&self.heard, &self.nonce);
        let count = heard.report.as_ref().map(|report| &report.count).filter(|count| !count.is_empty());
        if count.is_none() || count == self.count.as_ref() || !self.is_at_top() {
            return None;
        }
        Some(self.take_in(heard))
    }

    fn take_in(&mut self, heard: Heard) -> Heard {
        self.asked = None;
        self.heard.clear();
        self.count =
            heard.report.as_ref().map(|report| report.count.clone()).filter(|count| !count.is_empty());
        heard
    }

    /// A secret for one question; what ran before it was asked cannot know it.
    pub fn new_secret(&mut self) -> io::Result<String> {
        let secret = nonce()?;
        self.asked = Some(secret.clone());
        Ok(secret)
    }

    /// Whether its stderr is the status channel, as it is while it runs no command. A command has
    /// another stderr, so what it writes to the channel is no prompt.
    pub fn is_at_top(&self) -> bool {
        let mut link = [0; 64];
        let its = self.descriptors.as_ref().map(|dir| rustix::fs::readlinkat_raw(dir, c"2", &mut link));
        match (&self.status_link, its) {
            (Some(own), Some(Ok(length))) => link[..length] == *own.as_bytes(),
            // It cannot be looked at; then it is believed.
            _ => true,
        }
    }

    /// Whether its prompt tells how far it has come, as it did the last time. Else the control channel does.
    pub fn counts(&self) -> bool {
        self.count.is_some() && !self.may_be_lied_to
    }
}

/// Where the shell prints its prompts: the host's end, and the shell's. A pair of sockets, which nobody can open
/// through `/proc`: a command could read the prompts of a pipe, and the host would wait for them. Whoever has the
/// shell's end finds it at its end.
fn status_channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    shutdown(&ours, Shutdown::Write)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// A new terminal: the host's end, and the program's.
pub fn open_terminal(size: Winsize) -> io::Result<(OwnedFd, OwnedFd)> {
    let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    rustix::pty::grantpt(&master)?;
    rustix::pty::unlockpt(&master)?;
    let name: CString = rustix::pty::ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(&*name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::termios::tcsetwinsize(&master, size)?;
    Ok((master, slave))
}

/// The shell of busybox gives its prompt to its line editor, which prints it on stdout, also
/// where there is no terminal to edit on. Others print it on stderr.
pub fn prompts_on_stdout(spec: &SessionSpec) -> bool {
    let root = spec.isolation.as_ref().and_then(|isolation| isolation.root.as_deref());
    shells::is_busybox(root, &spec.shell_path)
}

/// Runs in the child: its own session with this terminal, and every
/// signal as a program expects it (a daemon started with `&` inherits INT ignored).
pub fn become_session_leader(terminal: RawFd) -> io::Result<()> {
    rustix::process::setsid()?;
    // SAFETY: the parent keeps the terminal open until the child has become another program.
    rustix::process::ioctl_tiocsctty(unsafe { BorrowedFd::borrow_raw(terminal) })?;
    default_signals();
    Ok(())
}

/// Every signal at its default and none blocked. For a child between fork and exec.
pub fn default_signals() {
    for signal in 1..32 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            // SAFETY: setting a default disposition has no preconditions.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    // SAFETY: an all-zero set is the empty set on every platform we build for.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// A secret that tells our reports from anything a user could print by accident.
fn nonce() -> io::Result<String> {
    let mut bytes = [0; 6];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A text that the shell can open by path while the host holds it, without a file.
#[derive(Debug)]
pub struct MemFile {
    fd: OwnedFd,
}

impl MemFile {
    pub fn new(text: &[u8]) -> io::Result<MemFile> {
        MemFile { fd: rustix::fs::memfd_create(c"trl", MemfdFlags::CLOEXEC)? }.fill(text)
    }

    /// Of an empty one. It is never used for another text: whoever has opened it could read or change that.
    pub fn fill(self, text: &[u8]) -> io::Result<MemFile> {
        let mut rest = text;
        while !rest.is_empty() {
            let written = rustix::io::write(&self.fd, rest)?;
            rest = &rest[written..];
        }
        Ok(self)
    }

    /// A script of the engine's, for the shell to read.
    pub fn script(script: &str) -> io::Result<MemFile> {
        MemFile::new(&text::bytes(script))
    }

    pub fn read(&self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut buffer = [0; 16 * 1024];
        loop {
            match rustix::io::pread(&self.fd, &mut buffer, out.len() as u64)? {
                0 => return Ok(out),
                read => out.extend_from_slice(&buffer[..read]),
            }
        }
    }

    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }
}

impl AsFd for MemFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Where another process of this user can open what `fd` refers to.
pub fn path_of(fd: &impl AsFd) -> String {
    trl_sys::process::path_of_descriptor(fd)
}

/// `/proc/<pid>/status` knows the umask without asking the shell.
pub fn umask_of(pid: Pid) -> Option<String> {
    trl_sys::process::status_field(pid.as_raw_nonzero(), "Umask")
}

/// Whether a process may write files as large as a state can be (`ulimit -f`).
pub fn may_write(pid: Pid) -> bool {
    let most = trl_sys::process::soft_limit(pid.as_raw_nonzero(), "Max file size");
    most.is_none_or(|most| most >= 2 * snapshot::MAX_VARIABLES as u64)
}

/// How much memory of its own a process has, in bytes.
pub fn memory_of(pid: Pid) -> u64 {
    trl_sys::process::data_bytes(pid.as_raw_nonzero())
}

/// The directory that a process is in, when it does not tell.
pub fn cwd_of(pid: Pid) -> Option<String> {
    let link = trl_sys::process::working_dir(pid.as_raw_nonzero())?;
    Some(text::of(link.as_os_str().as_encoded_bytes()).into_owned())
}
