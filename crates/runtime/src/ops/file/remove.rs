//! `file.remove`

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::file::{FileDone, FileOp, RemoveParams, Removed};

use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: RemoveParams) -> Result<Removed, Fault> {
    let session_id = params.session_id.clone();
    let answered = super::ask(runtime, &session_id, FileOp::Remove(params)).await?;
    match answered.done {
        FileDone::Removed(reply) => Ok(reply),
        _ => Err(super::wrong_kind(answered.session)),
    }
}
