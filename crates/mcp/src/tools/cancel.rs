//! `cancel`: ends a command, not its shell.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use trl_protocol::exec::{CancelParams, ExecInfo, SignalName};
use trl_protocol::{Code, Fault, methods};

use super::output::info;
use crate::fault;
use crate::report::{Progress, State, ending_of};
use crate::toolbox::{Call, Hints, Spec};

/// INT, TERM and KILL with the grace between them, and some more.
const PATIENCE: Duration = Duration::from_secs(15);
/// A single signal may end the command or not.
const AFTER_SIGNAL: Duration = Duration::from_secs(2);

pub(crate) struct Cancel;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Default: what runs in the foreground of the session
    #[serde(default)]
    exec_id: Option<String>,
    /// Default: your own
    #[serde(default)]
    session: Option<String>,
    /// Just this one, such as TERM or KILL, instead of INT, then TERM, then KILL
    #[serde(default)]
    signal: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// False if there was nothing to cancel.
    cancelled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    exec_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
}

impl Spec for Cancel {
    const NAME: &'static str = "cancel";
    const ABOUT: &'static str = "End a running command. The shell and its state stay.";
    const HINTS: Hints = Hints::Destroys { idempotent: true };
    const OPEN_WORLD: bool = false;
    type Args = Args;
    type Answer = Answer;

    async fn call(args: Args, call: Call) -> Result<(String, Answer), Fault> {
        let patience = if args.signal.is_some() { AFTER_SIGNAL } else { PATIENCE };
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
                let exec_id = exec_id.to_string();
                ended(&call, &exec_id, patience).await?;
                Ok(told(exec_id.clone(), &info(&call.guest.client, &exec_id).await?))
            }
            _ => Ok(nothing()),
        }
    }
}

/// Waits for the end: whoever cancels a command wants to do something next.
async fn ended(call: &Call, exec_id: &str, patience: Duration) -> Result<(), Fault> {
    let params = json!({ "exec_id": exec_id, "timeout_s": patience.as_secs_f64() });
    let waited = tokio::select! {
        waited = call.guest.client.call_as::<methods::ExecWait, serde_json::Value>(params) => waited,
        () = call.ct.cancelled() => return Ok(()),
    };
    match waited.map_err(fault::of) {
        Err(fault) if fault.code != Code::WaitTimeout => Err(fault),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn told(exec_id: String, info: &ExecInfo) -> (String, Answer) {
    let progress = Progress::of(info);
    let (state, exit_code, how) = match &progress {
        Progress::Finished(outcome) => {
            (State::Finished, outcome.exit_code, format!("ended: {}", ending_of(outcome)))
        }
        Progress::Waiting { .. } => (State::Waiting, None, "continues and waits for input".to_owned()),
        Progress::Running => (State::Running, None, "has not ended yet; use wait".to_owned()),
        Progress::Queued => (State::Queued, None, "has not begun".to_owned()),
    };
    let text = format!("[{exec_id} {how}]");
    (text, Answer { cancelled: true, exec_id: Some(exec_id), state: Some(state), exit_code })
}

fn nothing() -> (String, Answer) {
    let answer = Answer { cancelled: false, exec_id: None, state: None, exit_code: None };
    ("[nothing was running]".to_owned(), answer)
}
