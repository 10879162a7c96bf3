//! `exec.run`: a command in the living shell, with its result in one piece.
//!
//! If the client goes away the command goes on; its result stays with `exec.info`
//! and `exec.output`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trl_protocol::exec::{Encoding, Outcome, RunParams, RunReply, Stream};
use trl_protocol::wire::{FromHost, Mode, ToHost};
use trl_protocol::{Code, ExecId, Fault};

use super::place::{After, CommandSession};
use super::{soft, spec};
use crate::caller::Caller;
use crate::link::Answer;
use crate::output::{self, Source};
use crate::runtime::Inner;
use crate::seconds;
use crate::session::{Session, unexpected};

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: RunParams,
    caller: &Caller,
) -> Result<RunReply, Fault> {
    let place = CommandSession::of(runtime, &params, caller).await?;
    let check = params.check;
    let ran = in_session(runtime, &place.session, params, caller).await;
    // A command that continues keeps its session.
    if !caller.is_gone() && !ran.as_ref().is_ok_and(|reply| reply.still_running) {
        let after = match &ran {
            Err(_) => After::Failure,
            Ok(reply) if reply.stdout_truncated || reply.stderr_truncated => After::PartOfReply,
            Ok(_) => After::WholeReply,
        };
        place.leave(runtime, after).await;
    }
    let reply = ran?;
    match failure(&reply.outcome).filter(|_| check && !reply.still_running) {
        Some(fault) => Err(fault.with_details(details(&reply))),
        None => Ok(reply),
    }
}

async fn in_session(
    runtime: &Arc<Inner>,
    session: &Session,
    params: RunParams,
    caller: &Caller,
) -> Result<RunReply, Fault> {
    let encoding = params.encoding;
    let soft = params.soft_timeout_s.map(|soft| seconds::until_then("soft_timeout_s", soft)).transpose()?;
    let run = Box::new(spec::of(&runtime.config, session, params, Mode::Collect)?);
    let reply = match soft {
        Some(soft) => soft::run(session, run, encoding, soft, caller).await?,
        None => {
            let asked = session.link.request(|req| ToHost::Run { req, run }).await?;
            let answer = tokio::select! {
                answer = asked.answer() => answer?,
                () = caller.gone() => return Err(nobody_waits()),
            };
            let Answer { message, mut ranges } = answer;
            let FromHost::Done { exec, outcome, dropped, .. } = message else {
                return Err(unexpected(session.id, &message));
            };
            reply(session.exec_id(exec), *outcome, dropped, &mut ranges, encoding)
        }
    };
    runtime.commands.fetch_add(1, Ordering::Relaxed);
    Ok(reply)
}

pub(super) fn reply(
    exec_id: ExecId,
    outcome: Outcome,
    dropped: [u64; 2],
    ranges: &mut Vec<output::Range>,
    encoding: Encoding,
) -> RunReply {
    let totals = [outcome.stdout_bytes, outcome.stderr_bytes];
    let [stdout, stderr] = Stream::BOTH.map(|stream| {
        let (total, dropped) = (totals[stream.index()], dropped[stream.index()]);
        output::compose(Source { exec: exec_id, stream, total, dropped }, ranges, encoding)
    });
    RunReply {
        exec_id,
        stdout: stdout.text,
        stderr: stderr.text,
        outcome,
        stdout_truncated: stdout.truncated,
        stderr_truncated: stderr.truncated,
        still_running: false,
        stdout_lossy: stdout.lossy,
        stderr_lossy: stderr.lossy,
    }
}

/// What `check:true` makes of an outcome that is no success.
pub(crate) fn failure(outcome: &Outcome) -> Option<Fault> {
    if outcome.timed_out {
        let ran = outcome.duration_us as f64 / 1e6;
        return Some(Fault::new(
            Code::CommandTimeout,
            format!(
                "the command timed out after {ran:.1} s; a larger timeout_s gives it more time, 0 is no limit"
            ),
        ));
    }
    let how = match (outcome.exit_code, &outcome.signal) {
        (Some(0), _) => return None,
        (Some(code), None) => format!("exited with {code}"),
        (Some(code), Some(signal)) => format!("exited with {code}, ended by {signal}"),
        (None, Some(signal)) => format!("was ended by {signal}"),
        (None, None) => "ended with an unknown status".to_owned(),
    };
    Some(Fault::new(Code::CommandFailed, format!("the command {how}; its result is in details")))
}

pub(crate) fn details(reply: &impl serde::Serialize) -> serde_json::Value {
    serde_json::to_value(reply).unwrap_or_default()
}

/// Said to a client that is gone, so for nobody's eyes but the log's.
pub(crate) fn nobody_waits() -> Fault {
    Fault::internal("the client is gone; the command continues")
}
