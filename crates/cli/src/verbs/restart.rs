//! `trl restart`: replaces a running daemon by one of this binary; sessions stay.

use serde_json::json;
use trl_protocol::methods;
use trl_protocol::session::ListParams;
use trl_protocol::system::{NoParams, ShutdownParams};

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;

/// Replace the running daemon with this binary; sessions and their commands continue
///
/// The new daemon takes its settings from the environment and the config file, as one
/// that is started on demand does.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) async fn run(_args: &Args, context: &Context) -> Result<u8> {
    let Some(old) = context.running().await? else {
        return Err(Failure::unavailable(format!(
            "no daemon listens at {}; there is nothing to replace",
            context.settings.socket.display()
        ))
        .hint("any verb that needs one starts one: `trl ls`"));
    };
    let before = old.shutdown(&ShutdownParams { keep_sessions: true }).await?;
    drop(old);
    let new = context.started().await?;
    let info = new.call::<methods::SystemInfo>(&NoParams {}).await?;
    let sessions = new.call::<methods::SessionList>(&ListParams::default()).await?.sessions;
    let sessions = sessions.iter().filter(|session| session.foreign.is_none()).count();
    if context.output.json {
        context.output.json(&json!({
            "old_pid": before.pid,
            "pid": info.pid,
            "version": info.version,
            "sessions": sessions,
        }))?;
    } else {
        output::note(&format!(
            "the daemon is replaced (pid {} by {}, version {}); {sessions} sessions live on",
            before.pid, info.pid, info.version
        ));
    }
    Ok(0)
}
