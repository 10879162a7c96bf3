//! `file.edit`

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::file::{EditParams, EditReply, FileDone, FileOp};

use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: EditParams) -> Result<EditReply, Fault> {
    let session_id = params.session_id.clone();
    let answered = super::ask(runtime, &session_id, FileOp::Edit(params)).await?;
    match answered.done {
        FileDone::Edited(reply) => Ok(reply),
        _ => Err(super::wrong_kind(answered.session)),
    }
}
