//! The session that a command runs in: the one that it names, or a temporary one.
//!
//! A temporary session is created for one command and does not count against the limit on
//! sessions. It ends with the reply. If the command outlives the reply, its output stays
//! readable until the session's idle timeout.

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::exec::RunParams;

use super::spec;
use crate::caller::Caller;
use crate::ops::session::{create, destroy};
use crate::runtime::Inner;
use crate::session::Session;

pub(super) struct CommandSession {
    pub(super) session: Arc<Session>,
    is_temporary: bool,
}

impl CommandSession {
    pub(super) async fn of(
        runtime: &Arc<Inner>,
        params: &RunParams,
        caller: &Caller,
    ) -> Result<CommandSession, Fault> {
        // A request without a command is refused before anything is looked up or created for it.
        spec::command(params.command.clone(), params.argv.clone())?;
        Ok(match &params.session_id {
            Some(named) => CommandSession { session: runtime.living(named).await?, is_temporary: false },
            None => CommandSession { session: create::temporary(runtime, caller).await?, is_temporary: true },
        })
    }

    /// The command is over, or never began: a temporary session has had its use.
    pub(super) async fn leave(self) {
        if self.is_temporary
            && let Err(fault) = destroy::end(&self.session, true).await
        {
            tracing::warn!(session = %self.session.id, message = %fault.message, "a temporary session did not end");
        }
    }
}
