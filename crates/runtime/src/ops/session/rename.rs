//! `session.rename`: another name for a living session, stored by its host.

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::session::{RenameParams, Renamed};
use trl_protocol::wire::ToHost;

use super::create::check_name;
use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: RenameParams) -> Result<Renamed, Fault> {
    let name = params.name;
    check_name(&name)?;
    let session = runtime.living(&params.session_id).await?;
    let _one_at_a_time = session.renaming.lock().await;
    let old = runtime.registry.add_name(&name, &session)?;
    let answer = session.link.call(|req| ToHost::Rename { req, name: name.clone() }).await;
    let renamed = answer.and_then(|answer| session.learn(answer));
    let kept = if renamed.is_ok() { Some(name.clone()) } else { old };
    runtime.registry.keep_name(kept, &session);
    session.backend.remember(&renamed?);
    runtime.session_renamed(&session);
    Ok(Renamed { session_id: session.id, name })
}
