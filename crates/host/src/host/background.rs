//! Background commands: processes of their own that start with the session's directory, variables
//! and functions, and change nothing of it.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use trl_protocol::fault::Fault;

use super::Host;
use crate::commands::{Input, Output};
use crate::shell::quote::single;
use crate::shell::{MemFile, become_session_leader, default_signals, text};
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
        let own = terminal::enter_own(exec, self.shell.as_ref())?;
        let stdin = match &mut exec.input {
            Input::Empty | Input::Closed => Stdio::null(),
            Input::Whole(file) => {
                rustix::fs::seek(&*file, rustix::fs::SeekFrom::Start(0))?;
                Stdio::from(file.try_clone()?)
            }
            Input::Open { read, .. } => read.take().map_or_else(Stdio::null, Stdio::from),
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
        let text = format!(". {}\n{}", prelude.path(), if as_argument { &command } else { "" });
        let mut command = Command::new(&self.spec.shell_path);
        command
            .arg0(self.spec.shell.rsplit('/').next().unwrap_or_default())
            .args(dialect.background_arguments())
            .arg(text::os(&text))
            .env_clear()
            .envs(&self.spec.env)
            .env("PWD", &dir)
            .current_dir(&dir)
            .stdin(stdin)
            .stdout(Stdio::from(stdout_write))
            .stderr(Stdio::from(stderr_write));
        let mut reads = [Some(stdout), Some(stderr)];
        if let Some((master, slave)) = own {
            command.stdin(slave.try_clone()?).stdout(slave.try_clone()?);
            reads[0] = Some(master);
            if exec.spec.merge_stderr {
                command.stderr(slave);
                reads[1] = None;
            }
        }
        let on_terminal = exec.tty.is_some();
        // SAFETY: only async-signal-safe system calls between fork and exec.
        unsafe {
            command.pre_exec(move || {
                if on_terminal {
                    return become_session_leader();
                }
                rustix::process::setsid()?;
                default_signals();
                Ok(())
            });
        }
        let child = command.spawn()?;
        exec.outputs = reads.map(|read| read.map(|read| Output { read, hold: None, enlarged: false }));
        // The prelude is read while the text runs; it lives as long as the command.
        exec.text = Some(prelude);
        Ok(child.id() as i32)
    }
}
