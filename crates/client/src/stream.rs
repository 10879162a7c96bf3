//! A command heard live, whole across cut connections and restarted daemons.
//!
//! The stream remembers how far it has heard each output. When its connection ends
//! before the command's result, it goes on with `exec.attach` from there: no byte
//! is missed, none comes twice. A command of which the daemon has not said that it
//! exists is sent again under the same `run_id`, so that it runs once. A soft timeout, which `exec.attach`
//! does not know, is kept here once the connection was cut.

use std::time::{Duration, Instant};

use trl_protocol::exec::{AttachParams, Encoding, Outcome, RunParams, StreamReply};
use trl_protocol::{Code, ExecId, Method, methods};

use crate::client::Client;
use crate::connection::{Connection, Ended};
use crate::error::{Error, Result};
use crate::message::{self, Event, Incoming};
use crate::patience::Patience;

/// What comes next of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Event(Event),
    /// The last: how it ended.
    Done(StreamReply),
}

#[derive(Debug)]
pub struct ExecStream<'c> {
    client: &'c Client,
    /// Given back to the client with the end of the stream.
    connection: Option<Connection>,
    asked: SentRequest,
    exec_id: Option<ExecId>,
    /// That it runs was told.
    started: bool,
    heard: [u64; 2],
    begun: Instant,
    /// When to answer although the command still runs.
    soft: Option<Instant>,
    patience: Patience,
}

/// The request that the connection carries.
#[derive(Debug)]
struct SentRequest {
    method: &'static str,
    id: String,
    line: Vec<u8>,
}

impl SentRequest {
    fn new<M: Method>(client: &Client, params: &M::Params) -> Result<SentRequest> {
        let id = client.next_id();
        let line = message::request(&id, M::NAME, params)
            .map_err(|error| Error::Unreadable { method: M::NAME, problem: error.to_string() })?;
        Ok(SentRequest { method: M::NAME, id, line })
    }

    fn lost(&self) -> Error {
        Error::Lost { method: self.method }
    }

    fn unreadable(&self, problem: impl ToString) -> Error {
        Error::Unreadable { method: self.method, problem: problem.to_string() }
    }

    async fn send(&self, client: &Client, patience: &mut Patience) -> Result<Connection> {
        loop {
            let mut connection = client.take(patience.has_lost_one()).await?;
            patience.sent();
            if connection.send(&self.line).await.is_ok() {
                return Ok(connection);
            }
            if !patience.ended(Ended::Unread) {
                return Err(self.lost());
            }
        }
    }
}

enum Read {
    Step(Step),
    Skip,
    Cut(Ended),
    /// Cut by a daemon that says goodbye and still holds its socket.
    Leaving,
}

