//! The host's end of an output pipe, and how often it is looked at.
//!
//! To be woken for each block that a program writes costs more than the block. A program that writes much
//! gets a large pipe, and after a read that emptied it the pipe is left alone for a moment: the next read
//! finds many blocks at once. The end of a command does not wait for that.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// As much as a pipe ever holds.
pub(crate) const PIPE_BYTES: usize = 1024 * 1024;
/// Half of what a pipe holds at first: its program is quicker than we are.
const MUCH: usize = 32 * 1024;
/// What programs write at once that do not write line by line.
const BLOCK: usize = 4096;
/// Too short for a program to fill the pipe, unless it writes two gigabytes in a second.
const PAUSE: Duration = Duration::from_micros(500);

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) read: OwnedFd,
    /// Kept open until the command is over, so that the pipe has a writer from the start.
    pub(crate) hold: Option<OwnedFd>,
    size: Size,
    /// Until when it is not looked at.
    pub(crate) paused_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    AsMade,
    Large,
    /// Refused, for users with many pipes; it only costs speed.
    NotLarge,
}

impl Output {
    pub(crate) fn new(read: OwnedFd, hold: Option<OwnedFd>) -> Output {
        Output { read, hold, size: Size::AsMade, paused_until: None }
    }

    /// So many bytes were read, with room for so many.
    pub(crate) fn note_read(&mut self, read: usize, room: usize) {
        if self.size == Size::AsMade && read >= MUCH {
            self.size = match rustix::pipe::fcntl_setpipe_size(&self.read, PIPE_BYTES) {
                Ok(_) => Size::Large,
                Err(_) => Size::NotLarge,
            };
        }
        self.paused_until = deserves_pause(self.size, read, room).then(|| Instant::now() + PAUSE);
    }

    /// Its pause is over by now, if it has one.
    pub(crate) fn end_pause(&mut self, now: Instant) {
        self.paused_until.take_if(|until| *until <= now);
    }
}

fn deserves_pause(size: Size, read: usize, room: usize) -> bool {
    size == Size::Large && (BLOCK..room).contains(&read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_large_pipes_that_were_emptied_of_blocks_get_a_pause() {
        const ROOM: usize = 256 * 1024;
        let cases = [
            (Size::Large, BLOCK, true),
            (Size::Large, ROOM - 1, true),
            // There is more.
            (Size::Large, ROOM, false),
            // A program that writes lines is heard at once.
            (Size::Large, BLOCK - 1, false),
            (Size::Large, 1, false),
            // It would be full before the pause is over.
            (Size::AsMade, BLOCK, false),
            (Size::NotLarge, MUCH, false),
        ];
        for (size, read, expected) in cases {
            assert_eq!(deserves_pause(size, read, ROOM), expected, "{size:?} {read}");
        }
    }

    #[test]
    fn a_pipe_grows_for_much_output_and_its_pause_ends() {
        let (read, _write) = crate::spare::output_pipe().unwrap();
        let size = |output: &Output| rustix::pipe::fcntl_getpipe_size(&output.read).unwrap();
        let mut output = Output::new(read, None);
        let at_first = size(&output);
        output.note_read(MUCH - 1, PIPE_BYTES);
        assert_eq!((size(&output), output.paused_until), (at_first, None));
        output.note_read(MUCH, PIPE_BYTES);
        assert_eq!(size(&output), PIPE_BYTES);
        let until = output.paused_until.unwrap();
        output.end_pause(until - Duration::from_micros(1));
        assert_eq!(output.paused_until, Some(until));
        output.end_pause(until);
        assert_eq!(output.paused_until, None);
    }
}
