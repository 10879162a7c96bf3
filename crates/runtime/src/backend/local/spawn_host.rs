//! Has a host started, and hands it its session.
//!
//! The session with its secrets comes over the host's connection, so nothing of it is in arguments or in the host's
//! environment.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use trl_protocol::wire::SessionSpec;
use trl_protocol::{Fault, SessionId};

use super::State;
use super::process::HostProcess;
use super::standby::{Keeper, SpareHost};
use crate::backend::{GreetError, Greeted, StartedHost, greet};

/// A host starts in milliseconds; on an overloaded machine it takes longer.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// After a session was created, until the host of the next one is started, so that the
/// client's answer goes out first.
const STANDBY_DELAY: Duration = Duration::from_millis(1);

/// Starts a host for the session, or gives the session to the standby host.
pub(super) async fn start(local: &Arc<State>, spec: SessionSpec) -> Result<StartedHost, Fault> {
    let given = give_session(local, spec).await;
    // Also if it could not be started: other sessions have lost their standby host to it.
    let next = Arc::clone(local);
    tokio::spawn(async move {
        tokio::time::sleep(STANDBY_DELAY).await;
        next.standby.fill(next.launcher.fork_host(&next.config)).await;
    });
    let (greeted, keeper) = given?;
    let host = Arc::new(HostProcess::started(greeted.session.host_pid, keeper.handle()));
    if rustix::process::getpid().is_init() {
        // It inherits the children of a launcher that was killed.
        tokio::spawn(async move { keeper.reap().await });
    }
    Ok(StartedHost { greeted, host })
}

async fn give_session(local: &State, spec: SessionSpec) -> Result<(Greeted, Keeper), Fault> {
    match local.standby.take() {
        Some(spare) => match hand_over(spare, spec.clone()).await {
            // It was killed while it stood by, or does not understand us.
            Err(StartFailure::Silent(error)) => {
                tracing::warn!(session = %spec.session_id, %error, "the standby host is of no use");
                hand_over(launch_for(local, spec.session_id).await?, spec).await
            }
            tried => tried,
        },
        None => hand_over(launch_for(local, spec.session_id).await?, spec).await,
    }
    .map_err(Fault::from)
}

/// Why a host did not take its session.
#[derive(Debug)]
enum StartFailure {
    Refused(Fault),
    /// It said nothing that could be understood.
    Silent(Fault),
}

impl From<StartFailure> for Fault {
    fn from(failure: StartFailure) -> Fault {
        let (StartFailure::Refused(fault) | StartFailure::Silent(fault)) = failure;
        fault
    }
}

async fn hand_over(
    SpareHost { connection, keeper }: SpareHost,
    spec: SessionSpec,
) -> Result<(Greeted, Keeper), StartFailure> {
    let id = spec.session_id;
    let failure = match tokio::time::timeout(START_TIMEOUT, greet(connection, Some(Box::new(spec)))).await {
        Ok(Ok(greeted)) => return Ok((greeted, keeper)),
        Ok(Err(GreetError::Refused(fault))) => StartFailure::Refused(fault),
        Ok(Err(error)) => {
            StartFailure::Silent(Fault::internal(format!("the host of session {id} did not start: {error}")))
        }
        Err(_) => StartFailure::Refused(Fault::internal(format!(
            "the host of session {id} did not answer within {} s",
            START_TIMEOUT.as_secs()
        ))),
    };
    // Its connection is closed by now, upon which it ends.
    keeper.end().await;
    tracing::warn!(session = %id, ?failure, "a host did not start");
    Err(failure)
}

async fn launch_for(local: &State, id: SessionId) -> Result<SpareHost, Fault> {
    local.launcher.fork_host(&local.config).await.map_err(|error| {
        let program = local.config.host_program.display();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                Fault::internal(format!("the host program {program} cannot be started: {error}"))
            }
            _ => Fault::refused_by_system(
                format_args!("the host of session {id} cannot be started now"),
                &error,
            ),
        }
    })
}
