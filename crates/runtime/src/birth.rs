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
use crate::standby::{self, Blank};

/// A host starts in milliseconds; on a machine that is out of breath it takes longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// After a session was created, until the host of the next one is started.
const BREATH: Duration = Duration::from_millis(1);

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
    let Born { greeted, mut child } = start(runtime, spec).await?;
    let process = HostProcess::of(greeted.session.host_pid);
    let session = match runtime.take_over(greeted, process, |session| reservation.fill(session)) {
        Ok(session) => session,
        Err(error) => {
            // Its connection is closed: it ends by itself.
            tracing::error!(session = %id, %error, "a new host could not be watched");
            return Err(pressure(id, &error));
        }
    };
    let next = Arc::clone(runtime);
    tokio::spawn(async move {
        // Whoever asked for this one hears of it first.
        tokio::time::sleep(BREATH).await;
        next.standby.fill(|| launch(&next.config));
    });
    tokio::spawn(async move {
        let status = child.wait().await;
        tracing::debug!(session = %id, ?status, "a host process ended");
    });
    Ok(session)
}

/// Gives the session to a host; if it does not come to life, nothing of it remains.
async fn start(runtime: &Inner, spec: SessionSpec) -> Result<Born, Fault> {
    let config = &runtime.config;
    match runtime.standby.take() {
        Some(blank) => match entrust(blank, spec.clone()).await {
            // It was killed while it stood by, or is one that a session cannot be got into.
            Err(Stillborn::Mute(error)) => {
                tracing::warn!(session = %spec.session_id, %error, "the host that stood by is of no use");
                entrust(launch_for(config, spec.session_id)?, spec).await
            }
            tried => tried,
        },
        None => entrust(launch_for(config, spec.session_id)?, spec).await,
    }
    .map_err(Fault::from)
}

/// Why a host did not take its session.
#[derive(Debug)]
enum Stillborn {
    Refused(Fault),
    /// It said nothing that could be understood.
    Mute(Fault),
}

impl From<Stillborn> for Fault {
    fn from(stillborn: Stillborn) -> Fault {
        let (Stillborn::Refused(fault) | Stillborn::Mute(fault)) = stillborn;
        fault
    }
}

async fn entrust(Blank { stream, child }: Blank, spec: SessionSpec) -> Result<Born, Stillborn> {
    let id = spec.session_id;
    let stillborn = match tokio::time::timeout(PATIENCE, greet(stream, Some(Box::new(spec)))).await {
        Ok(Ok(greeted)) => return Ok(Born { greeted, child }),
        Ok(Err(GreetError::Refused(fault))) => Stillborn::Refused(fault),
        Ok(Err(error)) => {
            Stillborn::Mute(Fault::internal(format!("the host of session {id} did not start: {error}")))
        }
        Err(_) => Stillborn::Refused(Fault::internal(format!(
            "the host of session {id} did not answer within {} s",
            PATIENCE.as_secs()
        ))),
    };
    // Its connection is closed by now, and it ends.
    let ended = standby::end(child).await;
    tracing::warn!(session = %id, ?stillborn, ?ended, "a host did not come to life");
    Err(stillborn)
}

fn launch_for(config: &Config, id: SessionId) -> Result<Blank, Fault> {
    launch(config).map_err(|error| {
        let program = config.host_program.display();
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => {
                Fault::internal(format!("the host program {program} cannot be started: {error}"))
            }
            _ => pressure(id, &error),
        }
    })
}

fn launch(config: &Config) -> io::Result<Blank> {
    let (ours, theirs) = StdUnixStream::pair()?;
    for end in [&ours, &theirs] {
        // Bulk output takes fewer turns; the default is enough to work with.
        let _ = rustix::net::sockopt::set_socket_send_buffer_size(end, SEND_BUFFER);
    }
    ours.set_nonblocking(true)?;
    let stream = UnixStream::from_std(ours)?;
    Ok(Blank { stream, child: spawn(config, theirs)? })
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
