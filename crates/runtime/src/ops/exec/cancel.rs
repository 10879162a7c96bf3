//! `exec.cancel`: ends a command, not its shell.

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::exec::{CancelParams, Cancelled};
use trl_protocol::wire::{FromHost, ToHost};

use crate::runtime::Inner;
use crate::session::unexpected;
use crate::signal;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &CancelParams) -> Result<Cancelled, Fault> {
    let signal = params.signal.as_ref().map(signal::number).transpose()?;
    let (session, exec) = match (&params.session_id, &params.exec_id) {
        (Some(session), None) => (runtime.registry.living(session)?, None),
        (None, Some(exec)) => runtime.registry.of_exec(exec).map(|(session, exec)| (session, Some(exec)))?,
        (None, None) => return Err(Fault::invalid("exec.cancel needs the param `session_id` or `exec_id`")),
        (Some(_), Some(_)) => {
            return Err(Fault::invalid("exec.cancel takes the param `session_id` or `exec_id`, not both"));
        }
    };
    let answer = session.link.call(|req| ToHost::Cancel { req, exec, signal }).await?;
    match answer.message {
        FromHost::Cancelled { exec, .. } => {
            Ok(Cancelled { exec_id: exec.map(|exec| session.exec_id(exec)), cancelled: exec.is_some() })
        }
        other => Err(unexpected(session.id, &other)),
    }
}
