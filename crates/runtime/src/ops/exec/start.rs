//! `exec.start`: a command that is not waited for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trl_protocol::Fault;
use trl_protocol::exec::{ExecState, RunParams, Started};
use trl_protocol::wire::{FromHost, Mode, ToHost};

use super::spec;
use crate::runtime::Inner;
use crate::session::unexpected;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: RunParams) -> Result<Started, Fault> {
    let session = runtime.registry.living(&params.session_id)?;
    let run = Box::new(spec::of(&runtime.config, &session, params, Mode::Detached)?);
    let answer = session.link.start(|req| ToHost::Run { req, run }).await?;
    let FromHost::Started { exec, queued, pid, .. } = answer.message else {
        return Err(unexpected(session.id, &answer.message));
    };
    runtime.commands.fetch_add(1, Ordering::Relaxed);
    let state = if queued { ExecState::Queued } else { ExecState::Running };
    Ok(Started { exec_id: session.exec_id(exec), session_id: session.id, state, pid })
}
