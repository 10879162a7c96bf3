//! Bytes in and out of commands: pipes into the journal, the journal to whoever
//! listens, writes to stdin.

use std::collections::VecDeque;

use trl_protocol::exec::Stream;
use trl_protocol::wire::FromHost;

use crate::exec::{Exec, Input};
use crate::host::Host;

/// As much as a pipe ever holds.
const PIPE_BYTES: usize = 1024 * 1024;
/// One data frame.
const CHUNK: usize = 128 * 1024;
/// A listener that the command waits for may lag the ring by all but this much.
const RING_MARGIN: u64 = 1024 * 1024;

/// Someone who follows a command's output.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) link: u64,
    pub(crate) req: u64,
    pub(crate) exec: u64,
    pub(crate) next: [u64; 2],
    pub(crate) credit: u64,
    /// The one who started the command: it waits for them rather than lose output.
    pub(crate) owner: bool,
}

impl Host {
    /// Whether the command must wait until its listener has caught up.
    pub(crate) fn is_held_back(&self, exec: &Exec, stream: Stream) -> bool {
        self.subscriptions.iter().any(|subscription| {
            subscription.owner
                && subscription.exec == exec.number
                && exec.journal.room_before_overwriting(stream, subscription.next[stream.index()], self.caps)
                    < RING_MARGIN.min(self.caps.ring / 2)
        })
    }

