//! `exec.stream`: a command in the living shell, its output told as it comes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trl_protocol::Fault;
use trl_protocol::exec::{RunParams, StreamReply};
use trl_protocol::wire::{Mode, ToHost};

use super::relay::Relay;
use super::{run, spec};
use crate::caller::{Caller, EventSink};
use crate::runtime::Inner;

pub(crate) async fn perform<S: EventSink>(
    runtime: &Arc<Inner>,
    params: RunParams,
    caller: &Caller,
    events: &mut S,
) -> Result<StreamReply, Fault> {
    let session = runtime.registry.living(&params.session_id)?;
    let (check, encoding) = (params.check, params.encoding);
    let run = Box::new(spec::of(&runtime.config, &session, params, Mode::Stream)?);
    let flow = session.link.flow(|req| ToHost::Run { req, run }).await?;
    let reply = Relay::new(session.id, events, encoding).run(flow, caller).await?;
    runtime.commands.fetch_add(1, Ordering::Relaxed);
    match run::failure(&reply.outcome).filter(|_| check) {
        Some(fault) => Err(fault.with_details(run::details(&reply))),
        None => Ok(reply),
    }
}
