//! Connections of daemons: frames in, frames out, never blocking.
//!
//! What is sent waits in a buffer per connection; how much can pile up is bounded
//! by the credit that the daemon grants, so a slow daemon costs little memory.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use trl_protocol::exec::Stream;
use trl_protocol::fault::Fault;
use trl_protocol::frame::{self, Frame};
use trl_protocol::wire::{FromHost, ToHost};
use trl_sys::descriptors;

/// A buffer that grew past this is given back once it is empty.
const KEEP_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Link {
    stream: UnixStream,
    input: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    /// Descriptors that go with the byte at this place of `out`.
    passed: VecDeque<(usize, OwnedFd)>,
    pub(super) greeted: bool,
}

impl Link {
    pub(crate) fn new(stream: UnixStream) -> Link {
        Link { stream, input: Vec::new(), out: Vec::new(), sent: 0, passed: VecDeque::new(), greeted: false }
    }

    /// What has arrived whole, read through `buffer`. `Err`: the connection is over.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Vec<ToHost>> {
        match self.stream.read(buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.input.extend_from_slice(&buffer[..read]);
                self.split()
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Ok(Vec::new())
            }
            Err(error) => Err(error),
        }
    }

    fn split(&mut self) -> io::Result<Vec<ToHost>> {
        let (mut messages, mut used) = (Vec::new(), 0);
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        while let Some((frame, length)) =
            frame::split(&self.input[used..]).map_err(|error| bad(error.0.into()))?
        {
            match frame {
                Frame::Json(json) => match ToHost::read(json) {
                    Ok(message) => messages.push(message),
                    Err(error) => self.out.extend(refusal(json, &error.to_string())?),
                },
                Frame::Data { .. } => return Err(bad("a daemon sends no data frames".into())),
            }
            used += length;
        }
        self.input.drain(..used);
        if self.input.is_empty() && self.input.capacity() > KEEP_BYTES {
            self.input = Vec::new();
        }
        Ok(messages)
    }

    /// Answers a daemon's first message.
    pub(crate) fn greet(&mut self, welcome: &FromHost) {
        self.greeted = true;
        self.send(welcome);
    }

    pub(crate) fn send(&mut self, message: &FromHost) {
        // Our own messages always serialise.
        frame::put_json(&mut self.out, message).ok();
    }

    /// Sends a message with a descriptor.
    pub(crate) fn pass(&mut self, message: &FromHost, descriptor: OwnedFd) {
        self.passed.push_back((self.out.len(), descriptor));
        self.send(message);
    }

    pub(crate) fn send_data(&mut self, req: u64, stream: Stream, offset: u64, bytes: &[u8]) {
        frame::put_data(&mut self.out, req, stream, offset, bytes);
    }

    pub(crate) fn has_output(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Writes what the kernel takes now. `Err`: the connection is over.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.write_some() {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.sent == self.out.len() {
            self.sent = 0;
            self.out.clear();
            if self.out.capacity() > KEEP_BYTES * 4 {
                self.out = Vec::new();
            }
        }
        Ok(())
    }

    fn write_some(&mut self) -> io::Result<usize> {
        match self.passed.front() {
            None => self.stream.write(&self.out[self.sent..]),
            Some((at, _)) if self.sent < *at => self.stream.write(&self.out[self.sent..*at]),
            Some((_, descriptor)) => {
                let end = self.passed.get(1).map_or(self.out.len(), |(next, _)| *next);
                let bytes = &self.out[self.sent..end];
                let written = descriptors::send(&self.stream, bytes, &[descriptor.as_fd()])?;
                self.passed.pop_front();
                Ok(written)
            }
        }
    }

    /// Writes everything, waiting for the daemon. Only for a last word.
    pub(crate) fn flush_waiting(&mut self) {
        if self.stream.set_nonblocking(false).is_ok() {
            // A daemon that is gone does not need the last word.
            self.stream.set_write_timeout(Some(std::time::Duration::from_secs(1))).ok();
            self.stream.write_all(&self.out[self.sent..]).ok();
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// An answer to a message of a newer daemon that this host does not understand.
fn refusal(json: &[u8], problem: &str) -> io::Result<Vec<u8>> {
    let message: serde_json::Value = serde_json::from_slice(json).map_err(io::Error::other)?;
    let req = message.get("req").and_then(serde_json::Value::as_u64).unwrap_or(0);
    let fault = Fault::internal(format!("the session's host does not understand this message: {problem}"));
    let mut out = Vec::new();
    frame::put_json(&mut out, &FromHost::Fault { req, fault }).map_err(io::Error::other)?;
    Ok(out)
}

pub(super) type Links = BTreeMap<u64, Link>;