    pub(crate) fn on_output(&mut self, number: u64, stream: Stream) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = match self.execs.get_mut(&number).and_then(|exec| exec.outputs[stream.index()].as_mut()) {
            Some(output) => rustix::io::read(&output.read, &mut buffer),
            None => Err(rustix::io::Errno::AGAIN),
        };
        match read {
            Ok(0) => self.close_output(number, stream),
            Ok(read) => self.take_output(number, stream, &buffer[..read]),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(_) => self.close_output(number, stream),
        }
        self.buffer = buffer;
    }

    fn close_output(&mut self, number: u64, stream: Stream) {
        if let Some(exec) = self.execs.get_mut(&number) {
            exec.outputs[stream.index()] = None;
        }
        self.prune();
    }

    /// Into the journal first; then straight on to those who have seen all before it.
    pub(crate) fn take_output(&mut self, number: u64, stream: Stream, bytes: &[u8]) {
        if stream == Stream::Stdout && self.execs.get(&number).is_some_and(|exec| exec.tty.is_some()) {
            self.draw(number, bytes);
        }
        self.printed[stream.index()] += bytes.len() as u64;
        self.show_output(number, bytes);
        let Some(exec) = self.execs.get_mut(&number) else { return };
        let offset = exec.journal.total(stream);
        self.journal.append(&mut exec.journal, stream, bytes);
        if let Some(output) = &mut exec.outputs[stream.index()]
            && bytes.len() >= 64 * 1024
            && !output.enlarged
        {
            output.enlarged = true;
            // Refused for users with many pipes; it only costs speed.
            rustix::pipe::fcntl_setpipe_size(&output.read, PIPE_BYTES).ok();
        }
        for index in 0..self.subscriptions.len() {
            let subscription = &mut self.subscriptions[index];
            if subscription.exec != number {
                continue;
            }
            let length = bytes.len() as u64;
            if subscription.next[stream.index()] == offset && subscription.credit >= length {
                subscription.next[stream.index()] += length;
                subscription.credit -= length;
                if let Some(link) = self.links.get_mut(&subscription.link) {
                    link.send_data(subscription.req, stream, offset, bytes);
                }
            } else {
                self.pump(index);
            }
        }
    }

    /// Sends what the journal has and the credit allows.
    pub(crate) fn pump(&mut self, index: usize) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.is_empty() {
            buffer = vec![0; CHUNK];
        }
        let subscription = &mut self.subscriptions[index];
        if let (Some(exec), Some(link)) =
            (self.execs.get(&subscription.exec), self.links.get_mut(&subscription.link))
        {
            for stream in Stream::BOTH {
                while subscription.credit > 0 {
                    let from = subscription.next[stream.index()];
                    let want =
                        CHUNK.min(usize::try_from(subscription.credit).unwrap_or(CHUNK)).min(buffer.len());
                    let (offset, read) = self.journal.read(&exec.journal, stream, from, &mut buffer[..want]);
                    if offset > from {
                        link.send(&FromHost::Gap { req: subscription.req, stream, from, to: offset });
                        subscription.next[stream.index()] = offset;
                    }
                    if read == 0 {
                        break;
                    }
                    link.send_data(subscription.req, stream, offset, &buffer[..read]);
                    subscription.next[stream.index()] = offset + read as u64;
                    subscription.credit -= read as u64;
                }
            }
        }
        if self.buffer.is_empty() {
            self.buffer = buffer;
        }
    }

    /// Tells those who have heard everything of a finished command that it is over.
    pub(crate) fn complete_subscriptions(&mut self) {
        let mut index = 0;
        while index < self.subscriptions.len() {
            let subscription = &self.subscriptions[index];
            let done = self.execs.get(&subscription.exec).and_then(|exec| {
                let outcome = exec.outcome()?;
                let caught_up =
                    Stream::BOTH.iter().all(|s| subscription.next[s.index()] >= exec.journal.total(*s));
                caught_up.then(|| FromHost::Done {
                    req: subscription.req,
                    exec: exec.number,
                    outcome: Box::new(outcome.clone()),
                    dropped: Stream::BOTH.map(|s| exec.journal.dropped(s)),
                })
            });
            match done {
                Some(done) => {
                    let link = self.subscriptions.remove(index).link;
                    self.send(link, &done);
                }
                None => index += 1,
            }
        }
    }

    /// Everything that is in the pipes now, and not what a background child writes from
    /// here on. A pipe that nobody else holds is done with.
    pub(crate) fn drain_outputs(&mut self, number: u64) {
        let is_tty = self.execs.get(&number).is_some_and(|exec| exec.tty.is_some());
        if is_tty && self.on_screen() == Some(number) {
            self.drain_terminal();
        }
        for stream in Stream::BOTH {
            let mut left = PIPE_BYTES;
            while left > 0 {
                let Some(exec) = self.execs.get_mut(&number) else { return };
                let Some(output) = &mut exec.outputs[stream.index()] else { break };
                output.hold = None;
                let mut buffer = std::mem::take(&mut self.buffer);
                let read = rustix::io::read(&output.read, &mut buffer);
                match read {
                    Ok(0) => {
                        let done = exec.outputs[stream.index()].take();
                        done.into_iter().for_each(|output| self.spare.put_away(output.read));
                    }
                    Ok(read) => self.take_output(number, stream, &buffer[..read]),
                    Err(_) => {}
                }
                self.buffer = buffer;
                match read {
                    Ok(read) if read > 0 => left = left.saturating_sub(read),
                    Err(rustix::io::Errno::INTR) => {}
                    _ => break,
                }
            }
        }
    }

    /// Writes pending input as far as the pipe takes it.
    pub(crate) fn feed(&mut self, number: u64) {
        if self.feed_terminal(number) {
            return;
        }
        let Some(exec) = self.execs.get_mut(&number) else { return };
        let Input::Open { write, pending, eof, .. } = &mut exec.input else { return };
        while !pending.is_empty() {
            let Some(pipe) = write else { return };
            match rustix::io::write(&*pipe, pending.as_slices().0) {
                Ok(written) => drop(pending.drain(..written)),
                Err(rustix::io::Errno::AGAIN) => return,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => {
                    *write = None;
                    pending.clear();
                }
            }
        }
        *pending = VecDeque::new();
        if *eof {
            // The reading end stays: the shell may not have opened it yet.
            *write = None;
        }
    }
}
