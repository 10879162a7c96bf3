//! `exec.write`: stdin of a running command.
//!
//! A client that is not sure whether its write arrived sends it again under the same
//! `write_id`, and it is applied once. Without one, the same data under the same request
//! id counts as a repetition if that id is a string: numbers merely count requests, and
//! even strings are used again, with other data, by clients that connect anew each time.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use trl_protocol::exec::{Encoding, WriteParams, Written};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Fault, limits};

use super::spec::too_much_stdin;
use crate::caller::Caller;
use crate::runtime::Inner;
use crate::session::unexpected;

pub(crate) async fn perform(
    runtime: &Arc<Inner>,
    params: WriteParams,
    caller: &Caller,
) -> Result<Written, Fault> {
    let (session, exec) = runtime.registry.of_exec(&params.exec_id)?;
    let data = decoded(params.data, params.encoding)?;
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

/// The bytes of the param `data`.
pub(crate) fn decoded(data: String, encoding: Encoding) -> Result<Vec<u8>, Fault> {
    let data = match encoding {
        Encoding::Utf8 => data.into_bytes(),
        Encoding::Base64 => STANDARD.decode(&data).map_err(|error| {
            Fault::invalid(format!("param `data` is no base64: {error}"))
                .with_details(serde_json::json!({ "field": "data" }))
        })?,
    };
    if data.len() > limits::MAX_STDIN_BYTES { Err(too_much_stdin("data")) } else { Ok(data) }
}

/// Tells a repeated write from another one under the same request id.
fn repetition(request_id: &str, data: &[u8], eof: bool) -> String {
    let mut hasher = DefaultHasher::new();
    (data, eof).hash(&mut hasher);
    format!("{request_id}/{:016x}", hasher.finish())
}
