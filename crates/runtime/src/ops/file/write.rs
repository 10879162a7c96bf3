//! `file.write`

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use trl_protocol::Fault;
use trl_protocol::exec::Encoding;
use trl_protocol::file::{FileDone, FileOp, WriteParams, WriteReply};

use crate::runtime::Inner;

pub(crate) async fn perform(runtime: &Arc<Inner>, mut params: WriteParams) -> Result<WriteReply, Fault> {
    let session_id = params.session_id.clone();
    let text = std::mem::take(&mut params.content);
    let content = match params.encoding {
        Encoding::Utf8 => text.into_bytes(),
        Encoding::Base64 => STANDARD.decode(&text).map_err(|error| {
            Fault::invalid(format!("param `content` is not base64: {error}"))
                .with_details(serde_json::json!({ "field": "content" }))
        })?,
    };
    let answered = super::ask(runtime, &session_id, FileOp::Write(params, content)).await?;
    match answered.done {
        FileDone::Written(reply) => Ok(reply),
        _ => Err(super::wrong_kind(answered.session)),
    }
}
