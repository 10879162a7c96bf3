//! `file.make_dir`

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::file::{FileDone, FileOp, MadeDir, MakeDirParams};

use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: MakeDirParams) -> Result<MadeDir, Fault> {
    let session_id = params.session_id.clone();
    let answered = super::ask(runtime, &session_id, FileOp::MakeDir(params)).await?;
    match answered.done {
        FileDone::MadeDir(reply) => Ok(reply),
        _ => Err(super::wrong_kind(answered.session)),
    }
}
