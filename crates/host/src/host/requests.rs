//! What daemons ask, one answer each.

use trl_protocol::exec::Stream;
use trl_protocol::fault::{Code, Fault};
use trl_protocol::ids::ExecId;
use trl_protocol::limits;
use trl_protocol::wire::{FromHost, ToHost};

use super::Host;
use super::attached::Attachment;
use super::run::started;
use crate::commands::{Exec, Input, Phase, Requester};
use crate::driver::Event;
use crate::workers::Work;

/// Ids of writes that are remembered per command.
const WRITE_IDS: usize = 64;

impl Host {
    pub(super) fn on_message(&mut self, link: u64, message: ToHost) {
        if !self.subscribers.is_greeted(link) && !matches!(message, ToHost::Hello { .. }) {
            self.drop_link(link);
            return;
        }
        let from = |req| Requester { link, req };
        let (req, answer) = match message {
            ToHost::Hello { .. } => {
                let welcome = self.welcome();
                return self.subscribers.greet(link, &welcome);
            }
            ToHost::Credit { req, bytes } => return self.on_credit(from(req), bytes),
            ToHost::Detach { req } => return self.on_detach(from(req)),
            ToHost::End { req, force } => return self.wind_down(Some(from(req)), force, "asked"),
            ToHost::Restart { req } => {
                self.subscribers.await_restart(from(req));
                return self.drive(Event::Restart);
            }
            ToHost::AwaitReady { req } => (req, self.on_await_ready(from(req))),
            ToHost::Watch { req } => return self.subscribers.watch(from(req)),
            ToHost::Proxy { req } => return self.subscribers.await_listener(from(req), self.cage.listener()),
            ToHost::Note { req, text } => {
                self.commands.note(&text);
                (req, Ok(Some(FromHost::Taken { req })))
            }
            ToHost::Run { req, run } => (req, self.on_run(from(req), *run)),
            ToHost::Attach { req, exec, stdout_offset, stderr_offset } => {
                (req, self.on_attach(from(req), exec, [stdout_offset, stderr_offset]))
            }
            ToHost::Wait { req, exec } => (req, self.on_wait(from(req), exec)),
            ToHost::Output { req, exec, stream, offset, limit } => {
                (req, self.on_range(from(req), exec, stream, offset, limit))
            }
            ToHost::Write { req, exec, data, eof, write_id } => {
                (req, self.on_write(req, exec, &data, eof, write_id))
            }
            ToHost::Cancel { req, exec, signal } => (req, self.on_cancel(req, exec, signal)),
            ToHost::Resize { req, exec, rows, cols } => (req, self.on_resize(req, exec, (rows, cols))),
            ToHost::View { req, writer, take_over, size } => {
                (req, self.on_view(from(req), Attachment { writer, take_over, size }))
            }
            ToHost::Keys { req, data } => (req, self.on_keys(req, &data)),
            ToHost::Size { req, rows, cols } => {
                self.size_terminal(rows, cols);
                (req, Ok(Some(FromHost::Taken { req })))
            }
            ToHost::Screen { req, exec } => (req, self.on_screen(req, exec)),
            ToHost::List { req } => (req, Ok(Some(self.list(req)))),
            ToHost::Info { req, exec } => {
                self.look_for_waiting(exec);
                let info = self.known(exec).map(|exec| exec.info(self.spec.session_id, self.shell_pid()));
                (req, info.map(|info| Some(FromHost::Execs { req, execs: vec![info] })))
            }
            ToHost::File { req, file } => (req, self.on_file(from(req), *file)),
            ToHost::Port { req, port } => (req, self.on_work(from(req), &Work::Port(*port))),
            ToHost::Fork { req } => (req, self.on_fork(from(req))),
            ToHost::Rename { req, name } => (req, self.on_rename(req, name)),
            ToHost::Session { req } => {
                (req, Ok(Some(FromHost::Session { req, session: Box::new(self.info_with_usage()) })))
            }
        };
        self.subscribers.reply(from(req), answer);
    }

    /// The answer says that the name survives this host.
    fn on_rename(&mut self, req: u64, name: String) -> Result<Option<FromHost>, Fault> {
        let old = self.spec.name.replace(name);
        if let Err(error) = self.store_session() {
            self.spec.name = old;
            return Err(Fault::refused_by_system("the new name could not be stored", &error));
        }
        Ok(Some(FromHost::Session { req, session: Box::new(self.info()) }))
    }

