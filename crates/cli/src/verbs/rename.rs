//! `trl rename`: gives a session another name.

use trl_protocol::methods;
use trl_protocol::session::RenameParams;

use crate::context::Context;
use crate::failure::Result;

/// Give a session another name
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Name or id of the session
    session: String,
    /// Its new name: 1 to 64 letters, digits and . _ : -
    name: String,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<u8> {
    let params = RenameParams { session_id: args.session, name: args.name };
    let renamed = context.client().await?.call::<methods::SessionRename>(&params).await?;
    if context.output.json {
        context.output.json(&renamed)?;
    } else {
        context.output.line(renamed.session_id.to_string())?;
    }
    Ok(0)
}
