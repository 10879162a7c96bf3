//! `autorespond`: a program that answers while no session is there.

use schemars::JsonSchema;
use serde::Deserialize;
use trl_protocol::mail::{AnswerCommand, Autorespond as Answer, AutorespondParams, Switch};
use trl_protocol::{Fault, methods};

use crate::toolbox::{Call, Hints, Spec};

pub(crate) struct Autorespond;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    action: Switch,
    /// Program and arguments, without a shell: the message as JSON on stdin, its stdout is the answer
    #[serde(default)]
    command: Option<Vec<String>>,
    /// Let it use the network
    #[serde(default)]
    network: Option<bool>,
}

impl Spec for Autorespond {
    const NAME: &'static str = "autorespond";
    const ABOUT: &'static str = "Let a program answer messages while none of the agent's sessions is live; off unless your user wants it.";
    const HINTS: Hints = Hints::Destroys { idempotent: true };
    const OPEN_WORLD: bool = true;
    type Args = Args;
    type Answer = Answer;

    async fn call(args: Args, call: Call) -> Result<(String, Answer), Fault> {
        let params = AutorespondParams {
            action: Some(args.action),
            command: args.command.map(AnswerCommand::Words),
            network: args.network,
            ..AutorespondParams::default()
        };
        let state: Answer = call.guest.mail::<methods::MailAutorespond>(params, None).await?;
        let how = if state.on { "on" } else { "off" };
        Ok((format!("[autorespond is {how}; {} answered today]", state.answered_today), state))
    }
}
