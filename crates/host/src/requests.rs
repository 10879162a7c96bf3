//! What daemons ask, one answer each.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use trl_journal::Start;
use trl_protocol::exec::Stream;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::ids::ExecId;
use trl_protocol::limits;
use trl_protocol::wire::{FromHost, INITIAL_CREDIT, Mode, RunSpec, ToHost};

use crate::engine::open_input;
use crate::exec::{Exec, Input, Phase, Requester};
use crate::host::{Host, Stage, timestamp};
use crate::shell::text;
use crate::streams::Subscription;
use crate::terminal::{Tty, Watch};

/// Ids of writes that are remembered per command.
const WRITE_IDS: usize = 64;

impl Host {
    pub(crate) fn on_message(&mut self, link: u64, message: ToHost) {
        if !self.links.get(&link).is_some_and(|link| link.greeted) && !matches!(message, ToHost::Hello { .. })
        {
            self.drop_link(link);
            return;
        }
        let (req, answer) = match message {
            ToHost::Hello { .. } => {
                let welcome = self.welcome();
                if let Some(link) = self.links.get_mut(&link) {
                    link.greeted = true;
                    link.send(&welcome);
                }
                return;
            }
            ToHost::Credit { req, bytes } => return self.on_credit(link, req, bytes),
            ToHost::Detach { req } => return self.on_detach(link, req),
            ToHost::End { req, force } => {
                return self.wind_down(Some(Requester { link, req }), force, "asked");
            }
            ToHost::Run { req, run } => (req, self.on_run(Requester { link, req }, *run)),
            ToHost::Attach { req, exec, stdout_offset, stderr_offset } => {
                (req, self.on_attach(Requester { link, req }, exec, [stdout_offset, stderr_offset]))
            }
            ToHost::Wait { req, exec } => (req, self.on_wait(Requester { link, req }, exec)),
            ToHost::Watch { req } => return self.watchers.push(Requester { link, req }),
            ToHost::Output { req, exec, stream, offset, limit } => {
                (req, self.on_range(Requester { link, req }, exec, stream, offset, limit))
            }
            ToHost::Write { req, exec, data, eof, write_id } => {
                (req, self.on_write(req, exec, &data, eof, write_id))
            }
            ToHost::Cancel { req, exec, signal } => (req, self.on_cancel(req, exec, signal)),
            ToHost::Resize { req, exec, rows, cols } => (req, self.on_resize(req, exec, (rows, cols))),
            ToHost::View { req, writer, take_over, size } => {
                (req, self.on_watch(Requester { link, req }, Watch { writer, take_over, size }))
            }
            ToHost::Keys { req, data } => (req, self.on_keys(req, &data)),
            ToHost::Size { req, rows, cols } => {
                self.size_terminal(rows, cols);
                (req, Ok(Some(FromHost::Taken { req })))
            }
            ToHost::Screen { req, exec } => (req, self.on_screen_asked(req, exec)),
            ToHost::List { req } => {
                self.look_for_all_waiting();
                let execs = self
                    .execs
                    .values()
                    .map(|exec| exec.info(self.spec.session_id, self.shell_pid()))
                    .collect();
                (req, Ok(Some(FromHost::Execs { req, execs })))
            }
            ToHost::Info { req, exec } => {
                self.look_for_waiting(exec);
                let info = self.known(exec).map(|exec| exec.info(self.spec.session_id, self.shell_pid()));
                (req, info.map(|info| Some(FromHost::Execs { req, execs: vec![info] })))
            }
            ToHost::Session { req } => {
                (req, Ok(Some(FromHost::Session { req, session: Box::new(self.info()) })))
            }
            ToHost::Restart { req } => (req, self.on_restart(Requester { link, req })),
        };
        self.reply(Requester { link, req }, answer);
    }

