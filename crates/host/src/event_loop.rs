//! The host's one loop: wait, turn what is ready into events, handle them in order.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use trl_protocol::exec::Stream;

use crate::exec::{Input, Phase};
use crate::host::Host;

#[derive(Debug, Clone, Copy)]
enum Source {
    Children,
    Terminate,
    Timer,
    Listener,
    Link(u64),
    Control,
    Status,
    Terminal,
    Output(u64, Stream),
    Input(u64),
    Doomed,
    Straggler,
}

impl Host {
    pub(crate) fn run(mut self) -> io::Result<()> {
        while !self.over {
            self.spare.tidy();
            let next = self.next_deadline();
            self.timer.arm(next)?;
            for (source, ready) in self.wait()? {
                self.handle(source, ready);
            }
            self.take_typed_ahead();
            self.flush_links();
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<Vec<(Source, PollFlags)>> {
        let sources = self.sources();
        let mut fds: Vec<PollFd<'_>> =
            sources.iter().map(|(_, fd, events)| PollFd::from_borrowed_fd(*fd, *events)).collect();
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = sources.iter().zip(&fds).filter(|(_, fd)| !fd.revents().is_empty());
        Ok(ready.map(|((source, _, _), fd)| (*source, fd.revents())).collect())
    }

    fn sources(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        let mut sources = Vec::with_capacity(16);
        let mut add = |source, fd, events| sources.push((source, fd, events));
        add(Source::Children, self.children.as_fd(), PollFlags::IN);
        add(Source::Terminate, self.terminate.as_fd(), PollFlags::IN);
        add(Source::Timer, self.timer.as_fd(), PollFlags::IN);
        if let Some(listener) = &self.listener {
            add(Source::Listener, listener.as_fd(), PollFlags::IN);
        }
        if let Some(shell) = &self.shell {
            // The shell's word before the news that it is back: both are read then.
            add(Source::Status, shell.status.as_fd(), PollFlags::IN);
            if !self.is_terminal_held_back() {
                add(Source::Terminal, shell.terminal.as_fd(), PollFlags::IN);
            }
            if !shell.control.is_quiet() && self.watch_control_at.is_none() {
                add(Source::Control, shell.control.as_fd(), PollFlags::OUT);
            }
        }
        for (number, exec) in self.active_execs() {
            for stream in Stream::BOTH {
                if let Some(output) = &exec.outputs[stream.index()]
                    && !self.is_held_back(exec, stream)
                {
                    add(Source::Output(number, stream), output.read.as_fd(), PollFlags::IN);
                }
            }
            let stopping = exec.running().and_then(|running| running.stopping.as_ref());
            if let Some(awaited) = stopping.and_then(|stopping| stopping.awaited.as_ref()) {
                add(Source::Straggler, awaited.as_fd(), PollFlags::IN);
            }
            if let Some(master) =
                exec.tty.as_ref().and_then(|tty| tty.has_room_to_wait_for(self.shell.as_ref()))
            {
                add(Source::Input(number), master, PollFlags::OUT);
            }
            if let Input::Open { write: Some(write), pending, .. } = &exec.input
                && !pending.is_empty()
            {
                add(Source::Input(number), write.as_fd(), PollFlags::OUT);
            }
        }
        if let Some(awaited) = self.ending.as_ref().and_then(|ending| ending.awaited.as_ref()) {
            add(Source::Doomed, awaited.as_fd(), PollFlags::IN);
        }
        for (id, link) in &self.links {
            let out = if link.has_output() { PollFlags::OUT } else { PollFlags::empty() };
            add(Source::Link(*id), link.as_fd(), PollFlags::IN | out);
        }
        sources
    }

    fn handle(&mut self, source: Source, ready: PollFlags) {
        match source {
            Source::Children => {
                drain(&self.children);
                self.reap();
            }
            Source::Terminate => {
                drain(&self.terminate);
                self.wind_down(None, false, "the host was asked to stop");
            }
            Source::Timer => {
                self.timer.fired();
                self.on_time(Instant::now());
            }
            Source::Listener => self.accept(),
            Source::Link(id) => self.on_link(id, ready),
            Source::Control => self.on_control(),
            Source::Status => self.on_status(),
            Source::Terminal => self.on_terminal(),
            Source::Output(number, stream) => self.on_output(number, stream),
            Source::Input(number) => self.feed(number),
            Source::Doomed => self.go_on_winding_down(),
            Source::Straggler => self.go_on_waning(),
        }
    }

    /// The earliest moment at which something is due.
    fn next_deadline(&self) -> Option<Instant> {
        let execs = self.active_execs().filter_map(|(_, exec)| match &exec.phase {
            Phase::Queued { until } => Some(*until),
            Phase::Running(running) => match &running.stopping {
                Some(stopping) => Some(stopping.next),
                None => running.deadline,
            },
            Phase::Finished { .. } => None,
        });
        let quiet = self.active_execs().filter_map(|(_, exec)| {
            exec.running()?;
            exec.quiet.map(|quiet| quiet.at)
        });
        let session = [
            self.stage_deadline,
            self.watch_control_at,
            self.aftermath.as_ref().map(|aftermath| aftermath.next),
            self.ending.as_ref().map(|ending| ending.next),
            self.idle_deadline(),
        ];
        execs.chain(quiet).chain(session.into_iter().flatten()).min()
    }
}

fn drain(stream: &UnixStream) {
    let mut buffer = [0; 64];
    while matches!(rustix::io::read(stream, &mut buffer), Ok(read) if read == buffer.len()) {}
}
