//! What a host sends for one `exec.stream` or `exec.attach`, waiting for its client.
//!
//! The host never runs further ahead than the credit it was granted, so the queue is
//! bounded in bytes; small pieces are joined, so it is bounded in entries too. Credit
//! is granted as the client takes the output: a slow one holds up only this stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use trl_protocol::Fault;
use trl_protocol::exec::Stream;
use trl_protocol::wire::{FromHost, INITIAL_CREDIT, ToHost};

use super::{End, PendingRequest};
use crate::output::Range;

/// Pieces are joined up to this size: large enough for large writes to the client,
/// small enough that the first bytes do not wait for the last.
const JOINED: usize = 128 * 1024;
/// Buffers kept for reuse: more are under way only while the client is slow.
const SPARE: usize = 4;
/// Entries after which the order between the two streams gives way to the bound.
const MAX_ORDERED: usize = 1024;
/// Credit is given back in steps, not for every line.
const CREDIT_STEP: u64 = INITIAL_CREDIT / 8;

/// What comes out of a flow.
#[derive(Debug)]
pub(crate) enum Item {
    Output(Range),
    Message(FromHost),
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<BufferedOutput>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct BufferedOutput {
    items: VecDeque<Item>,
    /// Buffers that the client is done with: fresh memory costs more than the copy into it.
    spare: Vec<Vec<u8>>,
    end: Option<End>,
}

impl BufferedOutput {
    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, BufferedOutput> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn output(&self, stream: Stream, offset: u64, bytes: &[u8]) {
        let mut waiting = self.lock();
        let reach = if waiting.items.len() < MAX_ORDERED { 1 } else { MAX_ORDERED };
        let joined = waiting.items.iter_mut().rev().take(reach).find_map(|item| match item {
            Item::Output(range) if range.stream == stream => Some(range),
            Item::Output(_) | Item::Message(_) => None,
        });
        match joined {
            Some(range)
                if range.offset + range.bytes.len() as u64 == offset
                    && range.bytes.len() + bytes.len() <= JOINED =>
            {
                range.bytes.extend_from_slice(bytes);
            }
            _ => {
                let mut buffer = waiting.buffer();
                buffer.extend_from_slice(bytes);
                waiting.items.push_back(Item::Output(Range { stream, offset, bytes: buffer }));
            }
        }
        self.arrived.notify_one();
    }

    pub(super) fn message(&self, message: FromHost) {
        self.lock().items.push_back(Item::Message(message));
        self.arrived.notify_one();
    }

    pub(super) fn end(&self, end: End) {
        self.lock().end = Some(end);
        self.arrived.notify_one();
    }
}

/// The client's side of a flow; dropped, the host is told that nobody listens.
#[derive(Debug)]
pub(crate) struct Flow {
    pending: PendingRequest,
    queue: Arc<Queue>,
    taken: u64,
}

impl Flow {
    pub(super) fn new(pending: PendingRequest, queue: Arc<Queue>) -> Flow {
        Flow { pending, queue, taken: 0 }
    }

    /// The next piece of output or message. What arrived before the end comes before it.
    pub(crate) async fn next(&mut self) -> Result<Item, Fault> {
        loop {
            {
                let mut waiting = self.queue.lock();
                if let Some(item) = waiting.items.pop_front() {
                    return Ok(item);
                }
                if let Some(end) = &waiting.end {
                    return Err(self.pending.link.over(end));
                }
            }
            self.queue.arrived.notified().await;
        }
    }

    /// These bytes of output were taken by the client.
    pub(crate) fn accepted(&mut self, mut bytes: Vec<u8>) {
        self.taken += bytes.len() as u64;
        let mut waiting = self.queue.lock();
        if waiting.spare.len() < SPARE {
            bytes.clear();
            waiting.spare.push(bytes);
        }
        drop(waiting);
        if self.taken < CREDIT_STEP {
            return;
        }
        let shared = &self.pending.link.0;
        let mut state = shared.lock();
        if state.end.is_none() && state.pending.contains_key(&self.pending.req) {
            shared.say(&mut state, &ToHost::Credit { req: self.pending.req, bytes: self.taken });
        }
        self.taken = 0;
    }
}
