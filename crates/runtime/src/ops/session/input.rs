//! `session.input`: keys of a person, to the command on the terminal or to the prompt.

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::session::{InputParams, InputTaken};
use trl_protocol::wire::{FromHost, ToHost};

use crate::ops::exec::spec::decoded;
use crate::runtime::Inner;
use crate::session::unexpected;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: InputParams) -> Result<InputTaken, Fault> {
    let session = runtime.living(&params.session_id).await?;
    let data = decoded("data", params.data, params.encoding)?;
    let bytes = data.len() as u64;
    match session.link.call(|req| ToHost::Keys { req, data }).await?.message {
        FromHost::Taken { .. } => Ok(InputTaken { session_id: session.id, bytes }),
        other => Err(unexpected(session.id, &other)),
    }
}
