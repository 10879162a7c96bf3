//! The control pipe: the shell's standard input, and how the host knows that the
//! shell has come back to it.
//!
//! The pipe has a single slot (one page), so the kernel reports it writable only
//! when the shell has read everything in it. Once the shell has taken a line, the
//! host leaves one blank behind it: the moment that blank is gone, the shell has
//! finished the line, printed its prompt and asked for more. That is an event of
//! the kernel, not of the shell's cooperation: no hook, trap or option of the
//! user's can suppress it.
//!
//! Usually it is not needed: the prompt, if it is ours, says the same and costs the
//! host one wake-up instead of three. The pipe is watched when no prompt has come.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

#[derive(Debug)]
pub struct Control {
    pipe: OwnedFd,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The shell waits for a line.
    Free,
    /// Not all of the line is written, or not all of it is taken.
    Line { rest: Vec<u8> },
    /// The blank behind the line is in the pipe.
    Blank,
    /// Nobody reads any more: the shell has become another program, or is ending.
    Deaf,
}

impl Control {
    /// The host's side, and the shell's standard input.
    pub fn new() -> io::Result<(Control, OwnedFd)> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let size = fcntl_setpipe_size(&write, rustix::param::page_size())?;
        if size != rustix::param::page_size() {
            return Err(io::Error::other(
                "this system cannot make a pipe of one page, which the engine needs",
            ));
        }
        rustix::io::ioctl_fionbio(&write, true)?;
        Ok((Control { pipe: write, state: State::Free }, read))
    }

    /// Whether there is nothing to wait for.
    pub fn is_quiet(&self) -> bool {
        matches!(self.state, State::Free | State::Deaf)
    }

    /// Whether the line was too long for the pipe.
    pub fn has_more(&self) -> bool {
        matches!(&self.state, State::Line { rest } if !rest.is_empty())
    }

    /// The shell has said itself that it is back; a blank that it has not read yet does no harm.
    pub fn free(&mut self) {
        self.state = State::Free;
    }

    /// The shell does not read its input any more; its end will be an event of its own.
    pub fn give_up(&mut self) {
        self.state = State::Deaf;
    }

    /// Hands a line to the shell. Only while it is free.
    pub fn send(&mut self, line: &str) -> io::Result<()> {
        self.state = State::Line { rest: super::text::bytes(line).into_owned() };
        self.write_on().map(drop)
    }

    /// Writes what fits. True once the line is written whole.
    fn write_on(&mut self) -> io::Result<bool> {
        let State::Line { rest } = &mut self.state else { return Ok(true) };
        while !rest.is_empty() {
            match rustix::io::write(&self.pipe, rest) {
                Ok(written) => drop(rest.drain(..written)),
                Err(rustix::io::Errno::AGAIN) => return Ok(false),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// The kernel says that the pipe is empty, or was when it was asked: a new line may
    /// have been sent since. True if the shell asks for a new line.
    pub fn on_writable(&mut self) -> io::Result<bool> {
        if !self.has_more() && rustix::io::ioctl_fionread(&self.pipe)? > 0 {
            return Ok(false);
        }
        match &self.state {
            State::Free | State::Deaf => Ok(false),
            State::Line { rest } if !rest.is_empty() => self.write_on().map(|_| false),
            State::Line { .. } => {
                rustix::io::write(&self.pipe, b" ")?;
                self.state = State::Blank;
                Ok(false)
            }
            State::Blank => {
                self.state = State::Free;
                Ok(true)
            }
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}
