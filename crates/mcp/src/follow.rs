//! Hears a command until it is over, asks for input, or has had its time.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use trl_client::{Client, Event, ExecStream, Step};
use trl_protocol::exec::CancelParams;
use trl_protocol::{Code, ExecId, Fault};

use crate::report::Progress;
use crate::{fault, plain, progress};
use trl_client::HeadTail;

/// How much is heard, and how long.
#[derive(Debug)]
pub(crate) struct Until {
    /// Then the command goes on without us.
    pub(crate) soft: Duration,
    /// Quiet for so long after it said something also counts: it answered.
    pub(crate) quiet: Option<Duration>,
    /// A client's cancellation ends the command.
    pub(crate) ends_command: bool,
}

#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) exec_id: ExecId,
    pub(crate) progress: Progress,
    pub(crate) streams: [HeadTail; 2],
}

/// Something that can end the listening.
enum FollowEvent {
    Step(Step),
    Tick,
    Time,
    Cancelled,
}

/// `started` is told the command's id as soon as it has one.
pub(crate) async fn follow(
    client: &Client,
    mut stream: ExecStream<'_>,
    mut streams: [HeadTail; 2],
    until: Until,
    (teller, ct): (&progress::Teller, &CancellationToken),
    mut started: impl FnMut(ExecId),
) -> Result<Heard, Fault> {
    let soft = Instant::now() + until.soft;
    let mut deadline = soft;
    let mut ticks = tokio::time::interval(progress::EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks.reset();
    let mut waiting = None;
    if let Some(exec_id) = stream.exec_id() {
        started(exec_id);
    }
    'steps: loop {
        let known = stream.exec_id();
        // One call of `next` across ticks: it must not be dropped half-way and made anew.
        let mut next = std::pin::pin!(stream.next());
        let step = loop {
            let event = tokio::select! {
                biased;
                () = ct.cancelled(), if known.is_some() => FollowEvent::Cancelled,
                step = &mut next => FollowEvent::Step(step.map_err(fault::of)?),
                () = tokio::time::sleep_until(deadline), if known.is_some() => FollowEvent::Time,
                _ = ticks.tick(), if teller.wanted() => FollowEvent::Tick,
            };
            match (event, known) {
                (FollowEvent::Step(step), _) => break step,
                (FollowEvent::Tick, _) => teller.tell(last_line(&streams)).await,
                (FollowEvent::Cancelled, Some(exec_id)) => {
                    return Err(cancelled(client, exec_id, until.ends_command).await);
                }
                (FollowEvent::Time | FollowEvent::Cancelled, _) => break 'steps,
            }
        };
        match step {
            Step::Done(reply) => {
                let progress = Progress::Finished(Box::new(reply.outcome));
                return Ok(Heard { exec_id: reply.exec_id, progress, streams });
            }
            Step::Event(Event::Started { exec_id, .. } | Event::Queued { exec_id }) => started(exec_id),
            Step::Event(Event::Output { stream, offset, bytes }) => {
                streams[stream.index()].push(offset, &bytes);
                waiting = None;
                if let Some(quiet) = until.quiet {
                    deadline = soft.min(Instant::now() + quiet);
                }
            }
            Step::Event(Event::Gap { .. }) => {}
            Step::Event(Event::Waiting { prompt, .. }) => {
                waiting = Some(prompt);
                break;
            }
        }
    }
    let Some(exec_id) = stream.exec_id() else {
        return Err(Fault::internal("the daemon did not say what it started"));
    };
    let progress = waiting.map_or(Progress::Running, |prompt| Progress::Waiting { prompt });
    Ok(Heard { exec_id, progress, streams })
}

fn last_line(streams: &[HeadTail; 2]) -> Option<String> {
    let newest = streams.iter().find(|stream| !stream.is_empty())?;
    let text = plain::text(&newest.recent());
    plain::last_line(&text).map(|line| line.chars().take(200).collect())
}

/// Nobody hears this answer any more; the command is what counts.
async fn cancelled(client: &Client, exec_id: ExecId, ends_command: bool) -> Fault {
    if ends_command {
        let params = CancelParams { session_id: None, exec_id: Some(exec_id.to_string()), signal: None };
        if let Err(error) = client.exec_cancel(&params).await {
            tracing::warn!(%exec_id, %error, "a cancelled call's command may still run");
        }
    }
    Fault::new(Code::CommandFailed, format!("{exec_id} was cancelled by the client"))
}
