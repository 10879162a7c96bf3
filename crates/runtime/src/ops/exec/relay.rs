//! What `exec.stream` and `exec.attach` share: a host's flow, told as events.

use std::time::{Duration, Instant};

use trl_protocol::exec::{Encoding, Outcome, Stream, StreamReply};
use trl_protocol::wire::FromHost;
use trl_protocol::{Event, ExecId, Fault, SessionId};

use super::run::nobody_waits;
use crate::backend::LostSession;
use crate::caller::{Caller, EventSink, Gone};
use crate::link::{Flow, Item};
use crate::output::Range;
use crate::session::unexpected;
use crate::text::TextStream;

/// Read at once from the disk.
const CHUNK: u64 = 128 * 1024;

/// The events of one request, written as its encoding says.
pub(crate) struct Relay<'a> {
    session: SessionId,
    events: &'a mut dyn EventSink,
    encoding: Encoding,
    texts: [TextStream; 2],
    /// The command's number, once the host has said it.
    number: Option<u64>,
    /// That it runs was told.
    started: bool,
    begun: Instant,
    soft: Option<SoftTimeout>,
    /// How far each stream was sent.
    sent: [u64; 2],
}

/// When to answer although the command still runs.
struct SoftTimeout {
    at: Instant,
    working_dir: String,
}

impl<'a> Relay<'a> {
    pub(crate) fn new(session: SessionId, events: &'a mut dyn EventSink, encoding: Encoding) -> Relay<'a> {
        Relay {
            session,
            events,
            encoding,
            texts: Default::default(),
            number: None,
            started: false,
            begun: Instant::now(),
            soft: None,
            sent: [0, 0],
        }
    }

    /// Answers after this time even if the command still runs.
    pub(crate) fn until(mut self, soft: Duration, working_dir: String) -> Relay<'a> {
        self.soft = Some(SoftTimeout { at: self.begun + soft, working_dir });
        self
    }

    /// Tells everything that comes; returns with the outcome. If the client goes away,
    /// the host is told that nobody listens, and the command goes on.
    pub(crate) async fn run(mut self, mut flow: Flow, caller: &Caller) -> Result<StreamReply, Fault> {
        loop {
            let (soft, exec, working_dir) = match (&self.soft, self.number) {
                (Some(soft), Some(exec)) => (Some(soft.at), exec, soft.working_dir.clone()),
                _ => (None, 0, String::new()),
            };
            let item = tokio::select! {
                item = flow.next() => item,
                () = caller.gone() => return Err(nobody_waits()),
                () = passed(soft) => {
                    self.rest().await.map_err(|Gone| nobody_waits())?;
                    return Ok(self.so_far(exec, working_dir));
                }
            };
            let step = match item {
                Ok(Item::Output(range)) => {
                    let told = self.output(&range).await;
                    flow.accepted(range.bytes);
                    told.map(|()| None)
                }
                Ok(Item::Message(message)) => self.message(message).await?,
                Err(fault) => {
                    self.rest().await.map_err(|Gone| nobody_waits())?;
                    return Err(fault);
                }
            };
            match step {
                Ok(None) => {}
                Ok(Some(reply)) => return Ok(reply),
                Err(Gone) => return Err(nobody_waits()),
            }
        }
    }

    /// Tells what is kept of a command whose host is gone, from these offsets on.
    pub(crate) async fn read_out(
        mut self,
        lost: &LostSession,
        exec: u64,
        from: [u64; 2],
    ) -> Result<StreamReply, Fault> {
        let outcome = lost.outcome(exec)?;
        let told = self.events.send(Event::Started { exec_id: self.exec_id(exec), pid: None }).await;
        told.map_err(|Gone| nobody_waits())?;
        let mut dropped = [0; 2];
        for stream in Stream::BOTH {
            let (total, missing) = lost.sizes(exec, stream)?;
            dropped[stream.index()] = missing;
            let mut at = from[stream.index()].min(total);
            while at < total {
                let range = lost.range(exec, stream, at, CHUNK)?;
                if range.offset > at {
                    self.gap(stream, at, range.offset).await.map_err(|Gone| nobody_waits())?;
                }
                at = range.offset + range.bytes.len() as u64;
                if range.bytes.is_empty() {
                    break;
                }
                self.output(&range).await.map_err(|Gone| nobody_waits())?;
            }
        }
        self.rest().await.map_err(|Gone| nobody_waits())?;
        Ok(self.reply(exec, outcome, dropped))
    }

