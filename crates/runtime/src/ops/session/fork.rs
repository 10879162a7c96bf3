//! `session.fork`: another session with the settings of one and the state of its shell.
//!
//! The host of the first tells both, once it knows the state that the last command left. A
//! command that runs meanwhile is not disturbed, and what it changes is not part of the new session.

use std::sync::Arc;

use trl_protocol::session::{Created, ForkParams};
use trl_protocol::wire::{FromHost, SessionSpec, ToHost};
use trl_protocol::{Fault, SessionId};

use super::create::{check_name, claim, free_id, hidden_dirs, introduce, make};
use crate::backend::StartRequest;
use crate::caller::Caller;
use crate::environment;
use crate::runtime::Inner;
use crate::session::{Session, unexpected};

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: ForkParams,
    caller: &Caller,
) -> Result<Created, Fault> {
    if let Some(name) = &params.name {
        check_name(name)?;
    }
    let origin = runtime.living(&params.session_id).await?;
    let backend = Arc::clone(&origin.backend);
    // Whether the place has room for one more; shell and directory are known.
    backend.prepare(StartRequest { shell: None, working_dir: None }).await?;
    let id = free_id(runtime, &*backend).await?;
    let reservation = runtime.registry.reserve(params.name.as_deref(), id)?;
    claim(runtime, id, caller)?;
    let spec = adapt(spec_of(&origin).await?, runtime, id, params.name);
    let made = make(runtime, backend, spec, reservation).await?;
    introduce(&made, caller).await
}

async fn spec_of(origin: &Session) -> Result<SessionSpec, Fault> {
    match origin.link.call(|req| ToHost::Fork { req }).await?.message {
        FromHost::Forked { spec, .. } => Ok(*spec),
        other => Err(unexpected(origin.id, &other)),
    }
}

/// What belongs to the first session alone is replaced.
fn adapt(mut spec: SessionSpec, runtime: &Inner, id: SessionId, name: Option<String>) -> SessionSpec {
    environment::forget_identity(&mut spec.env);
    environment::identify(&mut spec.env, &runtime.config, id, name.as_deref());
    SessionSpec {
        session_id: id,
        name,
        resume: false,
        keep_state: None,
        restore_state: None,
        hidden_dirs: hidden_dirs(&runtime.config),
        outside: None,
        ..spec
    }
}
