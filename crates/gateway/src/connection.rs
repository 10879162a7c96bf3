//! The line protocol over any pair of byte streams.
//!
//! Requests run concurrently, each in its own task; the reader only reads, and stops
//! reading while too much is under way. A client may close its sending side and still
//! gets every answer; one that is gone altogether is given up, but what it asked for
//! runs to its end.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use trl_protocol::{Code, Fault, Reply, Request, limits};
use trl_runtime::{Caller, Connected, EventSink, Gone, Presence, Runtime};

use crate::http::Grant;
use crate::line_reader::{LineReader, NextLine};
use crate::outbox::{Events, Outbox};
use crate::request_line::{self, Call, Refusal};
use crate::written;

/// Requests of one connection that may be under way; a long line counts as several.
const IN_FLIGHT: u32 = 1024;
/// Bytes of a line that count as one more request.
const WEIGHT_BYTES: usize = 64 * 1024;
/// How long the rest of a line that is too long is read, so that its sender gets to the answer.
const DRAIN: Duration = Duration::from_secs(5);

/// What the daemon wants of its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Open,
    /// Read no more requests, answer those under way.
    Draining,
    /// Answer at once what is still under way.
    Closing,
}

/// One client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    runtime: Runtime,
    phase: watch::Receiver<Phase>,
    outbox: Outbox,
    presence: Arc<Presence>,
    in_flight: Arc<Semaphore>,
    counted: Connected,
    /// What this client may do; without one it may do everything.
    grant: Option<Grant>,
}

impl Connection {
    pub(crate) fn new(runtime: Runtime, phase: watch::Receiver<Phase>) -> Connection {
        let counted = runtime.connected();
        Connection {
            runtime,
            phase,
            outbox: Outbox::default(),
            presence: Arc::new(Presence::on(counted.id())),
            counted,
            in_flight: Arc::new(Semaphore::new(IN_FLIGHT as usize)),
            grant: None,
        }
    }

    pub(crate) fn with_grant(self, grant: Grant) -> Connection {
        Connection { grant: Some(grant), ..self }
    }

    /// Serves until the client has closed its side and has all its answers, or is gone.
    /// `hung_up` resolves when the client can hear nothing more; it is asked only after
    /// the end of the client's requests.
    pub(crate) async fn serve<R, W>(self, reader: R, writer: W, hung_up: impl Future<Output = ()>)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let outbox = self.outbox.clone();
        let presence = Arc::clone(&self.presence);
        let mut writing = tokio::spawn(async move {
            if let Err(Gone) = outbox.write_to(writer).await {
                presence.leave();
            }
        });
        tokio::select! {
            () = self.read_all(reader) => {}
            _ = &mut writing => {}
        }
        tokio::select! {
            _ = self.in_flight.acquire_many(IN_FLIGHT) => {}
            () = hung_up => {}
        }
        self.presence.leave();
        self.counted.over().await;
        // At most commands that nobody waits for any more were under way; their tasks end by themselves.
        self.outbox.close();
        if !writing.is_finished() && writing.await.is_err() {
            tracing::error!("the writer of a connection failed");
        }
    }

    async fn read_all(&self, reader: impl AsyncRead + Unpin) {
        let mut phase = self.phase.clone();
        let mut lines = LineReader::new(reader, limits::MAX_LINE_BYTES);
        loop {
            let next = tokio::select! {
                next = lines.next() => next,
                _ = phase.wait_for(|phase| *phase >= Phase::Draining) => return,
            };
            match next {
                Ok(NextLine::Line(line)) => {
                    let weight = 1 + (line.len() / WEIGHT_BYTES) as u32;
                    let Ok(permit) = Arc::clone(&self.in_flight).acquire_many_owned(weight).await else {
                        return;
                    };
                    if let Err(Gone) = self.take(line, permit).await {
                        return;
                    }
                }
                Ok(NextLine::TooLong) => {
                    if self.answer("null", &Err(too_long())).await.is_ok() {
                        // What cannot be read in time is not worth waiting for.
                        let _ = tokio::time::timeout(DRAIN, lines.drain()).await;
                    }
                    return;
                }
                Ok(NextLine::End) => return,
                Err(error) => {
                    tracing::debug!(%error, "a connection broke");
                    return;
                }
            }
        }
    }

    /// Starts what a line asks for, or says why not.
    async fn take(&self, line: &[u8], permit: OwnedSemaphorePermit) -> Result<(), Gone> {
        match request_line::read(line) {
            Ok(call) => match self.grant.as_ref().map_or(Ok(()), |grant| grant.allows(&call.request)) {
                Ok(()) => {
                    tokio::spawn(self.start(call, permit));
                    Ok(())
                }
                Err(fault) => self.answer(&call.id, &Err(fault)).await,
            },
            Err(Refusal { id, fault }) => {
                tracing::debug!(code = %fault.code, bytes = line.len(), "a line was refused");
                self.answer(&id, &Err(fault)).await
            }
        }
    }

    fn start(&self, call: Call, permit: OwnedSemaphorePermit) -> impl Future<Output = ()> + Send + use<> {
        let runtime = self.runtime.clone();
        let outbox = self.outbox.clone();
        let key = self.grant.as_ref().and_then(|grant| grant.key.clone());
        let caller = self.presence.caller(call.id_text).under(key);
        let phase = self.phase.clone();
        async move {
            let mut events = Events { outbox: outbox.clone(), id: call.id };
            let result = perform(&runtime, call.request, &caller, &mut events, phase).await;
            // A client that is gone needs no answer.
            let _ = outbox.append(|buffer| written::put_response(buffer, &events.id, &result)).await;
            drop(permit);
        }
    }

    async fn answer(&self, id: &str, result: &Result<Reply, Fault>) -> Result<(), Gone> {
        self.outbox.append(|buffer| written::put_response(buffer, id, result)).await
    }
}

/// Does what was asked; what is still under way when the daemon ends is answered so.
pub(crate) async fn perform(
    runtime: &Runtime,
    request: Request,
    caller: &Caller,
    events: &mut dyn EventSink,
    mut phase: watch::Receiver<Phase>,
) -> Result<Reply, Fault> {
    tokio::select! {
        result = runtime.dispatch(request, caller, events) => result,
        _ = phase.wait_for(|phase| *phase == Phase::Closing) => Err(closing()),
    }
}

fn too_long() -> Fault {
    Fault::new(
        Code::PayloadTooLarge,
        format!("the line is longer than {} bytes; the connection is closed", limits::MAX_LINE_BYTES),
    )
}

fn closing() -> Fault {
    Fault::new(
        Code::ShuttingDown,
        "the daemon ends; a command in a kept session continues, and exec.attach finds it again",
    )
}
