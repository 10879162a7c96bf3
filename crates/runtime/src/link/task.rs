//! The task that owns one connection to a host.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use trl_protocol::frame::{self, Frame};
use trl_protocol::session::SessionInfo;
use trl_protocol::wire::FromHost;

use super::{Answer, End, Greeted, Link, OUTGOING_HIGH, Shared, Waiter};
use crate::backend::Connection;
use crate::output;
use crate::session::Session;

/// Read at once: some of a host's data frames, and little enough to stay in the cache.
const READ_SIZE: usize = 256 * 1024;
/// Buffers that grew beyond this for one large message are given back.
const KEPT_BUFFER: usize = 2 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct LinkTask {
    link: Link,
    connection: Connection,
    inbox: Vec<u8>,
    /// Being written; callers meanwhile fill the shared buffer.
    sending: Vec<u8>,
    sent: usize,
    ended: Option<(String, Option<Box<SessionInfo>>)>,
}

impl LinkTask {
    /// For the connection of a host that has answered. [`LinkTask::run`] makes the link work.
    pub(crate) fn new(link: Link, greeted: Greeted) -> LinkTask {
        let Greeted { connection, surplus, .. } = greeted;
        LinkTask { link, connection, inbox: surplus, sending: Vec::new(), sent: 0, ended: None }
    }

    /// Moves bytes until the connection is over; those who wait hear of it by [`Link::release`].
    pub(crate) async fn run(mut self, session: &Session) -> End {
        if let Err(error) = self.serve().await {
            let session = self.link.0.session;
            tracing::warn!(%session, %error, "the connection to a host broke");
        }
        match self.ended.take() {
            Some((reason, last)) => {
                if let Some(last) = last {
                    session.note(&last);
                }
                End::Ended { reason }
            }
            None => End::Lost,
        }
    }

    async fn serve(&mut self) -> io::Result<()> {
        self.deliver()?;
        loop {
            self.take_outgoing();
            self.inbox.reserve(READ_SIZE);
            let Connection { reader, writer } = &mut self.connection;
            tokio::select! {
                // First, since it usually succeeds at once: nothing is registered then.
                biased;
                written = writer.write(&self.sending[self.sent..]), if self.sent < self.sending.len() => {
                    match written {
                        Ok(written) => self.sent += written,
                        // A host that ends may have said why: that is still to be read.
                        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                            self.sent = self.sending.len();
                        }
                        Err(error) => return Err(error),
                    }
                }
                read = reader.read_buf(&mut self.inbox) => match read? {
                    0 => return Ok(()),
                    _ => self.deliver()?,
                },
                () = self.link.0.outgoing.notified(), if self.sent == self.sending.len() => {}
            }
        }
    }

    /// Takes what callers have left, once everything taken before is written.
    fn take_outgoing(&mut self) {
        if self.sent < self.sending.len() {
            return;
        }
        self.sending.clear();
        self.sending.shrink_to(KEPT_BUFFER);
        self.sent = 0;
        let mut state = self.link.0.lock();
        let waited = state.outgoing.len() > OUTGOING_HIGH;
        std::mem::swap(&mut state.outgoing, &mut self.sending);
        drop(state);
        if waited {
            self.link.0.room.notify_waiters();
        }
    }

    /// Hands every whole frame in the inbox to the request it belongs to.
    fn deliver(&mut self) -> io::Result<()> {
        let mut used = 0;
        let shared = &self.link.0;
        loop {
            let bad = |error: frame::BadFrame| io::Error::new(io::ErrorKind::InvalidData, error.0);
            let Some((frame, length)) = frame::split(&self.inbox[used..]).map_err(bad)? else { break };
            used += length;
            match frame {
                Frame::Data { req, stream, offset, bytes } => match shared.lock().pending.get_mut(&req) {
                    Some(Waiter::Answer { ranges, .. }) => output::append(ranges, stream, offset, bytes),
                    Some(Waiter::Flow(queue)) => queue.output(stream, offset, bytes),
                    None => {}
                },
                Frame::Json(json) => match FromHost::read(json) {
                    Ok(FromHost::Ended { reason, session, .. }) => self.ended = Some((reason, session)),
                    Ok(message) => answer(shared, message),
                    // A newer host may say more than we know.
                    Err(error) => {
                        tracing::warn!(session = %shared.session, %error, "a host's message was not understood");
                    }
                },
            }
        }
        if used == self.inbox.len() {
            self.inbox.clear();
            self.inbox.shrink_to(KEPT_BUFFER);
        } else {
            self.inbox.drain(..used);
        }
        Ok(())
    }
}

fn answer(shared: &Shared, message: FromHost) {
    let req = message.req();
    let mut state = shared.lock();
    let is_last = match state.pending.get(&req) {
        None => return,
        Some(Waiter::Answer { at_start: true, .. }) => {
            message.is_final() || matches!(message, FromHost::Started { .. })
        }
        Some(Waiter::Answer { at_start: false, .. } | Waiter::Flow(_)) => message.is_final(),
    };
    if is_last {
        match state.pending.remove(&req) {
            Some(Waiter::Answer { to, ranges, .. }) => drop(to.send(Ok(Answer { message, ranges }))),
            Some(Waiter::Flow(queue)) => queue.message(message),
            None => {}
        }
    } else if let Some(Waiter::Flow(queue)) = state.pending.get(&req) {
        queue.message(message);
    }
}
