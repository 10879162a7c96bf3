//! What a request is about that names a session or a command.

use std::sync::Arc;

use trl_protocol::{Fault, Method};

use crate::runtime::Inner;
use crate::session::Session;

/// The session, and the command if one was named. Exactly one of the two is given.
pub(super) async fn of<M: Method>(
    runtime: &Inner,
    session_id: Option<&str>,
    exec_id: Option<&str>,
) -> Result<(Arc<Session>, Option<u64>), Fault> {
    let method = M::NAME;
    match (session_id, exec_id) {
        (Some(session), None) => Ok((runtime.living(session).await?, None)),
        (None, Some(exec)) => runtime.of_exec(exec).await.map(|(session, exec)| (session, Some(exec))),
        (None, None) => Err(Fault::invalid(format!("{method} needs the param `session_id` or `exec_id`"))),
        (Some(_), Some(_)) => {
            Err(Fault::invalid(format!("{method} takes the param `session_id` or `exec_id`, not both")))
        }
    }
}
