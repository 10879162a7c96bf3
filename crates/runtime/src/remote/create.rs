//! `session.create` on another daemon.
//!
//! The session gets a name over there that nobody else has. If the connection is lost before the answer,
//! that name tells whether the session was made, so it is neither made twice nor left behind.

use std::sync::Arc;
use std::time::Duration;

use trl_client::Error;
use trl_protocol::session::{CreateParams, Created, DestroyParams, SessionParams};
use trl_protocol::system::NoParams;
use trl_protocol::{Code, Fault, SessionId, methods};

use super::daemon::described;
use super::{RemoteDaemon, RemoteSession, watch};
use crate::caller::Caller;
use crate::config::NamedRuntime;
use crate::link::End;
use crate::ops::session::create::check_name;
use crate::registry::Reservation;
use crate::runtime::Inner;

/// Longest name of a session.
const MAX_NAME: usize = 64;
/// How often a create whose answer was lost, and that had made nothing, is tried.
const TRIES: usize = 3;
/// How long the end of a session may hold up the end of the daemon here.
const END_PATIENCE: Duration = Duration::from_secs(10);

pub(crate) async fn create(
    runtime: &Arc<Inner>,
    daemon: Arc<RemoteDaemon>,
    named: Option<NamedRuntime>,
    reason: Option<String>,
    params: CreateParams,
    caller: &Caller,
) -> Result<Created, Fault> {
    if let Some(name) = &params.name {
        check_name(name)?;
    }
    let provisional = SessionId(random()?);
    let reservation = runtime.registry.reserve(params.name.as_deref(), provisional)?;
    let isolation = params.isolation.or_else(|| named.and_then(|named| named.isolation));
    let params = CreateParams { isolation, runtime: None, ..params };
    // In a task of its own: a client that goes away must not leave half a session.
    let inner = Arc::clone(runtime);
    let making = tokio::spawn(async move {
        let made = make(&inner, &daemon, params, reservation).await;
        inner.settle();
        made
    });
    let made = making.await.unwrap_or_else(|error| Err(Fault::internal(format!("session.create: {error}"))));
    let (session, created) = made?;
    if caller.is_gone() {
        tracing::info!(session = %session.id, "the client disconnected before it got the session: it is ended");
        end(runtime, &session, true).await?;
    }
    Ok(Created { name: session.info().name, runtime_reason: reason, ..created })
}

async fn make(
    runtime: &Arc<Inner>,
    daemon: &Arc<RemoteDaemon>,
    params: CreateParams,
    reservation: Reservation,
) -> Result<(Arc<RemoteSession>, Created), Fault> {
    runtime.remotes.remember(daemon);
    let name = params.name.clone();
    let params = CreateParams { name: Some(name_there(name.as_deref())?), ..params };
    let created = ask(daemon, &params).await?;
    let about = SessionParams { session_id: created.session_id.to_string() };
    let entered = async {
        let info = daemon.call::<methods::SessionInfo>(&about).await?;
        let session = RemoteSession::new(described(daemon, info, name), Arc::clone(daemon));
        let session = Arc::new(session);
        daemon.remember(&session.info());
        reservation.fill_remote(Arc::clone(&session))?;
        Ok(session)
    };
    match entered.await {
        Ok(session) => {
            tracing::info!(session = %session.id, runtime = daemon.name(), "a session was created");
            runtime.remote_begun(&session);
            watch::begin(runtime, daemon);
            let created = Created { runtime: Some(daemon.name().to_owned()), ..created };
            Ok((session, created))
        }
        Err(fault) => {
            daemon.forget(created.session_id);
            let params = DestroyParams { session_id: about.session_id, force: true };
            if let Err(left) = daemon.call::<methods::SessionDestroy>(&params).await {
                tracing::warn!(message = %left.message, "a session that was made in vain could not be ended");
            }
            Err(fault)
        }
    }
}

async fn ask(daemon: &RemoteDaemon, params: &CreateParams) -> Result<Created, Fault> {
    for _ in 0..TRIES {
        match daemon.client().call::<methods::SessionCreate>(params).await {
            Err(Error::Lost { .. }) => {
                let sessions = daemon.call::<methods::SessionList>(&NoParams {}).await?.sessions;
                if let Some(info) = sessions.into_iter().find(|info| info.name == params.name) {
                    return Ok(Created {
                        session_id: info.session_id,
                        name: info.name,
                        shell: info.shell,
                        working_dir: info.working_dir,
                        state: info.state,
                        created_at: info.created_at,
                        pid: info.pid,
                        runtime: None,
                        runtime_reason: None,
                    });
                }
            }
            answered => return answered.map_err(|error| daemon.fault(error)),
        }
    }
    Err(daemon.fault(Error::Lost { method: "session.create" }))
}

/// Recognisable, and nobody else's.
fn name_there(name: Option<&str>) -> Result<String, Fault> {
    let suffix = format!(".{:08x}", random()?);
    let mut name = name.unwrap_or("remote").to_owned();
    name.truncate(MAX_NAME - suffix.len());
    Ok(name + &suffix)
}

fn random() -> Result<u32, Fault> {
    getrandom::u32().map_err(|error| Fault::internal(format!("no random numbers: {error}")))
}

/// Ends a session over there, and forgets it here.
pub(crate) async fn end(runtime: &Arc<Inner>, session: &RemoteSession, force: bool) -> Result<(), Fault> {
    let params = DestroyParams { session_id: session.id.to_string(), force };
    for _ in 0..TRIES {
        match session.daemon.client().call::<methods::SessionDestroy>(&params).await {
            // The answer is lost; asked again, it is ended or known to be.
            Err(Error::Lost { .. }) => continue,
            Ok(_) => {}
            Err(Error::Fault(fault))
                if matches!(fault.code, Code::SessionNotFound | Code::SessionTerminated) => {}
            Err(error) => return Err(session.daemon.fault(error)),
        }
        runtime.remote_over(session, "destroyed");
        return Ok(());
    }
    Err(session.daemon.fault(Error::Lost { method: "session.destroy" }))
}

/// Ends a session over there because the daemon here ends. One that cannot be reached is left to the next daemon.
pub(crate) async fn end_with_daemon(runtime: &Arc<Inner>, session: &RemoteSession) -> Result<(), Fault> {
    let ended = match tokio::time::timeout(END_PATIENCE, end(runtime, session, false)).await {
        Ok(ended) => ended,
        Err(_) => {
            let (id, seconds) = (session.id, END_PATIENCE.as_secs());
            Err(Fault::internal(format!("session {id} did not end within {seconds} s")))
        }
    };
    if let Err(fault) = &ended {
        runtime.registry.remove(session.info(), End::Foreign { reason: fault.message.to_string() });
        runtime.settle();
    }
    ended
}
