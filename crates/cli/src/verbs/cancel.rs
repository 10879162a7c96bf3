//! `trl cancel`: ends a command; its session stays.

use trl_protocol::exec::{CancelParams, SignalName};
use trl_protocol::methods;

use crate::context::Context;
use crate::failure::Result;
use crate::{output, target};

/// End a command; its session and its state stay
///
/// Without --signal: INT, then TERM, then KILL, with a grace period between them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A session (what runs in it now) or a command's id
    #[arg(value_name = "SESSION|COMMAND_ID")]
    target: String,
    /// Send just this signal, by name or number
    #[arg(short = 'S', long, value_name = "SIGNAL")]
    signal: Option<String>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let signal = args.signal.as_ref().map(|signal| match signal.parse() {
        Ok(number) => SignalName::Number(number),
        Err(_) => SignalName::Name(signal.clone()),
    });
    let params = CancelParams { signal, ..target::cancel_params(&args.target) };
    let cancelled = context.client().await?.call::<methods::ExecCancel>(&params).await?;
    match cancelled.exec_id {
        _ if context.output.json => context.output.json(&cancelled)?,
        Some(exec) if cancelled.cancelled => context.output.line(exec.to_string())?,
        Some(_) | None => output::note(&format!("nothing runs in {}", args.target)),
    }
    Ok(0)
}
