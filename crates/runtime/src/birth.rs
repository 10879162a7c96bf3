//! Starts a session's host process and hands it its session.
//!
//! The host gets one end of a socket pair as its stdin; the session, secrets and all,
//! comes over that, so nothing of it is in arguments or the host's environment.
//! Spawning sets up nothing between fork and exec, so that it stays one cheap call.

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

use crate::config::Config;
use crate::environment;
use crate::host_process::HostProcess;
use crate::link::{GreetError, Greeted, greet};
use crate::registry::Reservation;
use crate::runtime::Inner;
use crate::session::Session;

/// A host starts in milliseconds; on a machine that is out of breath it takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a host that could not take its session may take to end.
const LAST_WORDS: Duration = Duration::from_secs(3);

const SEND_BUFFER: usize = 512 * 1024;

/// A new host that has its session.
#[derive(Debug)]
struct Born {
    greeted: Greeted,
    child: Child,
}

/// Starts a host for the session, and enters it in its place.
pub(crate) async fn of_session(
    runtime: &Arc<Inner>,
    spec: SessionSpec,
    reservation: Reservation,
) -> Result<Arc<Session>, Fault> {
    let id = spec.session_id;
    let Born { greeted, mut child } = start(&runtime.config, spec).await?;
    let process = HostProcess::of(greeted.session.host_pid);
    let session = match runtime.take_over(greeted, process, |session| reservation.fill(session)) {
        Ok(session) => session,
        Err(error) => {
            // Its connection is closed: it ends by itself.
            tracing::error!(session = %id, %error, "a new host could not be watched");
            return Err(pressure(id, &error));
        }
    };
    tokio::spawn(async move {
        let status = child.wait().await;
        tracing::debug!(session = %id, ?status, "a host process ended");
    });
    Ok(session)
}

/// Starts a host; if it does not come to life, nothing of it remains.
async fn start(config: &Config, spec: SessionSpec) -> Result<Born, Fault> {
    let id = spec.session_id;
    let (ours, theirs) = StdUnixStream::pair().map_err(|error| pressure(id, &error))?;
    for end in [&ours, &theirs] {
        // Bulk output takes fewer turns; the default is enough to work with.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(end, SEND_BUFFER);
    }
    ours.set_nonblocking(true).map_err(|error| pressure(id, &error))?;
    let stream = UnixStream::from_std(ours).map_err(|error| pressure(id, &error))?;
    let mut child = spawn(config, theirs).map_err(|error| {
        let program = config.host_program.display();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                Fault::internal(format!("the host program {program} cannot be started: {error}"))
            }
            _ => pressure(id, &error),
        }
    })?;
    let refused = match tokio::time::timeout(PATIENCE, greet(stream, Some(Box::new(spec)))).await {
        Ok(Ok(greeted)) => return Ok(Born { greeted, child }),
        Ok(Err(GreetError::Refused(fault))) => fault,
        Ok(Err(error)) => Fault::internal(format!("the host of session {id} did not start: {error}")),
        Err(_) => Fault::internal(format!(
            "the host of session {id} did not answer within {} s",
            PATIENCE.as_secs()
        )),
    };
    // Its connection is closed by now, and it ends; a host without a session has nothing to lose.
    let ended = match tokio::time::timeout(LAST_WORDS, child.wait()).await {
        Ok(ended) => ended.map(drop),
        Err(_) => child.kill().await,
    };
    tracing::warn!(session = %id, code = %refused.code, ?ended, "a host did not come to life");
    Err(refused)
}

fn spawn(config: &Config, stdin: StdUnixStream) -> io::Result<Child> {
    let log = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(config.state_dir.join("host.log"))
        .map_or_else(|_| Stdio::null(), Stdio::from);
    Command::new(&config.host_program)
        .args(&config.host_args)
        .env_clear()
        .envs(environment::inherited(config))
        .stdin(Stdio::from(OwnedFd::from(stdin)))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
}

fn pressure(id: SessionId, error: &io::Error) -> Fault {
    Fault::refused_by_system(format_args!("the host of session {id} cannot be started now"), error)
}
