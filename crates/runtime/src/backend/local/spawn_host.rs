//! Starts a host process and hands it its session.
//!
//! The host gets one end of a socket pair as its stdin; the session with its secrets comes
//! over that, so nothing of it is in arguments or in the host's environment. Spawning sets
//! up nothing between fork and exec, so that it stays one cheap call.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use trl_protocol::wire::SessionSpec;
use trl_protocol::{Fault, SessionId};

use super::process::HostProcess;
use super::standby::{self, SpareHost};
use super::{LocalConfig, State};
use crate::backend::{Connection, GreetError, Greeted, StartedHost, greet};
use crate::environment;

/// A host starts in milliseconds; on an overloaded machine it takes longer.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// After a session was created, until the host of the next one is started, so that the
/// client's answer goes out first.
const STANDBY_DELAY: Duration = Duration::from_millis(1);

const SEND_BUFFER: usize = 512 * 1024;

/// Starts a host for the session, or gives the session to the standby host.
pub(super) async fn start(local: &Arc<State>, spec: SessionSpec) -> Result<StartedHost, Fault> {
    let id = spec.session_id;
    let (greeted, mut child) = give_session(local, spec).await?;
    let host = Arc::new(HostProcess::of(greeted.session.host_pid));
    let next = Arc::clone(local);
    tokio::spawn(async move {
        tokio::time::sleep(STANDBY_DELAY).await;
        next.standby.fill(|| launch(&next.config));
    });
    tokio::spawn(async move {
        let status = child.wait().await;
        tracing::debug!(session = %id, ?status, "a host process ended");
    });
    Ok(StartedHost { greeted, host })
}

async fn give_session(local: &State, spec: SessionSpec) -> Result<(Greeted, Child), Fault> {
    let config = &local.config;
    match local.standby.take() {
        Some(spare) => match hand_over(spare, spec.clone()).await {
            // It was killed while it stood by, or does not understand us.
            Err(StartFailure::Silent(error)) => {
                tracing::warn!(session = %spec.session_id, %error, "the standby host is of no use");
                hand_over(launch_for(config, spec.session_id)?, spec).await
            }
            tried => tried,
        },
        None => hand_over(launch_for(config, spec.session_id)?, spec).await,
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
    SpareHost { connection, child }: SpareHost,
    spec: SessionSpec,
) -> Result<(Greeted, Child), StartFailure> {
    let id = spec.session_id;
    let failure = match tokio::time::timeout(START_TIMEOUT, greet(connection, Some(Box::new(spec)))).await {
        Ok(Ok(greeted)) => return Ok((greeted, child)),
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
    let ended = standby::end(child).await;
    tracing::warn!(session = %id, ?failure, ?ended, "a host did not start");
    Err(failure)
}

fn launch_for(config: &LocalConfig, id: SessionId) -> Result<SpareHost, Fault> {
    launch(config).map_err(|error| {
        let program = config.host_program.display();
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

fn launch(config: &LocalConfig) -> io::Result<SpareHost> {
    let (ours, theirs) = StdUnixStream::pair()?;
    for end in [&ours, &theirs] {
        // Bulk output takes fewer system calls; if this fails, the default size works too.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(end, SEND_BUFFER);
    }
    ours.set_nonblocking(true)?;
    let connection = Connection::unix(UnixStream::from_std(ours)?)?;
    Ok(SpareHost { connection, child: spawn(config, theirs)? })
}

fn spawn(config: &LocalConfig, stdin: StdUnixStream) -> io::Result<Child> {
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&config.host_log)
        .map_or_else(|_| Stdio::null(), Stdio::from);
    Command::new(&config.host_program)
        .args(&config.host_args)
        .env_clear()
        .envs(environment::inherited(&config.env))
        .stdin(Stdio::from(OwnedFd::from(stdin)))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
}
