//! `exec.resize`: the size of the terminal that a command runs on.

use std::sync::Arc;

use trl_protocol::exec::{ResizeParams, Resized};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Fault, limits};

use crate::runtime::Inner;
use crate::session::unexpected;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &ResizeParams) -> Result<Resized, Fault> {
    let (rows, cols) = (params.rows, params.cols);
    check_side("rows", rows)?;
    check_side("cols", cols)?;
    let (session, exec) = runtime.of_exec(&params.exec_id).await?;
    match session.link.call(|req| ToHost::Resize { req, exec, rows, cols }).await?.message {
        FromHost::Resized { exec, .. } => Ok(Resized { exec_id: session.exec_id(exec), rows, cols }),
        other => Err(unexpected(session.id, &other)),
    }
}

pub(crate) fn check_side(field: &str, side: u16) -> Result<(), Fault> {
    if (1..=limits::MAX_TERMINAL_SIDE).contains(&side) {
        return Ok(());
    }
    Err(Fault::invalid(format!(
        "param `{field}`: a terminal cannot have {side} {field}; 1 to {} are possible",
        limits::MAX_TERMINAL_SIDE
    ))
    .with_details(serde_json::json!({ "field": field })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_that_no_terminal_has() {
        for (side, sound) in [(0, false), (1, true), (1000, true), (1001, false), (u16::MAX, false)] {
            assert_eq!(check_side("rows", side).is_ok(), sound, "{side}");
        }
    }
}
