//! `exec.run`, `exec.stream` and `exec.start`: a new command is taken in.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use trl_journal::Start;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::ids::ExecId;
use trl_protocol::limits;
use trl_protocol::wire::{FromHost, Mode, RunSpec, Stdin};

use super::Host;
use crate::activity::timestamp;
use crate::commands::{Exec, Input, Phase, Requester};
use crate::driver::STARTUP_TIMEOUT;
use crate::inside;
use crate::shell::{MemFile, text};
use crate::terminal::Tty;

/// How long a command that does not want to queue waits for a shell that is merely settling.
const SETTLING_TIMEOUT: Duration = Duration::from_secs(30);

impl Host {
    pub(super) fn on_run(
        &mut self,
        requester: Requester,
        mut run: RunSpec,
    ) -> Result<Option<FromHost>, Fault> {
        if self.shutdown.has_begun() {
            return Err(Fault::new(Code::SessionTerminated, "the session is ending"));
        }
        if let Some(first) = self.repeated_by(&run)? {
            return self.answer_again(requester, first, run.mode);
        }
        self.check_run(&mut run)?;
        if run.background && self.driver.is_settling() {
            self.commands.await_state(requester, run);
            return Ok(None);
        }
        if run.background {
            self.state.check_env(&run.env, self.dialect())?;
        }
        self.check_queue(&run)?;
        let number = self
            .add_exec(requester, run)
            .map_err(|error| Fault::refused_for_now("the command could not be started", &error))?;
        let Some(exec) = self.commands.get(number) else { return Ok(None) };
        let (background, mode) = (exec.spec.background, exec.spec.mode);
        if mode == Mode::Stream {
            self.subscribers.follow_own(requester, number);
        }
        if background {
            self.launch_background(number)?;
        } else {
            self.commands.enqueue(number);
            self.advance();
            if self.commands.is_queued(number) {
                self.notify_watchers(number);
            }
        }
        // It may have been refused at once, with a fault of its own.
        let Some(exec) = self.commands.get_mut(number) else { return Ok(None) };
        if mode == Mode::Collect {
            // Its number comes with the result: one message less on the way.
            return Ok(None);
        }
        exec.requester = None;
        // The shell is just coming back or being started: it is about to run.
        let is_next = self.driver.foreground().is_none()
            && self.commands.front() == Some(number)
            && !self.is_starting();
        let Some(exec) = self.commands.get(number) else { return Ok(None) };
        match mode {
            // Who follows it hears of its start when it starts; see `launch`.
            Mode::Stream if !background && (!exec.is_queued() || is_next) => Ok(None),
            Mode::Stream | Mode::Detached | Mode::Collect => {
                Ok(Some(started(requester.req, exec, self.shell_pid())))
            }
        }
    }

    /// What can be said about a command before anything is done.
    fn check_run(&self, run: &mut RunSpec) -> Result<(), Fault> {
        if let Some(most) = self.spec.limits.max_commands.filter(|most| self.commands.started() >= *most) {
            let message = format!(
                "this session has run its {most} commands; a new one may have a larger limits.max_commands"
            );
            return Err(Fault::new(Code::SessionLimitExceeded, message));
        }
        for value in run.env.values_mut().chain(&mut run.working_dir) {
            if let Cow::Owned(escaped) = text::of(value.as_bytes()) {
                *value = escaped;
            }
        }
        if let Some(dir) = &mut run.working_dir {
            if !dir.is_empty() && !dir.starts_with('/') {
                *dir = format!("{}/{dir}", self.state.cwd().trim_end_matches('/'));
            }
            self.check_dir(dir)?;
        }
        Ok(())
    }

