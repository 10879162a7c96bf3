//! The host's one loop: wait, turn what is ready into events, handle them in order.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use trl_protocol::exec::Stream;
use trl_protocol::fault::{Code, Fault};

use super::Host;
use crate::commands::{Exec, Input, Phase};
use crate::driver::Event;
use crate::rare::RareSource;

#[derive(Debug, Clone, Copy)]
pub(super) enum Source {
    Rare,
    Link(u64),
    Control,
    Status,
    Output(u64, Stream),
    Input(u64),
    /// A child that does something with a file has something to say.
    Worker(u64),
    /// Something has ended in the cage.
    Cage,
    /// A process of a session that is ending has ended.
    Doomed,
    /// A process of a stopped command has ended.
    Straggler,
}

impl Host {
    pub(crate) fn run(mut self) -> io::Result<()> {
        while !self.shutdown.is_over() {
            self.kernel.spare.tidy(&mut self.cage, self.driver.is_idle());
            let next = self.next_deadline();
            self.kernel.timer.arm(next)?;
            self.watch_terminal();
            let mut ready = std::mem::take(&mut self.kernel.ready);
            self.wait(&mut ready)?;
            for (source, flags) in ready.drain(..) {
                self.handle(source, flags);
                self.advance();
            }
            self.kernel.ready = ready;
            self.take_typed_ahead();
            if self.cage.take_news_of_listener() {
                self.subscribers.tell_listener(self.cage.listener());
            }
            self.flush_links();
        }
        Ok(())
    }

    /// Waits until something is ready. `ready` is empty, and only its memory is used again.
    fn wait(&self, ready: &mut Vec<(Source, PollFlags)>) -> io::Result<()> {
        let mut fds = Vec::with_capacity(16);
        self.add_sources(&mut |source, fd, flags| {
            ready.push((source, flags));
            fds.push(PollFd::from_borrowed_fd(fd, flags));
        });
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for ((_, flags), fd) in ready.iter_mut().zip(&fds) {
            *flags = fd.revents();
        }
        ready.retain(|(_, flags)| !flags.is_empty());
        Ok(())
    }

    fn add_sources<'a>(&'a self, add: &mut impl FnMut(Source, BorrowedFd<'a>, PollFlags)) {
        add(Source::Rare, self.kernel.rare.as_fd(), PollFlags::IN);
        if let Some(shell) = &self.shell {
            // What the shell says comes before the news that it is back: both are read then.
            if !shell.is_mute() {
                add(Source::Status, shell.status.as_fd(), PollFlags::IN);
            }
            if !shell.control.is_quiet() && self.driver.watches_control() {
                add(Source::Control, shell.control.as_fd(), PollFlags::IN);
            }
        }
        for exec in self.commands.active() {
            self.add_exec_sources(exec, add);
        }
        for (number, socket) in self.workers.sockets() {
            add(Source::Worker(number), socket, PollFlags::IN);
        }
        if let Some(news) = self.cage.news() {
            add(Source::Cage, news, PollFlags::IN);
        }
        if let Some(awaited) = self.shutdown.awaited() {
            add(Source::Doomed, awaited.as_fd(), PollFlags::IN);
        }
        for (id, link) in self.subscribers.links() {
            let out = if link.has_output() { PollFlags::OUT } else { PollFlags::empty() };
            add(Source::Link(id), link.as_fd(), PollFlags::IN | out);
        }
    }

    fn add_exec_sources<'a>(
        &'a self,
        exec: &'a Exec,
        add: &mut impl FnMut(Source, BorrowedFd<'a>, PollFlags),
    ) {
        for stream in Stream::BOTH {
            if let Some(output) = &exec.outputs[stream.index()]
                && output.paused_until.is_none()
                && !self.subscribers.holds_back(exec, stream, &self.commands)
            {
                add(Source::Output(exec.number, stream), output.read.as_fd(), PollFlags::IN);
            }
        }
        let targets = exec.running().and_then(|running| running.targets.as_ref());
        if let Some(awaited) = targets.and_then(|targets| targets.awaited.as_ref()) {
            add(Source::Straggler, awaited.as_fd(), PollFlags::IN);
        }
        if let Some(master) = exec.tty.as_ref().and_then(|tty| tty.has_room_to_wait_for(self.shell.as_ref()))
        {
            add(Source::Input(exec.number), master, PollFlags::OUT);
        }
        if let Input::Open { write: Some(write), pending, .. } = &exec.input
            && !pending.is_empty()
        {
            add(Source::Input(exec.number), write.as_fd(), PollFlags::OUT);
        }
    }

