//! `exec.attach`: the output of a command from given offsets on, living or finished.

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::exec::{AttachParams, StreamReply};
use trl_protocol::wire::ToHost;

use super::relay::Relay;
use crate::caller::{Caller, EventSink};
use crate::lookup::ExecSource;
use crate::runtime::Inner;

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: &AttachParams,
    caller: &Caller,
    events: &mut dyn EventSink,
) -> Result<StreamReply, Fault> {
    let (stdout_offset, stderr_offset) = (params.stdout_offset, params.stderr_offset);
    match runtime.exec(&params.exec_id).await? {
        ExecSource::Host(session, exec) => {
            let attach = |req| ToHost::Attach { req, exec, stdout_offset, stderr_offset };
            let flow = session.link.flow(attach).await?;
            Relay::new(session.id, events, params.encoding).run(flow, caller).await
        }
        ExecSource::Disk(lost, exec) => {
            let relay = Relay::new(lost.session, events, params.encoding);
            relay.read_out(&lost, exec, [stdout_offset, stderr_offset]).await
        }
    }
}
