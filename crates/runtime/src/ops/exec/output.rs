//! `exec.output`: a range of a command's kept output.

use std::sync::Arc;

use trl_protocol::exec::{Encoding, OutputParams, OutputReply};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Fault, limits};

use crate::output;
use crate::runtime::Inner;
use crate::session::unexpected;
use crate::text::incomplete_tail;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &OutputParams) -> Result<OutputReply, Fault> {
    let (session, exec) = runtime.registry.of_exec(&params.exec_id)?;
    let limit = params.limit.unwrap_or(limits::MAX_RANGE_BYTES).min(limits::MAX_RANGE_BYTES);
    let (stream, asked) = (params.stream, params.offset);
    let answer = session.link.call(|req| ToHost::Output { req, exec, stream, offset: asked, limit }).await?;
    let FromHost::Range { offset, mut next_offset, total, dropped, .. } = answer.message else {
        return Err(unexpected(session.id, &answer.message));
    };
    let mut bytes = answer.ranges.into_iter().next().map(|range| range.bytes).unwrap_or_default();
    if params.encoding == Encoding::Utf8 && next_offset < total {
        // The next range begins with the whole character, unless one is all that was asked for.
        let torn = incomplete_tail(&bytes);
        if torn < bytes.len() {
            bytes.truncate(bytes.len() - torn);
            next_offset -= torn as u64;
        }
    }
    let (encoded, lossy) = output::encode(bytes, params.encoding);
    let (text, base64) = match params.encoding {
        Encoding::Utf8 => (Some(encoded), None),
        Encoding::Base64 => (None, Some(encoded)),
    };
    Ok(OutputReply { text, base64, offset, next_offset, total_bytes: total, dropped_bytes: dropped, lossy })
}
