//! What the next command needs from the kernel, made while nobody waits for it, and what the
//! last one leaves, put away then.

use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::PipeFlags;

use crate::shell::MemFile;

/// One for each stream of a command.
const PIPES: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Spare {
    pipes: Vec<(OwnedFd, OwnedFd)>,
    text: Option<MemFile>,
    litter: Vec<OwnedFd>,
}

impl Spare {
    /// A pipe for one stream of a command, reading end first.
    pub(crate) fn pipe(&mut self) -> io::Result<(OwnedFd, OwnedFd)> {
        self.pipes.pop().map_or_else(output_pipe, Ok)
    }

    pub(crate) fn text(&mut self, text: &[u8]) -> io::Result<MemFile> {
        match self.text.take() {
            Some(held) => held.fill(text),
            None => MemFile::new(text),
        }
    }

    /// Closes it later.
    pub(crate) fn put_away(&mut self, descriptor: OwnedFd) {
        self.litter.push(descriptor);
    }

    /// To be called when everybody has been answered.
    pub(crate) fn tidy(&mut self) {
        self.litter.clear();
        // Without descriptors to spare, the next command makes its own, or hears that it cannot.
        while self.pipes.len() < PIPES
            && let Ok(pipe) = output_pipe()
        {
            self.pipes.push(pipe);
        }
        if self.text.is_none() {
            self.text = MemFile::new(b"").ok();
        }
    }
}

/// Neither end blocks: whoever is given the writing end by its path opens it anew, as it likes.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}
