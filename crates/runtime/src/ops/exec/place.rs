//! The session that a command runs in: the one that it names, or a temporary one.
//!
//! A temporary session is created for one command and does not count against the limit on
//! sessions. It ends with the reply. If the command outlives the reply, has more output than that
//! or may be sent again (`run_id`), its output stays readable until the session's idle timeout.

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
    kind: Kind,
}

/// What the client was told of a command that does not continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    /// It did not run, or nothing is known of it.
    Failure,
    WholeReply,
    /// Its output is longer than the reply.
    PartOfReply,
}

enum Kind {
    Named,
    /// Ends with the reply.
    Temporary,
    /// The command may be sent again.
    OfRun,
}

impl CommandSession {
    pub(super) async fn of(
        runtime: &Arc<Inner>,
        params: &RunParams,
        caller: &Caller,
    ) -> Result<CommandSession, Fault> {
        // A request without a command is refused before anything is looked up or created for it.
        spec::command(params.command.clone(), params.argv.clone())?;
        let (session, kind) = match (&params.session_id, &params.run_id) {
            (Some(named), _) => (runtime.living(named).await?, Kind::Named),
            (None, None) => (create::temporary(runtime, caller).await?, Kind::Temporary),
            (None, Some(run_id)) => (of_run(runtime, run_id, caller).await?, Kind::OfRun),
        };
        Ok(CommandSession { session, kind })
    }

    /// Nothing more happens for this request: a temporary session has had its use, unless somebody may come back for
    /// its output.
    pub(super) async fn leave(self, runtime: &Inner, after: After) {
        let over = match (self.kind, after) {
            (Kind::Named, _) => None,
            // A command that was sent under the same id before may run there.
            (Kind::OfRun, After::Failure) => {
                let info = self.session.info().await;
                info.is_ok_and(|info| info.command_count == 0).then_some(self.session)
            }
            (Kind::Temporary, After::Failure | After::WholeReply) => Some(self.session),
            (Kind::Temporary, After::PartOfReply) | (Kind::OfRun, _) => runtime
                .temporary
                .keep(self.session.id)
                .and_then(|oldest| runtime.registry.living(&oldest.to_string()).ok()),
        };
        let Some(session) = over else { return };
        if let Err(fault) = destroy::end(&session, true).await {
            tracing::warn!(session = %session.id, message = %fault.message, "a temporary session did not end");
        }
    }
}

/// The temporary session of the command that has this id: made once, however often it is sent.
async fn of_run(runtime: &Arc<Inner>, run_id: &str, caller: &Caller) -> Result<Arc<Session>, Fault> {
    let cell = runtime.temporary.of_run(caller, run_id, |id| runtime.registry.is_present(id));
    let create = || async { Ok::<_, Fault>(create::temporary(runtime, caller).await?.id) };
    let id = *cell.get_or_try_init(create).await?;
    runtime.living(&id.to_string()).await
}
