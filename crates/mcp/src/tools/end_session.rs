//! `end_session`: a shell and everything it ever started.

use schemars::JsonSchema;
use serde::Deserialize;
use trl_protocol::session::{DestroyParams, Destroyed};
use trl_protocol::{Code, Fault};

use crate::fault;
use crate::toolbox::{Call, Hints, Spec};

pub(crate) struct EndSession;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Default: your own
    #[serde(default)]
    session: Option<String>,
    /// Kill at once
    #[serde(default)]
    force: bool,
}

impl Spec for EndSession {
    const NAME: &'static str = "end_session";
    const ABOUT: &'static str =
        "End a shell and every process it started. The next run without a session gets a fresh one.";
    const HINTS: Hints = Hints::Destroys { idempotent: true };
    const OPEN_WORLD: bool = false;
    type Args = Args;
    type Answer = Destroyed;

    async fn call(args: Args, call: Call) -> Result<(String, Destroyed), Fault> {
        let own = call.guest.own_id().await;
        let session_id = match (args.session, own) {
            (Some(session), _) => session,
            (None, Some(own)) => own.to_string(),
            (None, None) => {
                return Err(Fault::new(
                    Code::SessionNotFound,
                    "you have no session of your own yet; run makes one",
                ));
            }
        };
        let params = DestroyParams { session_id, force: args.force };
        let ended = call.guest.client.session_destroy(&params).await.map_err(fault::of)?;
        call.guest.forget_own(ended.session_id).await;
        Ok((format!("[session {} is ended]", ended.session_id), ended))
    }
}