    /// The directory is looked for where the command will run.
    fn check_dir(&self, dir: &str) -> Result<(), Fault> {
        let shell = self.shell.as_ref().map(|shell| shell.pid);
        let is_dir = match self.cage.is_closed() {
            true => inside::is_dir(shell, &text::os(dir)),
            false => std::fs::metadata(text::os(dir)).map(|meta| meta.is_dir()),
        };
        let problem = match is_dir {
            Ok(true) => return Ok(()),
            Ok(false) => "is not a directory".to_owned(),
            Err(error) => format!("cannot be used: {error}"),
        };
        let fault = Fault::invalid(format!(
            "param `working_dir`: {:?} {problem}; the command did not run",
            text::shown(dir)
        ));
        Err(fault.with_details(serde_json::json!({ "field": "working_dir" })))
    }

    fn check_queue(&self, run: &RunSpec) -> Result<(), Fault> {
        let busy = self.driver.foreground().is_some() || self.commands.queued() > 0;
        if busy && !run.background && run.wait_ms == 0 {
            return Err(self.busy("queue with wait_s, cancel it, or use another session"));
        }
        let most = self.spec.limits.max_queue.unwrap_or(limits::MAX_QUEUE);
        if self.commands.queued() >= most {
            let message = format!(
                "{most} commands wait for this session already; use another, or make one with a larger limits.max_queue"
            );
            return Err(Fault::new(Code::SessionLimitExceeded, message));
        }
        Ok(())
    }

    /// `advice`: what can be done about it.
    pub(super) fn busy(&self, advice: &str) -> Fault {
        let running = self.driver.foreground().map(|number| ExecId { session: self.spec.session_id, number });
        let what = match running {
            Some(id) => id.to_string(),
            None if self.is_starting() => "its start-up files".to_owned(),
            None => "a command".to_owned(),
        };
        Fault::new(Code::SessionBusy, format!("the session is busy with {what}; {advice}"))
            .with_details(serde_json::json!({ "running": running, "queued": self.commands.queued() }))
    }

    fn add_exec(&mut self, requester: Requester, mut run: RunSpec) -> io::Result<u64> {
        let at_once = self.driver.is_idle() && self.commands.queued() == 0;
        let start = Start {
            command: run.command.clone(),
            created_at: timestamp(),
            background: run.background,
            tty: run.tty,
            // Its turn is written down apart from its arrival, unless both are the same.
            queued: !(run.background || at_once),
            max_output: run.max_output,
            run_id: run.run_id.clone(),
        };
        let patience = match run.wait_ms {
            // Start-up files have a deadline of their own, which ends the waiting.
            0 if self.is_starting() => STARTUP_TIMEOUT * 2,
            0 => SETTLING_TIMEOUT,
            wait_ms => Duration::from_millis(wait_ms),
        };
        let tty = Tty::wanted(&mut run);
        self.commands.add(&start, |number, journal| {
            Ok(Exec {
                number,
                created_at: start.created_at.clone(),
                started_at: None,
                finished_at: None,
                phase: Phase::Queued { until: Instant::now() + patience },
                journal,
                had_to_wait: start.queued,
                outputs: [None, None],
                tty,
                input: open_input(&run.stdin)?,
                text: None,
                shown: Vec::new(),
                requester: Some(requester),
                repeated: Vec::new(),
                notes: Vec::new(),
                retried: false,
                hidden: None,
                messages: None,
                held_until: None,
                writes: VecDeque::new(),
                terminal: Vec::new(),
                waiting: None,
                next_look: None,
                spec: run,
            })
        })
    }
}

/// The answer to a command that was taken in.
pub(super) fn started(req: u64, exec: &Exec, shell_pid: Option<u32>) -> FromHost {
    FromHost::Started { req, exec: exec.number, queued: exec.is_queued(), pid: exec.pid(shell_pid) }
}

fn open_input(stdin: &Stdin) -> io::Result<Input> {
    match stdin {
        Stdin::Empty => Ok(Input::Empty),
        Stdin::Whole(bytes) => Ok(Input::Whole(MemFile::new(bytes)?.into_fd())),
        Stdin::Open(bytes) => {
            let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&write, true)?;
            Ok(Input::Open {
                read: Some(read),
                write: Some(write),
                pending: bytes.iter().copied().collect(),
                eof: false,
            })
        }
    }
}