    fn handle(&mut self, source: Source, ready: PollFlags) {
        match source {
            Source::Rare => {
                for source in self.kernel.rare.ready() {
                    self.handle_rare(source);
                }
            }
            Source::Link(id) if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) => {
                self.on_link(id);
            }
            // It can be written to, which happens at the end of every round.
            Source::Link(_) => {}
            Source::Control => self.on_control(),
            Source::Status => self.on_status(),
            Source::Output(number, stream) => self.on_output(number, stream),
            Source::Input(number) => self.feed(number),
            Source::Worker(number) => self.on_worker(number),
            Source::Cage => self.reap_inside(),
            Source::Doomed => self.continue_wind_down(),
            Source::Straggler => self.on_straggler_gone(),
        }
    }

    fn handle_rare(&mut self, source: RareSource) {
        match source {
            RareSource::Children => {
                drain(&self.kernel.children);
                self.reap();
            }
            RareSource::Terminate => {
                drain(&self.kernel.terminate);
                self.wind_down(None, false, "the host was asked to stop");
            }
            RareSource::Timer => {
                self.kernel.timer.fired();
                self.on_time(Instant::now());
            }
            RareSource::Listener => self.accept(),
            RareSource::Terminal => self.on_terminal(),
        }
    }

    /// The earliest moment at which something is due.
    fn next_deadline(&self) -> Option<Instant> {
        let execs = self.commands.active().filter_map(|exec| match &exec.phase {
            Phase::Queued { until } => Some(*until),
            Phase::Running(running) => {
                let background =
                    running.background.as_ref().and_then(|background| background.next_deadline());
                let look = exec.next_look.map(|look| look.at);
                [background, look, exec.held_until].into_iter().flatten().min()
            }
            Phase::Finished { .. } => exec.held_until,
        });
        let pauses = self.commands.active().flat_map(|exec| exec.outputs.iter().flatten());
        let pauses = pauses.filter_map(|output| output.paused_until);
        let session = [
            self.driver.next_deadline(),
            self.shutdown.next_deadline(),
            self.startup.next_deadline(),
            self.idle_deadline(),
            self.rest_deadline(),
        ];
        execs.chain(pauses).chain(session.into_iter().flatten()).min()
    }

    /// When the pages of the program are let go: soon after a session has become idle.
    fn rest_deadline(&self) -> Option<Instant> {
        self.activity.rests().filter(|_| self.driver.is_idle())
    }

    /// Does whatever is due now.
    fn on_time(&mut self, now: Instant) {
        self.refuse_overdue(now);
        self.continue_background_stops(now);
        self.drive(Event::Time);
        self.look_at_quiet_commands(now);
        self.release_held(now);
        self.end_pauses(now);
        if let Some(signal) = self.startup.take_interrupt(now)
            && self.driver.reads_startup_files()
        {
            self.interrupt_startup(Some(signal));
        }
        if self.shutdown.next_deadline().is_some_and(|at| at <= now) {
            self.kill_everything();
        }
        if self.rest_deadline().is_some_and(|at| at <= now) {
            self.activity.rest();
            trl_sys::memory::release_program();
        }
        if self.idle_deadline().is_some_and(|at| at <= now) {
            let why = self.activity.why_expired(now, self.spec.idle_timeout_s, self.spec.ttl_s);
            self.wind_down(None, false, &why);
        }
    }

    /// Commands that have waited for the shell for too long are taken back.
    fn refuse_overdue(&mut self, now: Instant) {
        let is_overdue = |exec: &&Exec| matches!(&exec.phase, Phase::Queued { until } if *until <= now);
        let overdue: Vec<u64> = self.commands.active().filter(is_overdue).map(|exec| exec.number).collect();
        for number in overdue {
            let asked = self.commands.get(number).is_some_and(|exec| exec.spec.wait_ms > 0);
            let message = match (self.is_starting(), asked) {
                (true, _) => {
                    "the session's shell was still reading its start-up files after the whole of wait_s; the command did not run"
                }
                (false, true) => "the session was busy for the whole of wait_s; the command did not run",
                (false, false) => "the session's shell did not become ready in time; the command did not run",
            };
            self.refuse(number, Fault::new(Code::SessionBusy, message));
        }
    }
}

fn drain(stream: &UnixStream) {
    let mut buffer = [0; 64];
    while matches!(rustix::io::read(stream, &mut buffer), Ok(read) if read == buffer.len()) {}
}
