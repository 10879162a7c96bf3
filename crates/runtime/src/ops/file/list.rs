//! `file.list`

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::file::{FileDone, FileOp, ListParams, ListReply};

use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: ListParams) -> Result<ListReply, Fault> {
    let session_id = params.session_id.clone();
    let answered = super::ask(runtime, &session_id, FileOp::List(params)).await?;
    match answered.done {
        FileDone::Listed(reply) => Ok(reply),
        _ => Err(super::wrong_kind(answered.session)),
    }
}
