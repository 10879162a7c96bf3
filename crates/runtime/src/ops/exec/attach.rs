//! `exec.attach`: the output of a command from given offsets on, living or finished.

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::exec::{AttachParams, StreamReply};
use trl_protocol::wire::ToHost;

use super::relay::Relay;
use crate::caller::{Caller, EventSink};
use crate::runtime::Inner;

pub(crate) async fn perform<S: EventSink>(
    runtime: &Arc<Inner>,
    params: &AttachParams,
    caller: &Caller,
    events: &mut S,
) -> Result<StreamReply, Fault> {
    let (session, exec) = runtime.registry.of_exec(&params.exec_id)?;
    let (stdout_offset, stderr_offset) = (params.stdout_offset, params.stderr_offset);
    let flow = session.link.flow(|req| ToHost::Attach { req, exec, stdout_offset, stderr_offset }).await?;
    Relay::new(session, events, params.encoding).run(flow, caller).await
}
