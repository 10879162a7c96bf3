//! `file.move`

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::file::{FileDone, FileOp, MoveParams, Moved};

use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: MoveParams) -> Result<Moved, Fault> {
    let session_id = params.session_id.clone();
    let answered = super::ask(runtime, &session_id, FileOp::Move(params)).await?;
    match answered.done {
        FileDone::Moved(reply) => Ok(reply),
        _ => Err(super::wrong_kind(answered.session)),
    }
}
