//! Keeps a daemon's conversation with a host here while the network between them is broken.
//!
//! One process per session, in the background. It is connected with the host, and keeps what
//! the daemon has not received yet (`trl_protocol::resume`). `--attach` passes bytes between
//! the daemon, on stdin and stdout, and this process. A daemon that begins a new stream gets
//! a new connection to the host in place of the old one.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trl_protocol::resume::{Greeting, Reception, ResumableEnd, Token};

use super::listen::bind;
use super::place::SessionPaths;

/// How long a daemon that has not received everything may stay away.
const PATIENCE: Duration = Duration::from_secs(15 * 60);
/// How long one that connects may take to say who it is.
const GREETING_TIMEOUT: Duration = Duration::from_secs(10);
const CHUNK: usize = 128 * 1024;

/// In place of a greeting: the session is removed, so nobody will ask for what is kept.
const DISMISSAL: [u8; Greeting::BYTES] = [b'Q'; Greeting::BYTES];

/// Ends the session's relay, if there is one.
pub(super) fn dismiss(place: &SessionPaths) {
    if let Ok(mut stream) = UnixStream::connect(&place.relay) {
        // One that is about to end by itself hears it no more.
        stream.write_all(&DISMISSAL).ok();
    }
}

/// Connects with the session's relay, which is started if there is none.
pub(super) fn attach(place: &SessionPaths) -> io::Result<UnixStream> {
    if let Ok(stream) = UnixStream::connect(&place.relay) {
        return Ok(stream);
    }
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
    client: Option<UnixStream>,
    /// To be written to the client.
    to_client: Vec<u8>,
    /// The session is removed.
    dismissed: bool,
}

/// What is ready.
#[derive(Debug)]
struct Ready {
    listener: bool,
    client: PollFlags,
    host: PollFlags,
}

impl<'a> Relay<'a> {
    fn new(place: &'a SessionPaths, listener: UnixListener) -> Relay<'a> {
        Relay { place, listener, stream: None, client: None, to_client: Vec::new(), dismissed: false }
    }

    fn run(mut self) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        while let Some(ready) = self.wait()? {
            if ready.listener {
                self.accept()?;
            }
            if !ready.host.is_empty() {
                self.on_host();
            }
            if !ready.client.is_empty() && self.on_client().is_err() {
                self.client = None;
            }
            if self.dismissed || self.is_over() {
                break;
            }
        }
        Ok(())
    }

    /// The host is gone and the daemon knows all that it said.
    fn is_over(&self) -> bool {
        self.client.is_none()
            && self.stream.as_ref().is_none_or(|stream| stream.host.is_none() && stream.end.is_all_acked())
    }

    /// `None` if nobody came in time.
    fn wait(&mut self) -> io::Result<Option<Ready>> {
        self.fill();
        let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
        let mut at = (None, None);
        if let Some(client) = &self.client {
            let room = self.stream.as_ref().is_none_or(|stream| stream.to_host.len() < CHUNK);
            let mut wanted = if room { PollFlags::IN } else { PollFlags::empty() };
            wanted.set(PollFlags::OUT, !self.to_client.is_empty());
            at.0 = Some(fds.len());
            fds.push(PollFd::new(client, wanted));
        }
        if let Some(stream) = &self.stream
            && let Some(host) = &stream.host
        {
            let mut wanted = PollFlags::empty();
            wanted.set(PollFlags::IN, stream.end.room() > 0);
            wanted.set(PollFlags::OUT, !stream.to_host.is_empty());
            at.1 = Some(fds.len());
            fds.push(PollFd::new(host, wanted));
        }
        let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
        let limit = self.client.is_none().then_some(&patience);
        match poll(&mut fds, limit) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => {
                return Ok(Some(Ready {
                    listener: false,
                    client: PollFlags::empty(),
                    host: PollFlags::empty(),
                }));
            }
            Err(error) => return Err(error.into()),
        }
        let flags = |at: Option<usize>| at.map_or(PollFlags::empty(), |at| fds[at].revents());
        Ok(Some(Ready { listener: !fds[0].revents().is_empty(), client: flags(at.0), host: flags(at.1) }))
    }

    fn fill(&mut self) {
        if let Some(stream) = &mut self.stream
            && self.client.is_some()
            && self.to_client.is_empty()
        {
            stream.end.take_output(&mut self.to_client);
        }
    }

    /// A daemon has come, in place of the one before it.
    fn accept(&mut self) -> io::Result<()> {
        let mut client = match self.listener.accept() {
            Ok((client, _)) => client,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        client.set_nonblocking(false)?;
        client.set_read_timeout(Some(GREETING_TIMEOUT))?;
        let mut greeting = [0; Greeting::BYTES];
        // One that leaves without a word has changed nothing.
        if client.read_exact(&mut greeting).is_err() {
            return Ok(());
        }
        if greeting == DISMISSAL {
            self.dismissed = true;
            return Ok(());
        }
        let reception = Greeting::parse(&greeting).map_or(Reception::Gone, |greeting| self.receive(greeting));
        if client.write_all(&reception.to_bytes()).is_err() || reception == Reception::Gone {
            return Ok(());
        }
        client.set_nonblocking(true)?;
        self.to_client.clear();
        self.client = Some(client);
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
        let wrote = write_some(host, &mut stream.to_host);
        let mut buffer = vec![0; CHUNK.min(stream.end.room())];
        let over = match (wrote, buffer.is_empty()) {
            // A host that ends may have said why: that is still to be read.
            (_, false) => match host.read(&mut buffer) {
                Ok(0) => true,
                Ok(read) => {
                    stream.end.push(&buffer[..read]);
                    false
                }
                Err(error) => !is_for_later(&error),
            },
            (_, true) => false,
        };
        if over {
            stream.end.finish();
            stream.host = None;
            stream.to_host.clear();
        }
    }

    fn on_client(&mut self) -> io::Result<()> {
        let Some(client) = &mut self.client else { return Ok(()) };
        write_some(client, &mut self.to_client)?;
        let mut buffer = vec![0; CHUNK];
        let read = match client.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if is_for_later(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let taken = stream.end.take_input(&buffer[..read], &mut stream.to_host);
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

fn write_some(to: &mut UnixStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(written) => drop(bytes.drain(..written)),
            Err(error) if is_for_later(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