    pub(super) fn known(&self, number: u64) -> Result<&Exec, Fault> {
        self.commands.get(number).ok_or_else(|| self.unknown(number))
    }

    fn unknown(&self, number: u64) -> Fault {
        let id = ExecId { session: self.spec.session_id, number };
        let why = if self.commands.was_known(number) { "is no longer stored" } else { "does not exist" };
        Fault::new(Code::ExecNotFound, format!("the command {id} {why}; exec.list lists the commands"))
    }

    fn list(&mut self, req: u64) -> FromHost {
        for number in self.commands.active_numbers() {
            self.look_for_waiting(number);
        }
        let shell = self.shell_pid();
        let execs = self.commands.all().map(|exec| exec.info(self.spec.session_id, shell)).collect();
        FromHost::Execs { req, execs }
    }

    pub(super) fn on_attach(
        &mut self,
        requester: Requester,
        number: u64,
        next: [u64; 2],
    ) -> Result<Option<FromHost>, Fault> {
        let exec = self.known(number)?;
        // Beyond the end there is nothing yet; what comes is sent from its true offset on.
        let next = Stream::BOTH.map(|stream| next[stream.index()].min(exec.journal.total(stream)));
        let started = started(requester.req, exec, self.shell_pid());
        self.subscribers.send(requester.link, &started);
        self.subscribers.follow(requester, number, next, &self.commands);
        Ok(None)
    }

    /// The end of a command, without its output.
    fn on_wait(&mut self, requester: Requester, number: u64) -> Result<Option<FromHost>, Fault> {
        self.known(number)?;
        self.subscribers.await_end(requester, number, &self.commands);
        Ok(None)
    }

    fn on_credit(&mut self, from: Requester, bytes: u64) {
        if let Some(console) = &self.console {
            self.subscribers.grant_viewer(from, bytes, console.shown(), || console.redraw());
        }
        self.subscribers.grant(from, bytes, &self.commands);
    }

    /// Nobody listens any more; what was started continues.
    fn on_detach(&mut self, from: Requester) {
        let was_attended = self.subscribers.has_writer();
        self.subscribers.detach(from);
        self.commands.forget_requesters(|who| who == from);
        self.after_viewers_left(was_attended);
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
        let (offset, read) = self.commands.read(exec, stream, offset, &mut bytes);
        let range = FromHost::Range {
            req: requester.req,
            offset,
            next_offset: offset + read as u64,
            total: exec.journal.total(stream),
            dropped: exec.journal.dropped(stream),
        };
        if read > 0 {
            self.subscribers.send_data(requester, stream, offset, &bytes[..read]);
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
        let shell = self.shell.as_ref();
        let exec = self.commands.get_mut(number).ok_or(unknown)?;
        let wrote =
            |duplicate| FromHost::Wrote { req, exec: number, bytes: data.len() as u64, eof, duplicate };
        if id.as_ref().is_some_and(|id| exec.writes.contains(id)) {
            return Ok(Some(wrote(true)));
        }
        if matches!(exec.phase, Phase::Finished { .. }) {
            return Err(Fault::invalid("the command has finished; nothing reads its stdin any more"));
        }
        match &mut exec.input {
            _ if exec.tty.is_some() => exec.type_in(shell, data, eof)?,
            Input::Open { pending, eof: closed, .. } if !*closed => {
                if pending.len() + data.len() > limits::MAX_STDIN_BYTES {
                    let message = "the command does not read its stdin fast enough; write again when it has";
                    return Err(Fault::new(Code::ResourcePressure, message));
                }
                pending.extend(data);
                *closed = eof;
            }
            Input::Empty | Input::Whole(_) | Input::Open { .. } | Input::Closed => {
                let (Some(_), Some(shell)) = (exec.waiting.take(), shell) else {
                    let message =
                        "this command has no open stdin; start it with stdin_open:true, or with exec.start";
                    return Err(Fault::invalid(message));
                };
                // The answer to a prompt on the terminal is a few bytes; the terminal takes them at once.
                rustix::io::write(&shell.terminal, data)
                    .map_err(|error| Fault::internal(format!("the terminal refused input: {error}")))?;
                exec.terminal.clear();
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
}
