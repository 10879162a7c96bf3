//! `exec.cancel`: ends a command, not its shell.

use std::sync::Arc;

use trl_protocol::exec::{CancelParams, Cancelled};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Fault, methods};

use super::subject;
use crate::runtime::Inner;
use crate::session::unexpected;
use crate::signal;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &CancelParams) -> Result<Cancelled, Fault> {
    let signal = params.signal.as_ref().map(signal::number).transpose()?;
    let (session, exec) =
        subject::of::<methods::ExecCancel>(runtime, params.session_id.as_deref(), params.exec_id.as_deref())
            .await?;
    let answer = session.link.call(|req| ToHost::Cancel { req, exec, signal }).await?;
    match answer.message {
        FromHost::Cancelled { exec, startup, .. } => Ok(Cancelled {
            exec_id: exec.map(|exec| session.exec_id(exec)),
            cancelled: exec.is_some() || startup,
        }),
        other => Err(unexpected(session.id, &other)),
    }
}
