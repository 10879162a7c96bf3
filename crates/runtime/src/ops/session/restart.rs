//! `session.restart`: a fresh shell in the same session; for a lost one, a fresh host as well.

use std::sync::Arc;

use trl_protocol::change::Change;
use trl_protocol::session::{RestartParams, Restarted, SessionInfo, SessionState};
use trl_protocol::wire::ToHost;
use trl_protocol::{Fault, SessionId};

use crate::backend::Backend;
use crate::link::End;
use crate::registry::Found;
use crate::runtime::Inner;
use crate::session::Session;
use crate::{adoption, environment};

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &RestartParams) -> Result<Restarted, Fault> {
    let info = match runtime.find(&params.session_id).await? {
        Found::Living(session) if params.if_lost => session.info().await?,
        Found::Creating(..) if params.if_lost => runtime.living(&params.session_id).await?.info().await?,
        Found::Living(session) => restart(&session).await?,
        Found::Past { end: End::Lost, info, backend } => {
            // In a task of its own: a client that goes away must not leave half a session.
            let runtime = Arc::clone(runtime);
            let reviving = tokio::spawn(async move {
                let revived = revive(Arc::clone(&runtime), backend, *info).await;
                runtime.settle();
                revived
            });
            let failed = |error| Err(Fault::internal(format!("session.restart: {error}")));
            reviving.await.unwrap_or_else(failed)?
        }
        other => return Err(other.refusal()),
    };
    Ok(Restarted {
        session_id: info.session_id,
        state: info.state,
        pid: info.pid,
        restarts: info.restarts,
        working_dir: info.working_dir,
    })
}

async fn restart(session: &Session) -> Result<SessionInfo, Fault> {
    let answer = session.link.call(|req| ToHost::Restart { req }).await?;
    session.learn(answer)
}

/// Continues a lost session in a new host.
async fn revive(
    runtime: Arc<Inner>,
    backend: Arc<dyn Backend>,
    info: SessionInfo,
) -> Result<SessionInfo, Fault> {
    let id: SessionId = info.session_id;
    // One session never has two hosts.
    if adoption::adopt_after_all(&runtime, &backend, id).await {
        return restart(&*runtime.registry.living(&id.to_string())?).await;
    }
    let unusable = |reason: &dyn std::fmt::Display| {
        Fault::internal(format!("session {id} cannot be continued: {reason}; create a new session"))
    };
    let mut spec = match backend.saved(id).await {
        Some(Ok(saved)) => saved.spec,
        Some(Err(damage)) => return Err(unusable(&damage)),
        None => return Err(unusable(&"it has stored nothing about itself")),
    };
    environment::identify(&mut spec.env, &runtime.config, id, spec.name.as_deref());
    let reservation = runtime.registry.reserve(spec.name.as_deref(), id)?;
    reservation.describe(SessionInfo { state: SessionState::Creating, ..info });
    let started = match backend.start(spec).await {
        Ok(started) => started,
        Err(fault) => {
            drop(reservation);
            runtime.release_unused(&*backend);
            return Err(fault);
        }
    };
    let host = started.host.describe();
    let enter = |session| reservation.fill(session);
    let session = runtime.take_over(&backend, started.greeted, started.host, enter, Change::Restarted);
    tracing::info!(session = %id, host, "a lost session was restarted");
    Ok(session.last_info())
}
