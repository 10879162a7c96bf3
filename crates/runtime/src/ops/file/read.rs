//! `file.read`

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::exec::Encoding;
use trl_protocol::file::{FileDone, FileOp, ReadParams, ReadReply};

use crate::output;
use crate::runtime::Inner;
use crate::text::incomplete_tail;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: ReadParams) -> Result<ReadReply, Fault> {
    let (session_id, encoding) = (params.session_id.clone(), params.encoding);
    let mut answered = super::ask(runtime, &session_id, FileOp::Read(params)).await?;
    let FileDone::Read { offset, mut next_offset, total, ref sha256 } = answered.done else {
        return Err(super::wrong_kind(answered.session));
    };
    let sha256 = sha256.clone();
    let bytes = &mut answered.bytes;
    if encoding == Encoding::Utf8 && next_offset < total {
        // The next part begins with the whole character, unless one is all that was asked for.
        let torn = incomplete_tail(bytes);
        if torn < bytes.len() {
            bytes.truncate(bytes.len() - torn);
            next_offset -= torn as u64;
        }
    }
    let (encoded, lossy) = output::encode(answered.bytes, encoding);
    let (text, base64) = match encoding {
        Encoding::Utf8 => (Some(encoded), None),
        Encoding::Base64 => (None, Some(encoded)),
    };
    Ok(ReadReply { text, base64, offset, next_offset, total_bytes: total, sha256, lossy })
}
