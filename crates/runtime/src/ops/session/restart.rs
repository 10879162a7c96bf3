//! `session.restart`: a fresh shell in the same session.

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::session::{Restarted, SessionParams};
use trl_protocol::wire::ToHost;

use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &SessionParams) -> Result<Restarted, Fault> {
    let session = runtime.registry.living(&params.session_id)?;
    let answer = session.link.call(|req| ToHost::Restart { req }).await?;
    let info = session.learn(answer)?;
    Ok(Restarted {
        session_id: info.session_id,
        state: info.state,
        pid: info.pid,
        restarts: info.restarts,
        working_dir: info.working_dir,
    })
}
