//! `session.destroy`: the host ends every process of the session, then itself.

use std::sync::Arc;
use std::time::Duration;

use trl_protocol::session::{DestroyParams, Destroyed, SessionState};
use trl_protocol::wire::ToHost;
use trl_protocol::{Code, Fault};

use crate::link::session_over;
use crate::registry::Found;
use crate::remote;
use crate::runtime::Inner;
use crate::session::Session;

/// A host gives its processes some seconds between TERM and KILL; this is well beyond.
const PATIENCE: Duration = Duration::from_secs(20);
/// Without grace between the signals.
const FORCED_PATIENCE: Duration = Duration::from_secs(8);

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &DestroyParams) -> Result<Destroyed, Fault> {
    let session_id = match runtime.find(&params.session_id).await? {
        Found::Living(session) => {
            end(&session, params.force).await?;
            session.id
        }
        Found::Creating(id, _) => {
            return Err(Fault::new(Code::SessionBusy, format!("session {id} is still being created")));
        }
        Found::Past { end, info, backend } => {
            let id = info.session_id;
            if !runtime.registry.bury(id, "destroyed after it was lost") {
                return Err(session_over(id, &end));
            }
            backend.remove(id).await;
            id
        }
        Found::Remote(session) => {
            remote::end(runtime, &session, params.force).await?;
            session.id
        }
        Found::RemotePast(id, end) => return Err(session_over(id, &end)),
    };
    Ok(Destroyed { session_id, state: SessionState::Terminated })
}

/// Ends a session and waits until its host is gone.
pub(crate) async fn end(session: &Session, force: bool) -> Result<(), Fault> {
    let patience = if force { FORCED_PATIENCE } else { PATIENCE };
    session.host.resume();
    let asked = async {
        // The end of the connection is the answer, whatever was said before.
        match session.link.call(|req| ToHost::End { req, force }).await {
            Err(fault) if fault.code != Code::SessionTerminated => return Err(fault),
            _ => session.link.ended().await,
        };
        session.host.gone().await;
        Ok(())
    };
    match tokio::time::timeout(patience, asked).await {
        Ok(done) => done,
        Err(_) => give_up(session).await,
    }
}

/// The host does not answer: all that can be done is to kill it.
async fn give_up(session: &Session) -> Result<(), Fault> {
    let id = session.id;
    let host = session.host.describe();
    let killed = session.host.kill().await;
    tracing::error!(session = %id, host, killed, "a host did not end its session");
    if !killed {
        return Err(Fault::internal(format!(
            "the host of session {id} ({host}) does not answer and could not be killed"
        )));
    }
    session.link.ended().await;
    Err(Fault::internal(format!(
        "the host of session {id} ({host}) did not answer and was killed; processes that it started may live on"
    )))
}
