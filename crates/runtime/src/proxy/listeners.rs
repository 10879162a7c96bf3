//! The sockets that a session's host hands out: one now, another whenever the session's network is made anew.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::RecvFlags;
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{TcpListener, UnixStream};
use trl_protocol::SessionId;
use trl_protocol::frame::{self, Frame};
use trl_protocol::wire::{FromHost, HOST_PROTOCOL, ToHost};
use trl_sys::descriptors;

use crate::backend::Backend;

/// A connection of its own, since descriptors come over it.
#[derive(Debug)]
pub(super) struct Listeners {
    stream: UnixStream,
    inbox: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Listeners {
    pub(super) async fn of(backend: &dyn Backend, id: SessionId) -> io::Result<Listeners> {
        let mut stream = backend.connect_for_descriptors(id).await?;
        let mut hello = Vec::new();
        frame::put_json(&mut hello, &ToHost::Hello { protocol: HOST_PROTOCOL, create: None })?;
        frame::put_json(&mut hello, &ToHost::Proxy { req: 1 })?;
        stream.write_all(&hello).await?;
        Ok(Listeners { stream, inbox: Vec::new(), descriptors: VecDeque::new() })
    }

    /// The next one. Can be cancelled: nothing that has arrived is lost.
    pub(super) async fn next(&mut self) -> io::Result<TcpListener> {
        loop {
            while let Some(message) = self.message()? {
                match message {
                    FromHost::Listener { .. } => {
                        let socket = self.descriptors.pop_front().ok_or(io::ErrorKind::InvalidData)?;
                        let listener = std::net::TcpListener::from(socket);
                        listener.set_nonblocking(true)?;
                        return TcpListener::from_std(listener);
                    }
                    FromHost::Fault { fault, .. } => return Err(io::Error::other(fault.message)),
                    _ => {}
                }
            }
            self.stream.readable().await?;
            match self.receive() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 16 * 1024];
        let (inbox, passed, stream) = (&mut self.inbox, &mut self.descriptors, &self.stream);
        stream.try_io(Interest::READABLE, || {
            let (received, with_it) = descriptors::receive(stream, &mut bytes, RecvFlags::empty())?;
            passed.extend(with_it);
            inbox.extend_from_slice(&bytes[..received]);
            Ok(received)
        })
    }

    fn message(&mut self) -> io::Result<Option<FromHost>> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let Some((frame, used)) = frame::split(&self.inbox).map_err(|error| bad(error.0))? else {
            return Ok(None);
        };
        let Frame::Json(json) = frame else { return Err(bad("output where none was asked for")) };
        let message = serde_json::from_slice(json)?;
        self.inbox.drain(..used);
        Ok(Some(message))
    }
}
