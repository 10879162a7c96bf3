//! `session.resize`: the size of the session's terminal.

use std::sync::Arc;

use trl_protocol::Fault;
use trl_protocol::session::{ResizeParams, Resized};
use trl_protocol::wire::{FromHost, ToHost};

use crate::ops::exec::resize::check_side;
use crate::runtime::Inner;
use crate::session::unexpected;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &ResizeParams) -> Result<Resized, Fault> {
    let (rows, cols) = (params.rows, params.cols);
    check_side("rows", rows)?;
    check_side("cols", cols)?;
    let session = runtime.living(&params.session_id).await?;
    match session.link.call(|req| ToHost::Size { req, rows, cols }).await?.message {
        FromHost::Taken { .. } => Ok(Resized { session_id: session.id, rows, cols }),
        other => Err(unexpected(session.id, &other)),
    }
}