    /// Tells what another daemon has told.
    pub(crate) async fn tell(&mut self, event: trl_client::Event) -> Result<(), Gone> {
        use trl_client::Event as Told;
        match event {
            Told::Output { stream, offset, bytes } => self.output(&Range { stream, offset, bytes }).await,
            Told::Gap { stream, from, to } => self.gap(stream, from, to).await,
            Told::Started { .. } | Told::Queued { .. } | Told::Waiting { .. } => {
                self.events.send(event.on_wire()).await
            }
        }
    }

    /// The reply of another daemon, with what was made of the bytes here.
    pub(crate) async fn over(mut self, reply: StreamReply) -> Result<StreamReply, Gone> {
        self.rest().await?;
        let [stdout_lossy, stderr_lossy] = [self.texts[0].lossy, self.texts[1].lossy];
        Ok(StreamReply { stdout_lossy, stderr_lossy, ..reply })
    }

    /// What is known of a command that still runs.
    fn so_far(&self, exec: u64, working_dir: String) -> StreamReply {
        let elapsed = self.begun.elapsed();
        let outcome = Outcome {
            exit_code: None,
            signal: None,
            duration_ms: (elapsed.as_micros() as u64).div_ceil(1000).max(1),
            duration_us: elapsed.as_micros() as u64,
            timed_out: false,
            cancelled: false,
            stdout_bytes: self.sent[0],
            stderr_bytes: self.sent[1],
            working_dir,
            ..Outcome::default()
        };
        StreamReply { still_running: true, ..self.reply(exec, outcome, [0, 0]) }
    }

    fn exec_id(&self, number: u64) -> ExecId {
        ExecId { session: self.session, number }
    }

    async fn message(&mut self, message: FromHost) -> Result<Result<Option<StreamReply>, Gone>, Fault> {
        let told = match message {
            FromHost::Started { exec, pid, queued, .. } => {
                let exec_id = self.exec_id(exec);
                self.number = Some(exec);
                match queued {
                    true => self.events.send(Event::Queued { exec_id }).await,
                    false if std::mem::replace(&mut self.started, true) => Ok(()),
                    false => self.events.send(Event::Started { exec_id, pid }).await,
                }
            }
            FromHost::Gap { stream, from, to, .. } => self.gap(stream, from, to).await,
            FromHost::Waiting { exec, prompt, .. } => {
                let exec_id = self.exec_id(exec);
                self.events.send(Event::Waiting { exec_id, prompt: &prompt }).await
            }
            FromHost::Done { exec, outcome, dropped, .. } => {
                let told = self.rest().await;
                return Ok(told.map(|()| Some(self.reply(exec, *outcome, dropped))));
            }
            FromHost::Fault { fault, .. } => return Err(fault),
            other => return Err(unexpected(self.session, &other)),
        };
        Ok(told.map(|()| None))
    }

    async fn output(&mut self, range: &Range) -> Result<(), Gone> {
        let Range { stream, offset, bytes } = range;
        self.sent[stream.index()] = offset + bytes.len() as u64;
        if self.encoding == Encoding::Base64 {
            return self.events.send(Event::Bytes { stream: *stream, offset: *offset, bytes }).await;
        }
        for (offset, text) in self.texts[stream.index()].push(*offset, bytes).into_iter().flatten() {
            self.events.send(Event::Text { stream: *stream, offset, text: &text }).await?;
        }
        Ok(())
    }

    async fn gap(&mut self, stream: Stream, from: u64, to: u64) -> Result<(), Gone> {
        self.held(stream).await?;
        self.events.send(Event::Gap { stream, from, to }).await
    }

    /// What was held back because it might be the beginning of a character.
    pub(crate) async fn rest(&mut self) -> Result<(), Gone> {
        for stream in Stream::BOTH {
            self.held(stream).await?;
        }
        Ok(())
    }

    async fn held(&mut self, stream: Stream) -> Result<(), Gone> {
        match self.texts[stream.index()].finish() {
            Some((offset, text)) => self.events.send(Event::Text { stream, offset, text: &text }).await,
            None => Ok(()),
        }
    }

    fn reply(&self, exec: u64, outcome: Outcome, dropped: [u64; 2]) -> StreamReply {
        StreamReply {
            exec_id: self.exec_id(exec),
            outcome,
            stdout_truncated: dropped[0] > 0,
            stderr_truncated: dropped[1] > 0,
            still_running: false,
            stdout_lossy: self.texts[0].lossy,
            stderr_lossy: self.texts[1].lossy,
        }
    }
}

/// Resolves at this moment; never without one.
async fn passed(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
