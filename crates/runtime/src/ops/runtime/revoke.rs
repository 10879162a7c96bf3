//! `runtime.revoke`: the grant ends first, then the sessions under it, then its holder is told.

use std::sync::Arc;

use trl_mail::envelope::RuntimeWord;
use trl_protocol::Fault;
use trl_protocol::grant::{RevokeParams, Revoked};

use crate::grants::ending;
use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &RevokeParams) -> Result<Revoked, Fault> {
    let grant = runtime.grants.revoke(&params.grant_id)?;
    let lived =
        grant.sessions.iter().copied().filter(|id| runtime.registry.is_present(*id)).collect::<Vec<_>>();
    ending::end_sessions(runtime, &grant).await;
    tracing::info!(grant = grant.id, sessions = lived.len(), "a grant was revoked");
    let word = RuntimeWord::Revoked { grant_id: grant.id.clone() };
    let text = format!("the grant {} was revoked; the sessions under it have ended", grant.id);
    let told = match runtime.mailroom.mail().await {
        Ok(mail) => {
            mail.tell_of_runtime(&grant.granted_by.address, &grant.agent.address, text, word, None).await
        }
        Err(fault) => Err(fault),
    };
    if let Err(fault) = told {
        // The token opens nothing any more, whether or not its holder knows why.
        tracing::warn!(grant = grant.id, message = %fault.message, "the holder of a revoked grant could not be told");
    }
    Ok(Revoked { grant_id: grant.id, agent: grant.agent.name, sessions: lived })
}
