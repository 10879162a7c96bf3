//! `soft_timeout_s` of `exec.run`: the reply comes when the command ends or when that time has
//! passed, whichever is first. The command itself continues.
//!
//! The command is started without a listener and its output read from the journal, so that
//! the reply is the same whether or not the command was in time.

use std::time::{Duration, Instant};

use trl_protocol::Fault;
use trl_protocol::exec::{Encoding, Outcome, RunReply, Stream};
use trl_protocol::wire::{FromHost, Mode, RunSpec, ToHost};

use super::run::{nobody_waits, reply};
use crate::caller::Caller;
use crate::output::Range;
use crate::session::{Session, unexpected};

pub(super) async fn run(
    session: &Session,
    run: Box<RunSpec>,
    encoding: Encoding,
    soft: Duration,
    caller: &Caller,
) -> Result<RunReply, Fault> {
    let (begun, most) = (Instant::now(), run.max_output);
    let run = Box::new(RunSpec { mode: Mode::Detached, ..*run });
    let answer = session.link.start(|req| ToHost::Run { req, run }).await?;
    let FromHost::Started { exec, .. } = answer.message else {
        return Err(unexpected(session.id, &answer.message));
    };
    let ended = tokio::select! {
        ended = session.link.call(|req| ToHost::Wait { req, exec }) => Some(ended?),
        () = tokio::time::sleep(soft) => None,
        () = caller.gone() => return Err(nobody_waits()),
    };
    let outcome = match ended.map(|answer| answer.message) {
        Some(FromHost::Done { outcome, .. }) => Some(*outcome),
        Some(other) => return Err(unexpected(session.id, &other)),
        None => None,
    };
    let mut kept = Kept::default();
    for stream in Stream::BOTH {
        kept.read(session, exec, stream, most).await?;
    }
    let still_running = outcome.is_none();
    let outcome = outcome.unwrap_or_else(|| so_far(session, begun, kept.totals));
    let outcome = Outcome { stdout_bytes: kept.totals[0], stderr_bytes: kept.totals[1], ..outcome };
    let told = reply(session.exec_id(exec), outcome, kept.dropped, &mut kept.ranges, encoding);
    Ok(RunReply { still_running, ..told })
}

/// Head and tail of both streams, as far as they fit into a reply.
#[derive(Default)]
struct Kept {
    ranges: Vec<Range>,
    totals: [u64; 2],
    dropped: [u64; 2],
}

impl Kept {
    async fn read(&mut self, session: &Session, exec: u64, stream: Stream, most: u64) -> Result<(), Fault> {
        let head = most - most / 2;
        let (next, total) = self.range(session, exec, stream, 0, head).await?;
        let tail = total.saturating_sub(most / 2).max(next);
        if tail < total {
            self.range(session, exec, stream, tail, total - tail).await?;
        }
        self.totals[stream.index()] = total;
        Ok(())
    }

    /// Returns where the range ends, and the length of the stream.
    async fn range(
        &mut self,
        session: &Session,
        exec: u64,
        stream: Stream,
        offset: u64,
        limit: u64,
    ) -> Result<(u64, u64), Fault> {
        let answer = session.link.call(|req| ToHost::Output { req, exec, stream, offset, limit }).await?;
        let FromHost::Range { next_offset, total, dropped, .. } = answer.message else {
            return Err(unexpected(session.id, &answer.message));
        };
        for range in answer.ranges {
            crate::output::append(&mut self.ranges, stream, range.offset, &range.bytes);
        }
        self.dropped[stream.index()] = dropped;
        Ok((next_offset, total))
    }
}

/// What is known of a command that still runs.
fn so_far(session: &Session, begun: Instant, totals: [u64; 2]) -> Outcome {
    let elapsed = begun.elapsed();
    Outcome {
        exit_code: None,
        signal: None,
        duration_ms: (elapsed.as_micros() as u64).div_ceil(1000).max(1),
        duration_us: elapsed.as_micros() as u64,
        timed_out: false,
        cancelled: false,
        stdout_bytes: totals[0],
        stderr_bytes: totals[1],
        working_dir: session.last_info().working_dir,
        ..Outcome::default()
    }
}
