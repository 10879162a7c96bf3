//! Background commands: processes of their own that start with the session's directory, variables
//! and functions, and change nothing of it.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use rustix::termios::Winsize;
use trl_confine::linux::init::StreamFrom;
use trl_protocol::fault::Fault;

use super::Host;
use crate::cage::Cage;
use crate::commands::{Input, Output};
use crate::shell::quote::single;
use crate::shell::{MemFile, become_session_leader, default_signals, open_terminal, text};
use crate::terminal;

/// The kernel takes no argument of more than 128 KiB; a longer text is read from a file.
const LONGEST_ARGUMENT: usize = 96 * 1024;

impl Host {
    /// Starts it. A command that cannot be started is forgotten.
    pub(super) fn launch_background(&mut self, number: u64) -> Result<(), Fault> {
        match self.spawn_background(number) {
            Ok(pid) => {
                self.mark_running(number, Some(pid));
                self.feed(number);
                Ok(())
            }
            Err(error) => {
                self.subscribers.unfollow(number);
                self.commands.discard(number);
                Err(Fault::refused_for_now("the command could not be started", &error))
            }
        }
    }

    fn spawn_background(&mut self, number: u64) -> std::io::Result<i32> {
        let dialect = self.dialect();
        let mut prelude = match self.state.known() {
            Some(snapshot) => snapshot.definitions(&self.spec.env, |entry| dialect.background(entry)),
            None => String::new(),
        };
        let Some(exec) = self.commands.get_mut(number) else {
            return Err(std::io::ErrorKind::NotFound.into());
        };
        let (stdout, stdout_write) = self.kernel.spare.pipe()?;
        let (stderr, stderr_write) = self.kernel.spare.pipe()?;
        for write in [&stdout_write, &stderr_write] {
            rustix::io::ioctl_fionbio(write, false)?;
        }
        let stdin = match &mut exec.input {
            Input::Empty | Input::Closed => None,
            Input::Whole(file) => {
                rustix::fs::seek(&*file, rustix::fs::SeekFrom::Start(0))?;
                Some(file.try_clone()?)
            }
            Input::Open { read, .. } => read.take(),
        };
        let dir = text::os(exec.spec.working_dir.as_deref().unwrap_or(self.state.cwd()));
        // Not as arguments: anyone could read these, and values may be secrets.
        for (name, value) in &exec.spec.env {
            prelude.push_str(&dialect.guard(&format!("export {name}={}", single(value))));
        }
        let command = text::of(exec.spec.command.as_bytes());
        let as_argument = command.len() <= LONGEST_ARGUMENT;
        if !as_argument {
            prelude.push_str(&command);
        }
        let prelude = MemFile::script(&prelude)?;
        let shown = self.cage.show_one(&prelude)?;
        let text = format!(". {}\n{}", shown.path(), if as_argument { &command } else { "" });
        let mut command = Command::new(&self.spec.shell_path);
        command
            .args(dialect.background_arguments())
            .arg(text::os(&text))
            .env_clear()
            .envs(self.cage.environment(&self.spec))
            .env("PWD", &dir)
            .current_dir(&dir);
        let streams = Streams {
            stdin,
            stdout: stdout_write,
            stderr: stderr_write,
            on_terminal: exec.tty.is_some(),
            merge: exec.spec.merge_stderr,
            size: terminal::size_of(self.shell.as_ref()),
        };
        let arg0 = self.spec.shell.rsplit('/').next().unwrap_or_default();
        let (pid, master) = match self.cage.is_closed() {
            true => start_inside(&mut self.cage, &command, arg0, &streams)?,
            false => start_here(&self.cage, command, arg0, streams)?,
        };
        let mut reads = [Some(stdout), Some(stderr)];
        if let Some(master) = master {
            terminal::own(exec, &master)?;
            reads[0] = Some(master);
            reads[1].take_if(|_| exec.spec.merge_stderr);
        }
        exec.outputs = reads.map(|read| read.map(|read| Output { read, hold: None, enlarged: false }));
        // The prelude is read while the text runs; it lives as long as the command.
        exec.text = Some(prelude);
        exec.shown = vec![shown];
        Ok(pid)
    }
}

/// What a background command is connected to.
struct Streams {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// A terminal of its own in the place of stdin and stdout, and of stderr if that is merged.
    on_terminal: bool,
    merge: bool,
    /// Of the terminal, from its start.
    size: Winsize,
}

/// Its pid, and the end to read of its terminal if it has one.
fn start_here(
    cage: &Cage,
    mut command: Command,
    arg0: &str,
    streams: Streams,
) -> std::io::Result<(i32, Option<OwnedFd>)> {
    let Streams { stdin, stdout, stderr, on_terminal, merge, size } = streams;
    command.arg0(arg0).stdin(stdin.map_or_else(Stdio::null, Stdio::from)).stdout(stdout).stderr(stderr);
    let mut master = None;
    if on_terminal {
        let (ours, slave) = open_terminal(size)?;
        command.stdin(slave.try_clone()?).stdout(slave.try_clone()?);
        if merge {
            command.stderr(slave);
        }
        master = Some(ours);
    }
    let mut confine = cage.before_exec();
    // SAFETY: only async-signal-safe system calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if on_terminal {
                become_session_leader(libc::STDOUT_FILENO)?;
            } else {
                rustix::process::setsid()?;
                default_signals();
            }
            confine()
        });
    }
    Ok((command.spawn()?.id() as i32, master))
}

fn start_inside(
    cage: &mut Cage,
    command: &Command,
    arg0: &str,
    streams: &Streams,
) -> std::io::Result<(i32, Option<OwnedFd>)> {
    let Streams { stdin, stdout, stderr, on_terminal, merge, size } = streams;
    let sources = [
        (stdin.as_ref(), *on_terminal),
        (Some(stdout), *on_terminal),
        (Some(stderr), *on_terminal && *merge),
    ];
    let from = sources.map(|source| match source {
        (_, true) => StreamFrom::Terminal,
        (Some(_), false) => StreamFrom::Given,
        (None, false) => StreamFrom::Null,
    });
    let given: Vec<BorrowedFd<'_>> = sources
        .iter()
        .filter(|(_, terminal)| !terminal)
        .filter_map(|(fd, _)| Some(fd.as_ref()?.as_fd()))
        .collect();
    let spawned = cage.spawn(command, arg0, from, *size, &given)?;
    Ok((spawned.pid, spawned.terminal))
}
