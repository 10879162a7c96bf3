//! `exec.stream`: a command in the living shell, its output told as it comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trl_protocol::Fault;
use trl_protocol::exec::{RunParams, StreamReply};
use trl_protocol::wire::{Mode, ToHost};

use super::place::{After, CommandSession};
use super::relay::Relay;
use super::{run, spec};
use crate::caller::{Caller, EventSink};
use crate::runtime::Inner;
use crate::seconds;
use crate::session::Session;

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: RunParams,
    caller: &Caller,
    events: &mut dyn EventSink,
) -> Result<StreamReply, Fault> {
    let place = CommandSession::of(runtime, &params, caller).await?;
    let check = params.check;
    let streamed = in_session(runtime, &place.session, params, caller, events).await;
    // A command that continues keeps its session.
    if !caller.is_gone() && !streamed.as_ref().is_ok_and(|reply| reply.still_running) {
        let after = if streamed.is_ok() { After::WholeReply } else { After::Failure };
        place.leave(runtime, after).await;
    }
    let reply = streamed?;
    match run::failure(&reply.outcome).filter(|_| check && !reply.still_running) {
        Some(fault) => Err(fault.with_details(run::details(&reply))),
        None => Ok(reply),
    }
}

async fn in_session(
    runtime: &Arc<Inner>,
    session: &Session,
    params: RunParams,
    caller: &Caller,
    events: &mut dyn EventSink,
) -> Result<StreamReply, Fault> {
    let encoding = params.encoding;
    let soft = params.soft_timeout_s.map(|soft| seconds::until_then("soft_timeout_s", soft)).transpose()?;
    let run = Box::new(spec::of(&runtime.config, session, params, Mode::Stream)?);
    let flow = session.link.flow(|req| ToHost::Run { req, run }).await?;
    let mut relay = Relay::new(session.id, events, encoding);
    if let Some(soft) = soft {
        relay = relay.until(soft, session.last_info().working_dir);
    }
    let reply = relay.run(flow, caller).await?;
    runtime.commands.fetch_add(1, Ordering::Relaxed);
    Ok(reply)
}
