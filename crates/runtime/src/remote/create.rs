//! `session.create` and `session.fork` on another daemon.
//!
//! The session gets a name over there that nobody else has. If the connection is lost before the answer,
//! that name tells whether the session was made, so it is neither made twice nor left behind. By the same name a daemon
//! recognises that the other one is itself, as it is where agents of one daemon grant each other access.

use std::sync::Arc;
use std::time::Duration;

use trl_client::Error;
use trl_protocol::session::{CreateParams, Created, DestroyParams, ForkParams, RenameParams, SessionParams};
use trl_protocol::{Code, Fault, SessionId, methods};

use super::daemon::described;
use super::{RemoteDaemon, RemoteSession, watch};
use crate::caller::Caller;
use crate::config::NamedRuntime;
use crate::link::End;
use crate::ops::session::create::check_name;
use crate::ops::session::{destroy, rename};
use crate::registry::{Found, Reservation};
use crate::runtime::Inner;

/// Longest name of a session.
const MAX_NAME: usize = 64;
/// How often a create whose answer was lost, and that had made nothing, is tried.
const TRIES: usize = 3;
/// How long the end of a session may hold up the end of the daemon here.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// How a session is made over there.
#[derive(Debug)]
enum Making {
    Anew(Box<CreateParams>),
    /// With the state of this one, which is over there too.
    Fork(SessionId),
}

pub(crate) async fn create(
    runtime: &Arc<Inner>,
    daemon: Arc<RemoteDaemon>,
    named: Option<NamedRuntime>,
    reason: Option<String>,
    params: CreateParams,
    caller: &Caller,
) -> Result<Created, Fault> {
    let isolation = params.isolation.or_else(|| named.and_then(|named| named.isolation));
    let (name, params) = (params.name.clone(), CreateParams { isolation, runtime: None, ..params });
    let created = make(runtime, daemon, Making::Anew(Box::new(params)), name, caller).await?;
    Ok(Created { runtime_reason: reason, ..created })
}

pub(super) async fn fork(
    runtime: &Arc<Inner>,
    origin: &RemoteSession,
    name: Option<String>,
    caller: &Caller,
) -> Result<Created, Fault> {
    make(runtime, Arc::clone(&origin.daemon), Making::Fork(origin.id), name, caller).await
}

async fn make(
    runtime: &Arc<Inner>,
    daemon: Arc<RemoteDaemon>,
    making: Making,
    name: Option<String>,
    caller: &Caller,
) -> Result<Created, Fault> {
    if let Some(name) = &name {
        check_name(name)?;
    }
    let provisional = SessionId(random()?);
    let reservation = runtime.registry.reserve(name.as_deref(), provisional)?;
    // In a task of its own: a client that goes away must not leave half a session.
    let inner = Arc::clone(runtime);
    let task = tokio::spawn(async move {
        let made = enter(&inner, &daemon, making, name, reservation).await;
        inner.settle();
        made
    });
    let made = task.await.unwrap_or_else(|error| Err(Fault::internal(format!("session.create: {error}"))));
    let created = made?;
    if caller.is_gone() {
        let id = created.session_id;
        tracing::info!(session = %id, "the client disconnected before it got the session: it is ended");
        destroy::perform(runtime, &DestroyParams { session_id: id.to_string(), force: true }).await?;
    }
    Ok(created)
}

/// Makes the session and enters it here, under its name here.
async fn enter(
    runtime: &Arc<Inner>,
    daemon: &Arc<RemoteDaemon>,
    making: Making,
    name: Option<String>,
    reservation: Reservation,
) -> Result<Created, Fault> {
    runtime.remotes.remember(daemon);
    let name_there = name_there(name.as_deref())?;
    // What is heard of it meanwhile is not about somebody else's.
    let _making = daemon.making(&name_there);
    let created = ask(daemon, making, &name_there).await?;
    let id = created.session_id;
    let entered = match is_here(runtime, id, &name_there) {
        true => own(runtime, id, name, reservation).await,
        false => enter_remote(runtime, daemon, id, name, reservation).await,
    };
    match entered {
        Ok(name) => {
            tracing::info!(session = %id, runtime = daemon.name(), "a session was created");
            Ok(Created { name, runtime: Some(daemon.name().to_owned()), ..created })
        }
        Err(fault) => {
            daemon.forget(id);
            let params = DestroyParams { session_id: id.to_string(), force: true };
            if let Err(left) = daemon.call::<methods::SessionDestroy>(&params).await {
                tracing::warn!(message = %left.message, "a session that was made in vain could not be ended");
            }
            Err(fault)
        }
    }
}

async fn enter_remote(
    runtime: &Arc<Inner>,
    daemon: &Arc<RemoteDaemon>,
    id: SessionId,
    name: Option<String>,
    reservation: Reservation,
) -> Result<Option<String>, Fault> {
    let about = SessionParams { session_id: id.to_string() };
    let info = daemon.call::<methods::SessionInfo>(&about).await?;
    let session = Arc::new(RemoteSession::new(described(daemon, info, name.clone()), Arc::clone(daemon)));
    daemon.remember(&session.info());
    reservation.fill_remote(Arc::clone(&session))?;
    runtime.remote_begun(&session);
    watch::begin(runtime, daemon);
    Ok(name)
}

/// Whether the daemon over there is this one.
fn is_here(runtime: &Inner, id: SessionId, name_there: &str) -> bool {
    match runtime.registry.find(name_there) {
        Ok(Found::Living(session)) => session.id == id,
        _ => false,
    }
}

/// The session is one of this daemon's own, which needs no forwarding; only its name is still the other one.
async fn own(
    runtime: &Arc<Inner>,
    id: SessionId,
    name: Option<String>,
    reservation: Reservation,
) -> Result<Option<String>, Fault> {
    // Its place is not needed, and its name is free again.
    drop(reservation);
    let Some(name) = name else { return Ok(None) };
    let params = RenameParams { session_id: id.to_string(), name };
    rename::perform(runtime, params).await.map(|renamed| Some(renamed.name))
}

async fn ask(daemon: &RemoteDaemon, making: Making, name: &str) -> Result<Created, Fault> {
    let client = daemon.client();
    for _ in 0..TRIES {
        let answered = match &making {
            Making::Anew(params) => {
                let params = CreateParams { name: Some(name.to_owned()), ..(**params).clone() };
                client.call::<methods::SessionCreate>(&params).await
            }
            Making::Fork(origin) => {
                let params = ForkParams { session_id: origin.to_string(), name: Some(name.to_owned()) };
                client.call::<methods::SessionFork>(&params).await
            }
        };
        match answered {
            Err(Error::Lost { .. }) => {
                let sessions = daemon.sessions().await?;
                if let Some(info) = sessions.into_iter().find(|info| info.name.as_deref() == Some(name)) {
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
