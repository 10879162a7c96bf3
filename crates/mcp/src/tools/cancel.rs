//! `cancel`: ends a command, not its shell.

use schemars::JsonSchema;
use serde::Deserialize;
use trl_protocol::Fault;
use trl_protocol::exec::{CancelParams, Cancelled, SignalName};

use crate::fault;
use crate::toolbox::{Call, Hints, Spec};

pub(crate) struct Cancel;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The command. Default: what runs in the foreground of the session
    #[serde(default)]
    exec_id: Option<String>,
    /// Default: your own
    #[serde(default)]
    session: Option<String>,
    /// Just this one, such as TERM or KILL, instead of INT, then TERM, then KILL
    #[serde(default)]
    signal: Option<String>,
}

impl Spec for Cancel {
    const NAME: &'static str = "cancel";
    const ABOUT: &'static str = "End a running command. The shell and its state stay.";
    const HINTS: Hints = Hints::Destroys { idempotent: true };
    const OPEN_WORLD: bool = false;
    const NEEDS: &'static [&'static str] = &["exec.cancel"];
    type Args = Args;
    type Answer = Cancelled;

    async fn call(args: Args, call: Call) -> Result<(String, Cancelled), Fault> {
        let signal = args.signal.map(SignalName::Name);
        let session_id = match (&args.exec_id, args.session) {
            (Some(_), _) => None,
            (None, Some(session)) => Some(session),
            (None, None) => match call.guest.own_id().await {
                Some(own) => Some(own.to_string()),
                None => return Ok(nothing()),
            },
        };
        let params = CancelParams { session_id, exec_id: args.exec_id, signal };
        let cancelled = call.guest.client.exec_cancel(&params).await.map_err(fault::of)?;
        match (cancelled.cancelled, cancelled.exec_id) {
            (true, Some(exec_id)) => {
                Ok((format!("[{exec_id} is being ended; output tells how it went]"), cancelled))
            }
            _ => Ok(nothing()),
        }
    }
}

fn nothing() -> (String, Cancelled) {
    ("[nothing was running]".to_owned(), Cancelled { exec_id: None, cancelled: false })
}
