//! Keeps a daemon's conversation with a host here while the network between them is broken.
//!
//! One process per session, in the background. It is connected with the host, and keeps what
//! the daemon has not received yet (`trl_protocol::resume`). `--connect` has the daemon on its stdin
//! and stdout, and gives these descriptors to this process: no byte passes through a process more than needed.
//! A daemon that begins a new stream gets a new connection to the host in place of the old one.

use std::fs;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use trl_protocol::resume::{Greeting, Reception, ResumableEnd, Token};
use trl_sys::descriptors;

use super::listen::bind;
use super::place::SessionPaths;

#[cfg(test)]
mod tests;

/// How long a daemon that has not received everything may stay away.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// How long one that connects may take to say who it is.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
const CHUNK: usize = 128 * 1024;

/// Comes with two descriptors: a daemon can be read from the first and written to with the second.
const DAEMON: u8 = b'D';
/// The session is removed, so nobody will ask for what is kept.
const DISMISSAL: u8 = b'Q';

/// Ends the session's relays, if there are any.
pub(super) fn dismiss(place: &SessionPaths) {
    for relay in [&place.relay, &place.old_relay] {
        dismiss_at(relay);
    }
}

fn dismiss_at(relay: &Path) {
    if let Ok(mut stream) = UnixStream::connect(relay) {
        // Older versions read as much as a greeting has. One that is about to end by itself hears it no more.
        stream.write_all(&[DISMISSAL; Greeting::BYTES]).ok();
    }
}

/// Connects with the session's relay, which is started if there is none.
pub(super) fn attach(place: &SessionPaths) -> io::Result<UnixStream> {
    if let Ok(stream) = UnixStream::connect(&place.relay) {
        return Ok(stream);
    }
    // A daemon of an older version is gone, or this one would not connect; what was kept for it is in nobody's way then.
    dismiss_at(&place.old_relay);
    let listener = bind(&place.relay)?;
    // SAFETY: there is only this thread, so the child may do whatever the parent may.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let kept = rustix::io::fcntl_dupfd_cloexec(&listener, 3)?;
            drop(listener);
            let listener = UnixListener::from(crate::detach_keeping(kept)?);
            let served = Relay::new(place, listener).run();
            fs::remove_file(&place.relay).ok();
            std::process::exit(i32::from(served.is_err()))
        }
        _ => {
            drop(listener);
            UnixStream::connect(&place.relay)
        }
    }
}

/// Gives a daemon to the relay.
pub(super) fn hand_over(relay: &UnixStream, from: &impl AsFd, to: &impl AsFd) -> io::Result<()> {
    descriptors::send(relay, &[DAEMON], &[from.as_fd(), to.as_fd()]).map(drop)
}

/// Who has come.
enum Visitor {
    Daemon(Daemon),
    Dismissal,
    /// One that left without a word has changed nothing.
    Nobody,
}

/// A daemon elsewhere, through whatever brings its bytes here.
#[derive(Debug)]
struct Daemon {
    from: OwnedFd,
    to: OwnedFd,
    /// The process that brought it, for as long as it lives.
    bringer: UnixStream,
}

