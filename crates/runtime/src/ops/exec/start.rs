//! `exec.start`: a command that is not waited for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use trl_protocol::Fault;
use trl_protocol::exec::{ExecState, RunParams, Started};
use trl_protocol::wire::{FromHost, Mode, ToHost};

use super::place::{After, CommandSession};
use super::spec;
use crate::caller::Caller;
use crate::runtime::Inner;
use crate::session::{Session, unexpected};

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: RunParams,
    caller: &Caller,
) -> Result<Started, Fault> {
    let place = CommandSession::of(runtime, &params, caller).await?;
    let started = in_session(runtime, &place.session, params).await;
    // The command keeps its session.
    if started.is_err() {
        place.leave(runtime, After::Failure).await;
    }
    started
}

async fn in_session(runtime: &Inner, session: &Session, params: RunParams) -> Result<Started, Fault> {
    let run = Box::new(spec::of(&runtime.config, session, params, Mode::Detached)?);
    let answer = session.link.start(|req| ToHost::Run { req, run }).await?;
    let FromHost::Started { exec, queued, pid, .. } = answer.message else {
        return Err(unexpected(session.id, &answer.message));
    };
    runtime.commands.fetch_add(1, Ordering::Relaxed);
    let state = if queued { ExecState::Queued } else { ExecState::Running };
    Ok(Started { exec_id: session.exec_id(exec), session_id: session.id, state, pid })
}
