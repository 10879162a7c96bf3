//! `trl kill`: ends sessions and every process they started.

use serde_json::json;
use trl_protocol::methods;
use trl_protocol::session::{DestroyParams, ListParams};

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::output;

/// End sessions and everything they started
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Names or ids of sessions
    #[arg(value_name = "SESSION", required_unless_present = "all")]
    sessions: Vec<String>,
    /// All of them, without those that others have made on other daemons
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    /// Kill immediately, without TERM and a grace period
    #[arg(short, long)]
    force: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let sessions = if args.all {
        let list = client.call::<methods::SessionList>(&ListParams::default()).await?;
        let ours = list.sessions.iter().filter(|session| session.foreign.is_none());
        ours.map(|session| session.session_id.to_string()).collect()
    } else {
        args.sessions.clone()
    };
    let mut ended = Vec::new();
    let mut failed: Option<Failure> = None;
    // One that fails must not save the others.
    for session_id in sessions {
        match client.call::<methods::SessionDestroy>(&DestroyParams { session_id, force: args.force }).await {
            Ok(destroyed) if context.output.json => ended.push(destroyed),
            Ok(destroyed) => context.output.line(destroyed.session_id.to_string())?,
            Err(error) => {
                let failure = Failure::from(error);
                if let Some(earlier) = failed.replace(failure) {
                    output::note(earlier.message());
                }
            }
        }
    }
    match failed {
        Some(failure) => Err(failure),
        None if context.output.json => context.output.json(&json!({ "sessions": ended })).map(|()| 0),
        None => Ok(0),
    }
}
