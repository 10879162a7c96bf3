//! `trl shutdown`: ends the daemon, with or without its sessions.

use serde_json::json;
use trl_protocol::system::ShutdownParams;

use crate::context::Context;
use crate::failure::Result;
use crate::output;

/// End the daemon and its sessions
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave the sessions running for the next daemon
    #[arg(long)]
    keep_sessions: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let socket = context.settings.socket.display();
    let Some(client) = context.running().await? else {
        if context.output.json {
            context.output.json(&json!({ "pid": null, "keep_sessions": args.keep_sessions }))?;
        } else {
            output::note(&format!("no daemon listens at {socket}; nothing to end"));
        }
        return Ok(0);
    };
    let gone = client.shutdown(&ShutdownParams { keep_sessions: args.keep_sessions }).await?;
    if context.output.json {
        context.output.json(&gone)?;
    } else {
        let sessions = if args.keep_sessions { "its sessions stay" } else { "its sessions are ended" };
        output::note(&format!("the daemon (pid {}) has ended; {sessions}", gone.pid));
    }
    Ok(0)
}