impl<'c> ExecStream<'c> {
    pub(crate) async fn run(client: &'c Client, params: &RunParams) -> Result<ExecStream<'c>> {
        let run_id = params.run_id.clone().or_else(|| Some(client.next_id()));
        let params = RunParams { encoding: Encoding::Base64, run_id, ..params.clone() };
        let asked = SentRequest::new::<methods::ExecStream>(client, &params)?;
        let stream = Self::begin(client, asked, None, [0, 0]).await?;
        // One that is no time is refused by the daemon.
        let soft = params.soft_timeout_s.and_then(|soft| Duration::try_from_secs_f64(soft).ok());
        Ok(ExecStream { soft: soft.and_then(|soft| stream.begun.checked_add(soft)), ..stream })
    }

    pub(crate) async fn attach(client: &'c Client, params: &AttachParams) -> Result<ExecStream<'c>> {
        let exec_id = params.exec_id.parse().ok();
        let heard = [params.stdout_offset, params.stderr_offset];
        let params = AttachParams { encoding: Encoding::Base64, ..params.clone() };
        Self::begin(client, SentRequest::new::<methods::ExecAttach>(client, &params)?, exec_id, heard).await
    }

    async fn begin(
        client: &'c Client,
        asked: SentRequest,
        exec_id: Option<ExecId>,
        heard: [u64; 2],
    ) -> Result<ExecStream<'c>> {
        let (mut patience, begun) = (Patience::new(), Instant::now());
        let connection = Some(asked.send(client, &mut patience).await?);
        let started = exec_id.is_some();
        Ok(ExecStream { client, connection, asked, exec_id, started, heard, begun, soft: None, patience })
    }

    /// The command's id, once the daemon has told it.
    pub fn exec_id(&self) -> Option<ExecId> {
        self.exec_id
    }

    /// What comes next; nothing comes after [`Step::Done`] or an error.
    ///
    /// Not cancel-safe: a call that is dropped half-way may lose a line.
    pub async fn next(&mut self) -> Result<Step> {
        loop {
            let read = match self.own_deadline() {
                None => self.read().await?,
                Some((at, exec_id)) => tokio::select! {
                    read = self.read() => read?,
                    () = tokio::time::sleep_until(at.into()) => return Ok(self.so_far(exec_id)),
                },
            };
            let ended = match read {
                Read::Step(step) => {
                    self.patience.renew();
                    if let Step::Done(_) = step
                        && let Some(connection) = self.connection.take()
                    {
                        self.client.keep(connection);
                    }
                    return Ok(step);
                }
                Read::Skip => continue,
                Read::Cut(ended) => ended,
                Read::Leaving => {
                    // Its socket still accepts; the end of this connection is the sign that it is gone.
                    if let Some(connection) = &mut self.connection {
                        while connection.next_line().await.is_ok() {}
                    }
                    Ended::Closed
                }
            };
            self.connection = None;
            match self.own_deadline() {
                None => self.resume(ended).await?,
                Some((at, exec_id)) => tokio::select! {
                    resumed = self.resume(ended) => resumed?,
                    () = tokio::time::sleep_until(at.into()) => return Ok(self.so_far(exec_id)),
                },
            }
        }
    }

    /// The soft timeout of a command whose request is not the one that the connection carries: nobody else keeps it.
    fn own_deadline(&self) -> Option<(Instant, ExecId)> {
        let is_carried = self.connection.is_some() && self.asked.method == methods::ExecStream::NAME;
        self.soft.zip(self.exec_id).filter(|_| !is_carried)
    }

    /// What is known of a command that still runs. Where its shell is, the daemon would have told.
    fn so_far(&mut self, exec_id: ExecId) -> Step {
        self.connection = None;
        let elapsed = self.begun.elapsed();
        Step::Done(StreamReply {
            exec_id,
            outcome: Outcome {
                duration_ms: (elapsed.as_millis() as u64).max(1),
                duration_us: elapsed.as_micros() as u64,
                stdout_bytes: self.heard[0],
                stderr_bytes: self.heard[1],
                ..Outcome::default()
            },
            stdout_truncated: false,
            stderr_truncated: false,
            still_running: true,
            stdout_lossy: false,
            stderr_lossy: false,
        })
    }

    async fn read(&mut self) -> Result<Read> {
        let asked = &self.asked;
        let Some(connection) = &mut self.connection else { return Err(asked.lost()) };
        let line = match connection.next_line().await {
            Ok(line) => line,
            Err(ended) => return Ok(Read::Cut(ended)),
        };
        match message::read(line, &asked.id).map_err(|problem| asked.unreadable(problem))? {
            None => Ok(Read::Skip),
            Some(Incoming::Event { name, data }) => {
                let event = message::event(&name, data).map_err(|problem| asked.unreadable(problem))?;
                Ok(event.and_then(|event| self.take(event)).map_or(Read::Skip, Read::Step))
            }
            Some(Incoming::Done(data)) => {
                let reply = serde_json::from_str(data).map_err(|error| asked.unreadable(error))?;
                Ok(Read::Step(Step::Done(reply)))
            }
            Some(Incoming::Failed(fault)) if fault.code == Code::ShuttingDown && self.client.may_return() => {
                Ok(Read::Leaving)
            }
            Some(Incoming::Failed(fault)) => Err(Error::Fault(fault)),
        }
    }

    /// Notes how far has been heard; `None` for what came before.
    fn take(&mut self, event: Event) -> Option<Step> {
        let event = match event {
            Event::Started { exec_id, pid } => {
                self.exec_id = Some(exec_id);
                if std::mem::replace(&mut self.started, true) {
                    return None;
                }
                Event::Started { exec_id, pid }
            }
            Event::Queued { exec_id } => {
                self.exec_id = Some(exec_id);
                Event::Queued { exec_id }
            }
            Event::Output { stream, offset, mut bytes } => {
                let heard = &mut self.heard[stream.index()];
                let old = usize::try_from(heard.saturating_sub(offset)).unwrap_or(usize::MAX);
                if old >= bytes.len() {
                    return None;
                }
                bytes.drain(..old);
                let offset = offset + old as u64;
                *heard = offset + bytes.len() as u64;
                Event::Output { stream, offset, bytes }
            }
            Event::Gap { stream, from, to } => {
                let heard = &mut self.heard[stream.index()];
                *heard = to.max(*heard);
                Event::Gap { stream, from, to }
            }
            waiting @ Event::Waiting { .. } => waiting,
        };
        Some(Step::Event(event))
    }

    /// Goes on over a new connection, with a new daemon if the old one is gone.
    async fn resume(&mut self, ended: Ended) -> Result<()> {
        if !self.patience.ended(ended) {
            return Err(self.asked.lost());
        }
        if let Some(exec_id) = self.exec_id {
            tracing::debug!(%exec_id, "the connection was cut; going on from {:?}", self.heard);
            let params = AttachParams {
                exec_id: exec_id.to_string(),
                stdout_offset: self.heard[0],
                stderr_offset: self.heard[1],
                encoding: Encoding::Base64,
            };
            self.asked = SentRequest::new::<methods::ExecAttach>(self.client, &params)?;
        }
        // Else it is sent again under the same `run_id`: if it has begun, it is not begun again.
        self.connection = Some(self.asked.send(self.client, &mut self.patience).await?);
        Ok(())
    }
}
