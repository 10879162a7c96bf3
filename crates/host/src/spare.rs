//! What the next command needs from the kernel, made while nobody waits for it, and what the
//! last one leaves, put away then.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::pipe::PipeFlags;

use crate::cage::{Cage, Visible};
use crate::shell::MemFile;

#[derive(Debug, Default)]
pub(crate) struct Spare {
    next: Option<Next>,
    /// Whether a cage has been offered what the next command opens.
    is_offered: bool,
    litter: Vec<OwnedFd>,
}

/// The streams of one command, reading ends first, and an empty text.
#[derive(Debug)]
struct Next {
    text: MemFile,
    stdout: (OwnedFd, OwnedFd),
    stderr: (OwnedFd, OwnedFd),
}

/// What a command needs, in a place where its shell can open it.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// Empty.
    pub(crate) text: MemFile,
    pub(crate) stdout: (OwnedFd, OwnedFd),
    pub(crate) stderr: (OwnedFd, OwnedFd),
    /// The text, stdout and stderr.
    pub(crate) shown: Vec<Visible>,
}

impl Next {
    fn new() -> io::Result<Next> {
        Ok(Next { text: MemFile::new(b"")?, stdout: output_pipe()?, stderr: output_pipe()? })
    }

    /// What the shell opens.
    fn ends(&self) -> [BorrowedFd<'_>; 3] {
        [self.text.as_fd(), self.stdout.1.as_fd(), self.stderr.1.as_fd()]
    }
}

impl Spare {
    pub(crate) fn take(&mut self, cage: &mut Cage) -> io::Result<Prepared> {
        let next = self.next.take().map_or_else(Next::new, Ok)?;
        let offered = std::mem::take(&mut self.is_offered).then(|| cage.take_offer()).flatten();
        let shown = match offered {
            Some(shown) => shown,
            None => cage.show(&next.ends())?,
        };
        let Next { text, stdout, stderr } = next;
        Ok(Prepared { text, stdout, stderr, shown })
    }

    /// Closes it later.
    pub(crate) fn put_away(&mut self, descriptor: OwnedFd) {
        self.litter.push(descriptor);
    }

    /// To be called when everybody has been answered; `is_free` if no command runs in the shell.
    pub(crate) fn tidy(&mut self, cage: &mut Cage, is_free: bool) {
        self.litter.clear();
        if self.next.is_none() {
            // Without descriptors to spare, the next command makes its own, or hears that it cannot.
            self.next = Next::new().ok();
        }
        match &self.next {
            Some(next) if is_free && !self.is_offered && cage.is_closed() => {
                self.is_offered = cage.offer(&next.ends()).is_ok();
            }
            _ => cage.tidy(),
        }
    }
}

/// Neither end blocks: whoever is given the writing end by its path opens it anew, as it likes.
pub(crate) fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?)
}
