//! `exec.output`: a range of a command's kept output.

use std::sync::Arc;

use trl_protocol::exec::{Encoding, OutputParams, OutputReply};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Fault, limits};

use crate::backend::LostSession;
use crate::lookup::ExecSource;
use crate::output::{self, Range};
use crate::runtime::Inner;
use crate::session::{Session, unexpected};
use crate::text::incomplete_tail;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &OutputParams) -> Result<OutputReply, Fault> {
    let limit = params.limit.unwrap_or(limits::MAX_RANGE_BYTES).min(limits::MAX_RANGE_BYTES);
    let Kept { offset, mut bytes, mut next_offset, total, dropped } =
        match runtime.exec(&params.exec_id).await? {
            ExecSource::Host(session, exec) => from_host(&session, exec, params, limit).await?,
            ExecSource::Disk(lost, exec) => from_disk(&lost, exec, params, limit)?,
        };
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

/// A range as it is kept.
struct Kept {
    offset: u64,
    bytes: Vec<u8>,
    next_offset: u64,
    total: u64,
    dropped: u64,
}

async fn from_host(session: &Session, exec: u64, params: &OutputParams, limit: u64) -> Result<Kept, Fault> {
    let (stream, asked) = (params.stream, params.offset);
    let answer = session.link.call(|req| ToHost::Output { req, exec, stream, offset: asked, limit }).await?;
    let FromHost::Range { offset, next_offset, total, dropped, .. } = answer.message else {
        return Err(unexpected(session.id, &answer.message));
    };
    let bytes = answer.ranges.into_iter().next().map(|range| range.bytes).unwrap_or_default();
    Ok(Kept { offset, bytes, next_offset, total, dropped })
}

fn from_disk(lost: &LostSession, exec: u64, params: &OutputParams, limit: u64) -> Result<Kept, Fault> {
    let (total, dropped) = lost.sizes(exec, params.stream)?;
    let Range { offset, bytes, .. } = lost.range(exec, params.stream, params.offset, limit)?;
    Ok(Kept { next_offset: offset + bytes.len() as u64, offset, bytes, total, dropped })
}
