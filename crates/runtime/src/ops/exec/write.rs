//! `exec.write`: stdin of a running command.
//!
//! A client that is not sure whether its write arrived sends it again under the same
//! `write_id`, and it is applied once. Without one, the same data under the same request
//! id counts as a repetition if that id is a string: numbers merely count requests, and
//! even strings are used again, with other data, by clients that connect anew each time.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::exec::{WriteParams, Written};
use trl_protocol::wire::{FromHost, ToHost};

use super::spec;
use crate::caller::Caller;
use crate::runtime::Inner;
use crate::session::unexpected;

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: WriteParams,
    caller: &Caller,
) -> Result<Written, Fault> {
    let (session, exec) = runtime.of_exec(&params.exec_id).await?;
    let data = spec::decoded("data", params.data, params.stdin_encoding.unwrap_or(params.encoding))?;
    let write_id =
        params.write_id.or_else(|| Some(repetition(caller.request_id.as_deref()?, &data, params.eof)));
    let eof = params.eof;
    let answer = session.link.call(|req| ToHost::Write { req, exec, data, eof, write_id }).await?;
    match answer.message {
        FromHost::Wrote { exec, bytes, eof, duplicate, .. } => {
            Ok(Written { exec_id: session.exec_id(exec), bytes, eof, duplicate })
        }
        other => Err(unexpected(session.id, &other)),
    }
}

/// Tells a repeated write from another one under the same request id.
pub(crate) fn repetition(request_id: &str, data: &[u8], eof: bool) -> String {
    let mut hasher = DefaultHasher::new();
    (data, eof).hash(&mut hasher);
    format!("{request_id}/{:016x}", hasher.finish())
}
