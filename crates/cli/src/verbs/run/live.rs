//! A command while it runs: its events to a sink, our stdin and our Ctrl-C to it.

use std::sync::Arc;

use tokio::sync::watch;
use trl_client::{Client, Event, ExecStream, Step};
use trl_protocol::exec::{CancelParams, RunParams, Stream, StreamReply};
use trl_protocol::{ExecId, methods};

use super::interrupt;
use super::stdin::{self, Input};
use crate::failure::Result;
use crate::human;
use crate::output::{self, Streams};

/// Takes what a command says.
pub(crate) trait Sink {
    async fn take(&mut self, event: Event) -> Result<()>;
}

/// Straight through to our own stdout and stderr.
#[derive(Debug)]
pub(crate) struct Through(Streams);

impl Through {
    pub(crate) fn new() -> Through {
        Through(Streams::new())
    }
}

impl Sink for Through {
    async fn take(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Started { .. } | Event::Queued { .. } => {}
            Event::Output { stream, bytes, .. } => self.0.write(stream, &bytes).await?,
            Event::Gap { stream, from, to } => gap(stream, from, to),
            Event::Waiting { prompt, .. } => {
                output::note(&format!("the command waits for input: {}", prompt.trim()));
            }
        }
        Ok(())
    }
}

pub(crate) fn gap(stream: Stream, from: u64, to: u64) {
    let missing = human::bytes(to.saturating_sub(from));
    output::note(&format!("{missing} of {} are no longer kept and missing here", stream.name()));
}

/// Runs a command to its end. If the sink fails (its reader has gone), the command is cancelled.
pub(crate) async fn follow(
    client: &Arc<Client>,
    params: &RunParams,
    input: Option<Input>,
    sink: &mut impl Sink,
) -> Result<StreamReply> {
    let (known, exec) = watch::channel(None);
    let stream = client.stream(params).await?;
    let feeding = async {
        if let Some(input) = input {
            stdin::feed(client, exec.clone(), input).await;
        }
        std::future::pending::<StreamReply>().await
    };
    let done = tokio::select! {
        done = pump(stream, sink, known) => done,
        left = interrupt::listen(client, exec.clone()) => Err(left),
        never = feeding => Ok(never),
    };
    let unheard = done.as_ref().is_err_and(crate::failure::Failure::is_closed_pipe);
    if let (true, Some(exec)) = (unheard, *exec.borrow()) {
        // Its end is not waited for, nor does it matter if it came first.
        let params = CancelParams { exec_id: Some(exec.to_string()), session_id: None, signal: None };
        let _ = client.call::<methods::ExecCancel>(&params).await;
    }
    done
}

async fn pump(
    mut stream: ExecStream<'_>,
    sink: &mut impl Sink,
    known: watch::Sender<Option<ExecId>>,
) -> Result<StreamReply> {
    loop {
        match stream.next().await? {
            Step::Done(reply) => return Ok(reply),
            Step::Event(event) => {
                if let Event::Started { exec_id, .. } | Event::Queued { exec_id } = event {
                    known.send_replace(Some(exec_id));
                }
                sink.take(event).await?;
            }
        }
    }
}