impl Daemon {
    fn read_exact(&self, bytes: &mut [u8], until: Instant) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            wait_for(&self.from, PollFlags::IN, until)?;
            match rustix::io::read(&self.from, &mut bytes[filled..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => filled += read,
                Err(error) if is_for_later(error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write_all(&self, bytes: &[u8], until: Instant) -> io::Result<()> {
        let mut rest = bytes.to_vec();
        while !rest.is_empty() {
            wait_for(&self.to, PollFlags::OUT, until)?;
            write_some(&self.to, &mut rest)?;
        }
        Ok(())
    }
}

fn wait_for(fd: &OwnedFd, flags: PollFlags, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    let patience = Timespec::try_from(left).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(fd, flags)], Some(&patience)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The conversation that is being kept.
#[derive(Debug)]
struct Stream {
    token: Token,
    end: ResumableEnd,
    /// `None` when the host has closed its connection.
    host: Option<UnixStream>,
    /// What the daemon said and the host has not taken yet.
    to_host: Vec<u8>,
}

#[derive(Debug)]
struct Relay<'a> {
    place: &'a SessionPaths,
    listener: UnixListener,
    stream: Option<Stream>,
    daemon: Option<Daemon>,
    /// To be written to the daemon.
    to_daemon: Vec<u8>,
    /// What is read goes through here.
    buffer: Vec<u8>,
    /// The session is removed.
    dismissed: bool,
}

/// What is ready.
#[derive(Debug)]
struct Ready {
    listener: bool,
    daemon: bool,
    /// What brings the daemon's bytes here is no more.
    daemon_gone: bool,
    host: PollFlags,
}

impl<'a> Relay<'a> {
    fn new(place: &'a SessionPaths, listener: UnixListener) -> Relay<'a> {
        Relay {
            place,
            listener,
            stream: None,
            daemon: None,
            to_daemon: Vec::new(),
            buffer: vec![0; CHUNK],
            dismissed: false,
        }
    }

    fn run(mut self) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        while let Some(ready) = self.wait()? {
            self.handle(&ready)?;
            if self.dismissed || self.is_over() {
                break;
            }
        }
        Ok(())
    }

    fn handle(&mut self, ready: &Ready) -> io::Result<()> {
        if !ready.host.is_empty() {
            self.on_host();
            self.answer();
        }
        if ready.daemon && (self.on_daemon().is_err() || ready.daemon_gone) {
            self.daemon = None;
        }
        // Last, since what is ready concerns the daemon and the host from before.
        if ready.listener {
            self.accept()?;
        }
        Ok(())
    }

    /// The host is gone and the daemon knows all that it said.
    fn is_over(&self) -> bool {
        self.daemon.is_none()
            && self.stream.as_ref().is_none_or(|stream| stream.host.is_none() && stream.end.is_all_acked())
    }

    /// `None` if nobody came in time.
    fn wait(&mut self) -> io::Result<Option<Ready>> {
        self.fill();
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        let mut at = (1..1, None);
        if let Some(Daemon { from, to, bringer }) = &self.daemon {
            let room = self.stream.as_ref().is_none_or(|stream| stream.to_host.len() < CHUNK);
            let if_wanted = |flags, wanted| if wanted { flags } else { PollFlags::empty() };
            fds.push(PollFd::new(from, if_wanted(PollFlags::IN, room)));
            fds.push(PollFd::new(to, if_wanted(PollFlags::OUT, !self.to_daemon.is_empty())));
            fds.push(PollFd::new(bringer, PollFlags::IN));
            at.0 = 1..fds.len();
        }
        if let Some(stream) = &self.stream
            && let Some(host) = &stream.host
        {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, stream.end.room() > 0);
            wanted.set(PollFlags::OUT, !stream.to_host.is_empty());
            // Its end would be reported even if nothing is wanted, over and over while there is no room for it.
            if !wanted.is_empty() {
                at.1 = Some(fds.len());
                fds.push(PollFd::new(host, wanted));
            }
        }
        let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        let limit = self.daemon.is_none().then_some(&patience);
        match poll(&mut fds, limit) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => {
                let host = PollFlags::empty();
                return Ok(Some(Ready { listener: false, daemon: false, daemon_gone: false, host }));
            }
            Err(error) => return Err(error.into()),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let of_daemon = &fds[at.0];
        // Nothing is said on the connection of the process that brought it: what happens there is its end.
        let daemon_gone = of_daemon.last().is_some_and(is_ready)
            || of_daemon.iter().any(|fd| fd.revents().contains(PollFlags::ERR));
        let daemon = of_daemon.iter().any(is_ready);
        let host = at.1.map_or(PollFlags::empty(), |at: usize| fds[at].revents());
        Ok(Some(Ready { listener: is_ready(&fds[0]), daemon, daemon_gone, host }))
    }

    /// What the host has said goes on at once, since it is most likely to be taken at once.
    fn answer(&mut self) {
        self.fill();
        if let Some(daemon) = &self.daemon
            && write_some(&daemon.to, &mut self.to_daemon).is_err()
        {
            self.daemon = None;
        }
    }

    fn fill(&mut self) {
        if let Some(stream) = &mut self.stream
            && self.daemon.is_some()
            && self.to_daemon.is_empty()
        {
            stream.end.take_output(&mut self.to_daemon);
        }
    }

    /// A daemon has come, in place of the one before it.
    fn accept(&mut self) -> io::Result<()> {
        let bringer = match self.listener.accept() {
            Ok((bringer, _)) => bringer,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        let until = Instant::now() + GREETING_TIMEOUT;
        let daemon = match visitor(bringer) {
            Ok(Visitor::Daemon(daemon)) => daemon,
            Ok(Visitor::Dismissal) => {
                self.dismissed = true;
                return Ok(());
            }
            Ok(Visitor::Nobody) | Err(_) => return Ok(()),
        };
        let mut greeting = [0; Greeting::BYTES];
        if daemon.read_exact(&mut greeting, until).is_err() {
            return Ok(());
        }
        let reception = Greeting::parse(&greeting).map_or(Reception::Gone, |greeting| self.receive(greeting));
        if reception != Reception::Gone {
            // The stream goes on with the new one, even if that leaves before it hears so.
            self.daemon = None;
            self.to_daemon.clear();
        }
        if daemon.write_all(&reception.to_bytes(), until).is_ok() && reception != Reception::Gone {
            self.daemon = Some(daemon);
        }
        Ok(())
    }

    fn receive(&mut self, greeting: Greeting) -> Reception {
        match (greeting.received, &mut self.stream) {
            (None, _) => {
                let connected = UnixStream::connect(&self.place.first)
                    .or_else(|_| UnixStream::connect(&self.place.socket))
                    .and_then(|host| host.set_nonblocking(true).map(|()| host));
                let Ok(host) = connected else { return Reception::Gone };
                let end = ResumableEnd::new();
                self.stream =
                    Some(Stream { token: greeting.token, end, host: Some(host), to_host: Vec::new() });
                Reception::Continue(0)
            }
            (Some(received), Some(stream)) if stream.token == greeting.token => {
                match stream.end.connected(received) {
                    Ok(()) => Reception::Continue(stream.end.received()),
                    Err(_) => Reception::Gone,
                }
            }
            (Some(_), _) => Reception::Gone,
        }
    }

    fn on_host(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let Some(host) = &mut stream.host else { return };
        if write_some(host, &mut stream.to_host).is_err() {
            // A host that ends takes no more, but may have said why: that is still to be read.
            stream.to_host.clear();
        }
        let buffer = &mut self.buffer[..CHUNK.min(stream.end.room())];
        if buffer.is_empty() {
            return;
        }
        let over = match rustix::io::read(&*host, &mut *buffer) {
            Ok(0) => true,
            Ok(read) => {
                stream.end.push(&buffer[..read]);
                false
            }
            Err(error) => !is_for_later(error),
        };
        if over {
            stream.end.finish();
            stream.host = None;
            stream.to_host.clear();
        }
    }

    fn on_daemon(&mut self) -> io::Result<()> {
        let Some(daemon) = &mut self.daemon else { return Ok(()) };
        write_some(&daemon.to, &mut self.to_daemon)?;
        let read = match rustix::io::read(&daemon.from, &mut self.buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if is_for_later(error) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let taken = stream.end.take_input(&self.buffer[..read], &mut stream.to_host);
        taken.map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        if let Some(host) = &mut stream.host {
            // At once, since it is most likely to be taken at once.
            let _ = write_some(host, &mut stream.to_host);
        }
        if stream.end.has_ended() {
            // The daemon wants this conversation no more; the session goes on.
            self.stream = None;
        }
        Ok(())
    }
}

/// Whoever has connected says who it is in one byte.
fn visitor(bringer: UnixStream) -> io::Result<Visitor> {
    bringer.set_nonblocking(false)?;
    bringer.set_read_timeout(Some(GREETING_TIMEOUT))?;
    let mut word = [0];
    let (bytes, fds) = descriptors::receive(&bringer, &mut word, RecvFlags::empty())?;
    let mut fds = fds.into_iter();
    match (bytes, word[0], fds.next(), fds.next()) {
        (1, DAEMON, Some(from), Some(to)) => {
            for fd in [&from, &to] {
                rustix::io::ioctl_fionbio(fd, true)?;
            }
            Ok(Visitor::Daemon(Daemon { from, to, bringer }))
        }
        (1, DISMISSAL, ..) => Ok(Visitor::Dismissal),
        _ => Ok(Visitor::Nobody),
    }
}

fn write_some(to: &impl AsFd, bytes: &mut Vec<u8>) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => drop(bytes.drain(..written)),
            Err(error) if is_for_later(error) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_for_later(error: rustix::io::Errno) -> bool {
    matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
}
