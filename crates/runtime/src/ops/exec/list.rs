//! `exec.list`: the commands of one session, or of all, oldest first.

use std::sync::Arc;

use tokio::task::JoinSet;
use trl_protocol::Fault;
use trl_protocol::exec::{ExecInfo, ExecList, ListParams};
use trl_protocol::wire::{FromHost, ToHost};

use crate::caller::Caller;
use crate::link::{Answer, End};
use crate::registry::Found;
use crate::remote;
use crate::runtime::Inner;
use crate::session::{Session, unexpected};

/// Under a grant, only the commands of sessions that were created under it.
pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: &ListParams,
    caller: &Caller,
) -> Result<ExecList, Fault> {
    let mut execs = match &params.session_id {
        Some(session) => match runtime.find(session).await? {
            Found::Living(session) => of(&session).await?,
            Found::Past { end: End::Lost | End::Damaged { .. }, info, backend } => {
                backend.lost_session(*info).await?.list()
            }
            other => return Err(other.refusal()),
        },
        None if params.own || caller.grant.is_some() => of_all(runtime).await,
        None => {
            let (mut execs, remote) = tokio::join!(of_all(runtime), remote::execs(runtime));
            execs.extend(remote);
            execs
        }
    };
    if let Some(grant) = &caller.grant {
        execs.retain(|exec| runtime.grants.owns(grant, exec.session_id));
    }
    execs.sort_by(|a, b| (&a.created_at, a.exec_id).cmp(&(&b.created_at, b.exec_id)));
    Ok(ExecList { execs })
}

/// A session that ends meanwhile, or whose host does not answer, is left out.
async fn of_all(runtime: &Arc<Inner>) -> Vec<ExecInfo> {
    let mut asked = JoinSet::new();
    for session in runtime.registry.all_living() {
        asked.spawn(async move {
            let answer = session.ask_in_time(|req| ToHost::List { req }).await?;
            listed(&session, answer).ok()
        });
    }
    asked.join_all().await.into_iter().flatten().flatten().collect()
}

async fn of(session: &Session) -> Result<Vec<ExecInfo>, Fault> {
    listed(session, session.link.call(|req| ToHost::List { req }).await)
}

fn listed(session: &Session, answer: Result<Answer, Fault>) -> Result<Vec<ExecInfo>, Fault> {
    match answer?.message {
        FromHost::Execs { execs, .. } => Ok(execs),
        other => Err(unexpected(session.id, &other)),
    }
}