    pub(crate) fn reply(&mut self, to: Requester, answer: Result<Option<FromHost>, Fault>) {
        match answer {
            Ok(Some(answer)) => self.send(to.link, &answer),
            Ok(None) => {}
            Err(fault) => self.send(to.link, &FromHost::Fault { req: to.req, fault }),
        }
    }

    pub(crate) fn shell_pid(&self) -> Option<u32> {
        self.shell.as_ref().map(|shell| shell.pid.as_raw_nonzero().get() as u32)
    }

    pub(crate) fn known(&self, number: u64) -> Result<&Exec, Fault> {
        self.execs.get(&number).ok_or_else(|| self.unknown(number))
    }

    fn unknown(&self, number: u64) -> Fault {
        let id = ExecId { session: self.spec.session_id, number };
        let why =
            if number < self.next_number && number > 0 { "is no longer kept" } else { "does not exist" };
        Fault::new(Code::ExecNotFound, format!("the command {id} {why}; exec.list tells which are there"))
    }

    pub(crate) fn on_run(
        &mut self,
        requester: Requester,
        mut run: RunSpec,
    ) -> Result<Option<FromHost>, Fault> {
        if self.ending.is_some() {
            return Err(Fault::new(Code::SessionTerminated, "the session is ending"));
        }
        if let Some(first) = self.repeated_by(&run)? {
            return self.hear_again(requester, first, run.mode);
        }
        if let Some(most) = self.spec.limits.max_commands.filter(|most| self.command_count >= *most) {
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
                *dir = format!("{}/{dir}", self.cwd.trim_end_matches('/'));
            }
            check_dir(dir)?;
        }
        if run.background && self.is_settling() {
            self.held_back.push((requester, run));
            return Ok(None);
        }
        if run.background {
            self.check_env(&run.env)?;
        }
        let busy = self.running_number().is_some() || !self.queue.is_empty();
        if busy && !run.background && run.wait_ms == 0 {
            return Err(self.busy());
        }
        let most = self.spec.limits.max_queue.unwrap_or(limits::MAX_QUEUE);
        if self.queue.len() >= most {
            let message = format!(
                "{most} commands wait for this session already; use another, or make one with a larger limits.max_queue"
            );
            return Err(Fault::new(Code::SessionLimitExceeded, message));
        }
        let number = self.next_number;
        self.next_number += 1;
        let exec = self
            .new_exec(number, requester, run)
            .map_err(|error| Fault::refused_for_now("the command could not be started", &error))?;
        let (background, mode) = (exec.spec.background, exec.spec.mode);
        self.execs.insert(number, exec);
        self.active.insert(number);
        if mode == Mode::Stream {
            self.subscriptions.push(Subscription {
                link: requester.link,
                req: requester.req,
                exec: number,
                next: [0, 0],
                credit: INITIAL_CREDIT,
                owner: true,
            });
        }
        if background {
            self.launch_beside(number)?;
        } else {
            self.queue.push_back(number);
            self.advance();
            if self.queue.contains(&number) {
                self.tell_watchers(number);
            }
        }
        // It may have been refused at once, with a fault of its own.
        let Some(exec) = self.execs.get_mut(&number) else { return Ok(None) };
        if mode != Mode::Collect {
            exec.requester = None;
        }
        if mode == Mode::Collect {
            // Its number comes with the result: one message less on the way.
            return Ok(None);
        }
        let queued = matches!(exec.phase, Phase::Queued { .. });
        let pid = exec.running().and_then(|running| running.pid).map(|pid| pid as u32);
        Ok(Some(FromHost::Started { req: requester.req, exec: number, queued, pid }))
    }

    fn busy(&self) -> Fault {
        let running = self.running_number().map(|number| ExecId { session: self.spec.session_id, number });
        let what = running.map_or("a command".to_owned(), |id| id.to_string());
        Fault::new(
            Code::SessionBusy,
            format!("the session is busy with {what}; queue with wait_s, cancel it, or use another session"),
        )
        .with_details(serde_json::json!({ "running": running, "queued": self.queue.len() }))
    }

    fn new_exec(&mut self, number: u64, requester: Requester, mut run: RunSpec) -> std::io::Result<Exec> {
        let created_at = timestamp();
        let at_once = matches!(self.stage, Stage::Idle) && self.queue.is_empty();
        let start = Start {
            command: run.command.clone(),
            created_at: created_at.clone(),
            background: run.background,
            tty: run.tty,
            // Its turn is told apart from its arrival, unless both are the same.
            queued: !(run.background || at_once),
            max_output: run.max_output,
            run_id: run.run_id.clone(),
        };
        // A command that finds the shell merely settling starts within moments.
        let patience =
            if run.wait_ms == 0 { Duration::from_secs(30) } else { Duration::from_millis(run.wait_ms) };
        Ok(Exec {
            number,
            created_at,
            started_at: None,
            finished_at: None,
            phase: Phase::Queued { until: Instant::now() + patience },
            journal: self.journal.begin(number, &start),
            had_to_wait: start.queued,
            outputs: [None, None],
            tty: Tty::wanted(&mut run, self.spec.env.get("TERM").map(String::as_str)),
            input: open_input(&run.stdin)?,
            text: None,
            requester: Some(requester),
            repeated: Vec::new(),
            notes: Vec::new(),
            retried: false,
            writes: VecDeque::new(),
            terminal: Vec::new(),
            waiting: None,
            quiet: None,
            spec: run,
        })
    }

    pub(crate) fn on_attach(
        &mut self,
        requester: Requester,
        number: u64,
        next: [u64; 2],
    ) -> Result<Option<FromHost>, Fault> {
        let exec = self.known(number)?;
        // Beyond the end there is nothing yet; what comes is sent from its true offset on.
        let next = Stream::BOTH.map(|stream| next[stream.index()].min(exec.journal.total(stream)));
        let (queued, pid) =
            (matches!(exec.phase, Phase::Queued { .. }), exec.running().and_then(|running| running.pid));
        let started =
            FromHost::Started { req: requester.req, exec: number, queued, pid: pid.map(|pid| pid as u32) };
        self.send(requester.link, &started);
        self.subscriptions.push(Subscription {
            link: requester.link,
            req: requester.req,
            exec: number,
            next,
            credit: INITIAL_CREDIT,
            owner: false,
        });
        self.pump(self.subscriptions.len() - 1);
        self.complete_subscriptions();
        Ok(None)
    }

    fn on_credit(&mut self, link: u64, req: u64, bytes: u64) {
        self.grant_watcher(link, req, bytes);
        let found = self.subscriptions.iter().position(|s| s.link == link && s.req == req);
        if let Some(index) = found {
            let subscription = &mut self.subscriptions[index];
            subscription.credit = subscription.credit.saturating_add(bytes);
            self.pump(index);
            self.complete_subscriptions();
        }
    }

    /// Nobody listens any more; what was started goes on.
    fn on_detach(&mut self, link: u64, req: u64) {
        self.watchers.retain(|watcher| *watcher != Requester { link, req });
        self.subscriptions.retain(|s| s.link != link || s.req != req);
        self.forget_watchers(|watching, request| (watching, request) == (link, req));
        for exec in self.execs.values_mut() {
            if exec.requester == Some(Requester { link, req }) {
                exec.requester = None;
            }
        }
    }

    fn on_range(
        &mut self,
        requester: Requester,
        number: u64,
        stream: Stream,
        offset: u64,
        limit: u64,
    ) -> Result<Option<FromHost>, Fault> {
        let exec = self.known(number)?;
        let mut bytes = vec![0; limit.min(limits::MAX_RANGE_BYTES) as usize];
        let (offset, read) = self.journal.read(&exec.journal, stream, offset, &mut bytes);
        let range = FromHost::Range {
            req: requester.req,
            offset,
            next_offset: offset + read as u64,
            total: exec.journal.total(stream),
            dropped: exec.journal.dropped(stream),
        };
        if let Some(link) = self.links.get_mut(&requester.link).filter(|_| read > 0) {
            link.send_data(requester.req, stream, offset, &bytes[..read]);
        }
        Ok(Some(range))
    }

    fn on_write(
        &mut self,
        req: u64,
        number: u64,
        data: &[u8],
        eof: bool,
        id: Option<String>,
    ) -> Result<Option<FromHost>, Fault> {
        let unknown = self.unknown(number);
        self.look_for_waiting(number);
        let terminal = self.shell.as_ref().map(|shell| &shell.terminal);
        let exec = self.execs.get_mut(&number).ok_or(unknown)?;
        let wrote =
            |duplicate| FromHost::Wrote { req, exec: number, bytes: data.len() as u64, eof, duplicate };
        if id.as_ref().is_some_and(|id| exec.writes.contains(id)) {
            return Ok(Some(wrote(true)));
        }
        if matches!(exec.phase, Phase::Finished { .. }) {
            return Err(Fault::invalid("the command has finished; nothing reads its stdin any more"));
        }
        match &mut exec.input {
            _ if exec.tty.is_some() => exec.type_in(self.shell.as_ref(), data, eof)?,
            Input::Open { pending, eof: closed, .. } if !*closed => {
                if pending.len() + data.len() > limits::MAX_STDIN_BYTES {
                    let message = "the command does not read its stdin fast enough; write again when it has";
                    return Err(Fault::new(Code::ResourcePressure, message));
                }
                pending.extend(data);
                *closed = eof;
            }
            Input::Empty | Input::Whole(_) | Input::Open { .. } | Input::Closed => {
                match (exec.waiting.take(), terminal) {
                    (Some(_), Some(terminal)) => {
                        // The answer to a prompt on the terminal is a few bytes; the terminal takes them at once.
                        rustix::io::write(terminal, data).map_err(|error| {
                            Fault::internal(format!("the terminal refused input: {error}"))
                        })?;
                        exec.terminal.clear();
                    }
                    (_, _) => {
                        let message = "this command has no open stdin; start it with stdin_open:true, or with exec.start";
                        return Err(Fault::invalid(message));
                    }
                }
            }
        }
        if let Some(id) = id {
            exec.writes.push_back(id);
            if exec.writes.len() > WRITE_IDS {
                exec.writes.pop_front();
            }
        }
        self.feed(number);
        Ok(Some(wrote(false)))
    }

    fn on_restart(&mut self, requester: Requester) -> Result<Option<FromHost>, Fault> {
        if self.running_number().is_some() {
            return Err(self.busy());
        }
        self.restarts_asked.push(requester);
        self.advance();
        Ok(None)
    }

    /// A new shell on request, once the old one has told its state.
    pub(crate) fn restart_if_asked(&mut self) {
        let asked = std::mem::take(&mut self.restarts_asked);
        if asked.is_empty() {
            return;
        }
        self.abandon_shell("the shell was restarted on request");
        self.replace_shell();
        for Requester { link, req } in asked {
            let answer = match &self.shell {
                Some(_) => FromHost::Session { req, session: Box::new(self.info()) },
                None => {
                    let fault = Fault::new(Code::ResourcePressure, "no new shell could be started");
                    FromHost::Fault { req, fault }
                }
            };
            self.send(link, &answer);
        }
    }
}

fn check_dir(dir: &str) -> Result<(), Fault> {
    let problem = match std::fs::metadata(text::os(dir)) {
        Ok(meta) if meta.is_dir() => return Ok(()),
        Ok(_) => "is not a directory".to_owned(),
        Err(error) => format!("cannot be used: {error}"),
    };
    let fault = Fault::invalid(format!(
        "param `working_dir`: {:?} {problem}; the command did not run",
        text::shown(dir)
    ));
    Err(fault.with_details(serde_json::json!({ "field": "working_dir" })))
}
