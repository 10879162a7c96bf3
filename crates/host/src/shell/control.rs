//! The control channel: the shell's standard input, and how the host knows that the
//! shell has come back to it.
//!
//! It is a pair of sockets. A command finds the shell's descriptors in `/proc`, and could open a pipe
//! there for writing: what it writes would be the shell's next line. A socket cannot be opened.
//!
//! Once the shell has taken a line, the host leaves one blank behind it: the moment that blank is
//! gone, the shell has finished the line, printed its prompt and asked for more. That is an event of
//! the kernel, not of the shell's cooperation: no hook, trap or option of the user's can
//! suppress it. The kernel tells it as an edge: bytes of ours were read.
//!
//! Usually it is not needed: the prompt, if it is ours, says the same and costs the
//! host one wake-up instead of three. The channel is watched when no prompt has come.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

#[derive(Debug)]
pub struct Control {
    socket: OwnedFd,
    /// The shell's end, to see what it has not read yet.
    far_end: OwnedFd,
    /// Readable when the shell has read something since it was looked at last.
    edges: OwnedFd,
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
        let (socket, stdin) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        let edges = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&edges, &socket, epoll::EventData::new_u64(0), flags)?;
        let far_end = stdin.try_clone()?;
        Ok((Control { socket, far_end, edges, state: State::Free }, stdin))
    }

    /// Whether there is nothing to wait for.
    pub fn is_quiet(&self) -> bool {
        matches!(self.state, State::Free | State::Deaf)
    }

    /// Whether the line was too long for the channel.
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
            match rustix::io::write(&self.socket, rest) {
                Ok(written) => drop(rest.drain(..written)),
                Err(rustix::io::Errno::AGAIN) => return Ok(false),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }

    /// The shell has read something, perhaps before a new line was sent. True if the shell asks for
    /// a new line.
    pub fn on_read(&mut self) -> io::Result<bool> {
        // First: what is read after this is a new edge.
        let mut edge =
            [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
        epoll::wait(&self.edges, &mut edge, Some(&rustix::event::Timespec::default()))?;
        if !self.has_more() && !self.is_all_read()? {
            return Ok(false);
        }
        match &self.state {
            State::Free | State::Deaf => Ok(false),
            State::Line { rest } if !rest.is_empty() => self.write_on().map(|_| false),
            State::Line { .. } => {
                rustix::io::write(&self.socket, b" ")?;
                self.state = State::Blank;
                Ok(false)
            }
            State::Blank => {
                self.state = State::Free;
                Ok(true)
            }
        }
    }

    /// Whether the shell has read everything, and is not reading any more. The kernel lets one look only between
    /// two reads. That matters: a shell that reads in blocks would get the blank together with its line, if
    /// the blank came while that read is under way.
    fn is_all_read(&self) -> io::Result<bool> {
        let mut byte = [0; 1];
        match recv(&self.far_end, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok(_) => Ok(false),
            Err(rustix::io::Errno::AGAIN) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

/// Readable when there is something for [`Control::on_read`].
impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.edges.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(control: &Control) -> bool {
        let mut fds = [PollFd::new(control, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
    }

    fn read(stdin: &OwnedFd, count: usize) -> String {
        let mut buffer = vec![0; count];
        let read = rustix::io::read(stdin, &mut buffer).unwrap();
        String::from_utf8(buffer[..read].to_vec()).unwrap()
    }

    #[test]
    fn a_shell_that_reads_the_blank_has_come_back() {
        let (mut control, stdin) = Control::new().unwrap();
        control.send("line\n").unwrap();
        assert!(!control.on_read().unwrap());
        // As shells read: one byte at a time.
        for expected in ["l", "i", "n", "e"] {
            assert_eq!(read(&stdin, 1), expected);
            assert!(!is_readable(&control) || !control.on_read().unwrap());
        }
        assert_eq!(read(&stdin, 1), "\n");
        assert!(is_readable(&control), "the last byte is an event");
        assert!(!control.on_read().unwrap() && !is_readable(&control));
        assert_eq!(read(&stdin, 64), " ");
        assert!(is_readable(&control) && control.on_read().unwrap() && control.is_quiet());
    }

    #[test]
    fn a_line_longer_than_the_channel_arrives_whole() {
        let (mut control, stdin) = Control::new().unwrap();
        let line = format!("{}\n", "x".repeat(3 << 20));
        control.send(&line).unwrap();
        assert!(control.has_more());
        let (mut arrived, mut is_back) = (String::new(), false);
        while !is_back {
            arrived.push_str(&read(&stdin, 100_000));
            while is_readable(&control) && !is_back {
                is_back = control.on_read().unwrap();
            }
        }
        assert_eq!(arrived.trim_end_matches(' '), line);
    }

    /// The blank means that the shell has come back, so it must not arrive with the line before it.
    #[test]
    fn a_shell_that_reads_in_blocks_gets_the_blank_by_itself() {
        const ROUNDS: usize = 20_000;
        let (mut control, stdin) = Control::new().unwrap();
        let shell = std::thread::spawn(move || {
            for _ in 0..ROUNDS {
                assert_eq!(read(&stdin, 4096), "line\n");
                assert_eq!(read(&stdin, 4096), " ");
            }
        });
        for _ in 0..ROUNDS {
            control.send("line\n").unwrap();
            let mut is_back = false;
            while !is_back {
                let mut fds = [PollFd::new(&control, PollFlags::IN)];
                let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
                assert!(poll(&mut fds, Some(&patience)).unwrap() > 0, "the shell reads no more");
                is_back = control.on_read().unwrap();
            }
        }
        shell.join().unwrap();
    }

    /// A command could write the shell's next line there.
    #[test]
    fn nobody_else_can_open_it() {
        let (_control, stdin) = Control::new().unwrap();
        let path = format!("/proc/self/fd/{}", stdin.as_raw_fd());
        assert!(std::fs::File::options().write(true).open(&path).is_err());
        assert!(std::fs::File::open(&path).is_err());
    }
}
