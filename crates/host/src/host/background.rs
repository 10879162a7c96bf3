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
use crate::shell::dialect::BackgroundStart;
use crate::shell::messages::{MessageFilter, Wording};
use crate::shell::quote::single;
use crate::shell::{MemFile, become_session_leader, default_signals, open_terminal, text};
use crate::spare::output_pipe;
use crate::terminal;

/// The kernel takes no argument of more than 128 KiB; a longer text is read from a file.
const LONGEST_ARGUMENT: usize = 96 * 1024;

impl Host {
    /// Starts it. A command that cannot be started is forgotten.
    pub(super) fn launch_background(&mut self, number: u64) -> Result<(), Fault> {
        let spawned = match self.check_background_dir(number) {
            Ok(()) => self
                .spawn_background(number)
                .map_err(|error| Fault::refused_for_now("the command could not be started", &error)),
            Err(fault) => Err(fault),
        };
        match spawned {
            Ok(pid) => {
                self.mark_running(number, Some(pid));
                self.feed(number);
                Ok(())
            }
            Err(fault) => {
                self.subscribers.unfollow(number);
                self.commands.discard(number);
                Err(fault)
            }
        }
    }

    /// No process can start in a directory that is gone. What exists in a cage is known only inside.
    fn check_background_dir(&self, number: u64) -> Result<(), Fault> {
        let given = self.commands.get(number).and_then(|exec| exec.spec.working_dir.as_deref());
        let dir = given.unwrap_or(self.state.cwd());
        if self.cage.is_closed() || std::fs::metadata(text::os(dir)).is_ok_and(|meta| meta.is_dir()) {
            return Ok(());
        }
        let fault = Fault::invalid(format!(
            "the directory {:?} is gone, so no background command can start there; use cd, or give working_dir. The command did not run",
            text::shown(dir)
        ));
        Err(fault.with_details(serde_json::json!({ "field": "working_dir" })))
    }

    fn spawn_background(&mut self, number: u64) -> std::io::Result<i32> {
        let dialect = self.dialect();
        let mut prelude = dialect.background_prelude(&self.spec.env);
        if let Some(snapshot) = self.state.known() {
            prelude.push_str(&snapshot.definitions(&self.spec.env, |entry| dialect.background(entry)));
        }
        let Some(exec) = self.commands.get_mut(number) else {
            return Err(std::io::ErrorKind::NotFound.into());
        };
        let (stdout, stdout_write) = output_pipe()?;
        let (stderr, stderr_write) = output_pipe()?;
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
        if exec.tty.is_some() && self.state.wants_usual_term(&self.spec) {
            exec.spec.env.entry("TERM".to_owned()).or_insert_with(|| terminal::TERM.to_owned());
        }
        if exec.spec.replace_env {
            let hidden = self.state.hidden_beside(&self.spec.env, &exec.spec.env);
            prelude.push_str(&format!("{}\n", dialect.hide(&hidden, self.state.snapshot())));
        }
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
        let has_aliases = self.state.known().is_some_and(|state| !state.aliases.is_empty());
        // `eval` is named in messages, unless it may be the text's own.
        let names_eval = as_argument && has_aliases && !command.contains("eval");
        let BackgroundStart { text, start_up_file } = match as_argument {
            true => dialect.background_start(shown.path(), &command, has_aliases),
            false => BackgroundStart { text: format!(". {}", shown.path()), start_up_file: None },
        };
        let mut command = Command::new(&self.spec.shell_path);
        command
            .args(dialect.background_arguments())
            .arg(text::os(&text))
            .env_clear()
            .envs(self.cage.environment(&self.spec))
            .env("PWD", &dir)
            .current_dir(&dir);
        if let Some((name, file)) = start_up_file {
            // In POSIX mode bash would not read it.
            command.env(name, file).env_remove("POSIXLY_CORRECT");
        }
        let stderr_write = if exec.spec.merge_stderr { stdout_write.try_clone()? } else { stderr_write };
        let streams = Streams {
            stdin,
            stdout: stdout_write,
            stderr: stderr_write,
            on_terminal: exec.tty.is_some(),
            merge: exec.spec.merge_stderr,
            size: terminal::size_of(self.shell.as_ref()),
        };
        let arg0 = self.spec.shell.rsplit('/').next().unwrap_or_default();
        let limits = self.shell.as_ref().map(|shell| Limits::of(shell.raw_pid())).unwrap_or_default();
        let (pid, master) = match self.cage.is_closed() {
            true => start_inside(&mut self.cage, &command, arg0, &streams, &limits)?,
            false => start_here(&self.cage, command, arg0, streams, limits)?,
        };
        let mut reads = [Some(stdout), Some(stderr)];
        reads[1].take_if(|_| exec.spec.merge_stderr);
        if let Some(master) = master {
            terminal::own(exec, &master)?;
            reads[0] = Some(master);
        }
        exec.outputs = reads.map(|read| read.map(|read| Output::new(read, None)));
        exec.messages = match dialect.wording() {
            Some(Wording::Bash) => {
                Some(Box::new(MessageFilter::of_functions(&self.spec.shell, shown.path())))
            }
            Some(wording @ Wording::Dash) if names_eval => {
                Some(Box::new(MessageFilter::new(wording, &self.spec.shell, "eval", false)))
            }
            Some(Wording::Dash) | None => None,
        };
        // The prelude is read while the text runs; it lives as long as the command.
        exec.text = Some(prelude);
        exec.shown = vec![shown];
        Ok(pid)
    }
}

/// How many kinds of limits the kernel has.
const LIMITS: usize = 16;

/// The limits of the session's shell (`ulimit`) that are not the host's own, by their numbers.
#[derive(Default)]
struct Limits([Option<libc::rlimit>; LIMITS]);

impl Limits {
    fn of(shell: i32) -> Limits {
        let same = |a: &libc::rlimit, b: &libc::rlimit| a.rlim_cur == b.rlim_cur && a.rlim_max == b.rlim_max;
        Limits(std::array::from_fn(|kind| {
            let own = limit_of(0, kind)?;
            limit_of(shell, kind).filter(|limit| !same(limit, &own))
        }))
    }

    /// 0 is the process itself. A limit that may not be set stays as it is.
    fn give_to(&self, pid: i32) {
        for (kind, limit) in self.0.iter().enumerate() {
            if let Some(limit) = limit {
                // SAFETY: the kernel reads a structure of ours, and writes nothing.
                unsafe { libc::prlimit(pid, kind as _, limit, std::ptr::null_mut()) };
            }
        }
    }
}

fn limit_of(pid: i32, kind: usize) -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes into a structure of ours, and reads nothing.
    let read = unsafe { libc::prlimit(pid, kind as _, std::ptr::null(), &raw mut limit) };
    (read == 0).then_some(limit)
}

/// What a background command is connected to.
struct Streams {
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    /// A terminal of its own in the place of stdin and stdout.
    on_terminal: bool,
    /// stderr is stdout, too.
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
    limits: Limits,
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
            limits.give_to(0);
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
    limits: &Limits,
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
    limits.give_to(spawned.pid);
    Ok((spawned.pid, spawned.terminal))
}
