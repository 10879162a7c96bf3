//! `exec.screen`: what a person would see on the terminal of a command.

use std::sync::Arc;

use trl_protocol::exec::{Screen, ScreenParams};
use trl_protocol::wire::{FromHost, ToHost};
use trl_protocol::{Fault, methods};

use super::subject;
use crate::runtime::Inner;
use crate::session::unexpected;

pub(crate) async fn perform(runtime: &Arc<Inner>, params: &ScreenParams) -> Result<Screen, Fault> {
    let (session, exec) =
        subject::of::<methods::ExecScreen>(runtime, params.session_id.as_deref(), params.exec_id.as_deref())
            .await?;
    match session.link.call(|req| ToHost::Screen { req, exec }).await?.message {
        FromHost::Screen { screen, .. } => Ok(*screen),
        other => Err(unexpected(session.id, &other)),
    }
}
