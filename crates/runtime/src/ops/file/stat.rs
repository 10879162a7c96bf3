//! `file.stat`

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::file::{FileDone, FileEntry, FileOp, StatParams};

use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: StatParams) -> Result<FileEntry, Fault> {
    let session_id = params.session_id.clone();
    let answered = super::ask(runtime, &session_id, FileOp::Stat(params)).await?;
    match answered.done {
        FileDone::Stat(reply) => Ok(reply),
        _ => Err(super::wrong_kind(answered.session)),
    }
}
