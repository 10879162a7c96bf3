//! `trl fork`: another session with the state of one.

use trl_protocol::methods;
use trl_protocol::session::ForkParams;

use crate::context::Context;
use crate::failure::Result;

/// Create a session with the settings and the shell state of another one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name or id of the session to begin with
    session: String,
    /// Name of the new session: 1 to 64 letters, digits and . _ : -
    name: Option<String>,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<u8> {
    let params = ForkParams { session_id: args.session, name: args.name };
    let created = context.client().await?.call::<methods::SessionFork>(&params).await?;
    if context.output.json {
        context.output.json(&created)?;
    } else {
        context.output.line(created.session_id.to_string())?;
    }
    Ok(0)
}
