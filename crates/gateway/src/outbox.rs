//! What waits to be written to one client.
//!
//! Everything for a client goes through one buffer, a whole line at a time, and one
//! task writes it out in large pieces. Whoever has something to say waits, in turn,
//! while the buffer is full: a client that does not read holds up its own requests and
//! costs a bounded amount of memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Notify;
use trl_protocol::Event;
use trl_runtime::{BoxFuture, EventSink, Gone};

use crate::written;

/// Above this, lines have to wait.
const HIGH: usize = 256 * 1024;
/// Buffers that grew beyond this for one long line are given back.
const KEPT_BUFFER: usize = 2 * 1024 * 1024;

#[derive(Debug, Default)]
struct State {
    buffer: Vec<u8>,
    /// Nothing more will come.
    closed: bool,
    /// Nothing more can be written.
    dead: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    filled: Notify,
    room: Notify,
    turn: tokio::sync::Mutex<()>,
}

/// Where lines for one client are put. Clones are handles to the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outbox(Arc<Shared>);

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `write` append whole lines once there is room.
    pub(crate) async fn append(&self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Gone> {
        let _turn = self.0.turn.lock().await;
        loop {
            // Made before the look, so that room made in between is not missed.
            let room = self.0.room.notified();
            {
                let mut state = self.lock();
                if state.dead {
                    return Err(Gone);
                }
                if state.buffer.len() < HIGH {
                    write(&mut state.buffer);
                    self.0.filled.notify_one();
                    return Ok(());
                }
            }
            room.await;
        }
    }

    /// Nothing more will come: what is there is written, then the writer ends.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.0.filled.notify_one();
    }

    /// Writes until the outbox is closed and empty, or the client is gone.
    pub(crate) async fn write_to(&self, mut writer: impl AsyncWrite + Unpin) -> Result<(), Gone> {
        let mut sending = Vec::new();
        loop {
            {
                let mut state = self.lock();
                if state.buffer.is_empty() && state.closed {
                    break;
                }
                std::mem::swap(&mut state.buffer, &mut sending);
            }
            if sending.is_empty() {
                self.0.filled.notified().await;
                continue;
            }
            self.0.room.notify_one();
            let written = match writer.write_all(&sending).await {
                Ok(()) => writer.flush().await,
                Err(error) => Err(error),
            };
            if let Err(error) = written {
                tracing::debug!(%error, "a client does not read any more");
                let mut state = self.lock();
                state.dead = true;
                state.buffer = Vec::new();
                drop(state);
                self.0.room.notify_one();
                return Err(Gone);
            }
            sending.clear();
            sending.shrink_to(KEPT_BUFFER);
        }
        // Half-closed clients wait for the end of the stream.
        writer.shutdown().await.map_err(|_| Gone)
    }
}

/// The events of one request.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) outbox: Outbox,
    /// The request's id as JSON.
    pub(crate) id: String,
}

impl EventSink for Events {
    fn send<'a>(&'a mut self, event: Event<'a>) -> BoxFuture<'a, Result<(), Gone>> {
        Box::pin(
            async move { self.outbox.append(|buffer| written::put_event(buffer, &self.id, &event)).await },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn a_client_that_does_not_read_makes_only_its_writers_wait() {
        let outbox = Outbox::default();
        let (writer, mut reader) = tokio::io::duplex(1024);
        let writing = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.write_to(writer).await }
        });
        let filling = tokio::spawn({
            let outbox = outbox.clone();
            async move {
                for _ in 0..100 {
                    outbox.append(|buffer| buffer.extend_from_slice(&[b'x'; 100_000])).await.unwrap();
                }
                outbox.close();
            }
        });
        tokio::time::timeout(Duration::from_millis(50), async {
            while !filling.is_finished() {
                tokio::task::yield_now().await
            }
        })
        .await
        .unwrap_err();
        assert!(outbox.lock().buffer.len() <= HIGH + 100_000);
        let mut all = Vec::new();
        reader.read_to_end(&mut all).await.unwrap();
        assert_eq!(all.len(), 10_000_000);
        writing.await.unwrap().unwrap();
        filling.await.unwrap();
    }

    #[tokio::test]
    async fn nobody_waits_for_a_client_that_is_gone() {
        let outbox = Outbox::default();
        let (writer, reader) = tokio::io::duplex(16);
        drop(reader);
        outbox.append(|buffer| buffer.extend_from_slice(&vec![b'x'; HIGH])).await.unwrap();
        let waiting = tokio::spawn({
            let outbox = outbox.clone();
            async move { outbox.append(|buffer| buffer.push(b'y')).await }
        });
        assert_eq!(outbox.write_to(writer).await, Err(Gone));
        // Its turn may have come before or after; either way it does not wait for ever.
        tokio::time::timeout(Duration::from_secs(5), waiting).await.unwrap().unwrap().ok();
        assert_eq!(outbox.append(|_| ()).await, Err(Gone));
    }
}
