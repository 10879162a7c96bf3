//! `session.info`

use std::sync::Arc;

use trl_protocol::session::{SessionInfo, SessionParams, SessionState};
use trl_protocol::{Code, Fault};

use crate::link::session_over;
use crate::registry::Found;
use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &SessionParams) -> Result<SessionInfo, Fault> {
    let found = match runtime.described(&params.session_id).await? {
        Found::Living(session) => match session.info().await {
            Ok(info) => return Ok(info),
            // It ended while it was asked: what is known of it now is the answer.
            Err(_) => runtime.registry.find(&session.id.to_string())?,
        },
        other => other,
    };
    match found {
        Found::Living(session) => Ok(session.last_info()),
        Found::Creating(_, Some(info)) => Ok(*info),
        Found::Creating(id, None) => {
            Err(Fault::new(Code::SessionBusy, format!("session {id} is still being created")))
        }
        // What is known of a lost session helps to create another like it.
        Found::Past { info, .. } if matches!(info.state, SessionState::Lost | SessionState::Damaged) => {
            Ok(*info)
        }
        Found::Past { end, info, .. } => Err(session_over(info.session_id, &end)),
        Found::Remote(session) => Ok(session.info()),
        Found::RemotePast(id, end) => Err(session_over(id, &end)),
    }
}
