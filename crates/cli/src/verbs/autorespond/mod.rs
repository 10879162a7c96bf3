//! `trl agent autorespond`: a command that answers while nobody of an agent is there.

mod claude;

use std::path::Path;

use trl_protocol::agent::CallerParams;
use trl_protocol::mail::{AnswerCommand, Autorespond, AutorespondParams, Switch};
use trl_protocol::methods;

use crate::context::Context;
use crate::failure::Result;
use crate::identity::Who;
use crate::quote;

/// Answer mail automatically while no session is live
///
/// The command gets the message as JSON on stdin; what it says on stdout is the answer. It is
/// confined: it can read programs and the files it is given by name, write in a directory of
/// its own, and reach nothing else. Answers are marked as automatic and never answered by
/// another machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    who: Who,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// From now on
    On {
        /// Let the command use the network
        #[arg(long)]
        network: bool,
        /// Let a headless run of this program answer, without tools; credentials are taken from the environment
        #[arg(long, value_enum, conflicts_with = "command")]
        harness: Option<Responder>,
        /// Program and arguments
        #[arg(last = true, required_unless_present = "harness", value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// No more
    Off,
    /// Whether it is on; so does `trl agent autorespond` alone
    Status,
}

/// A program that can answer by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Responder {
    ClaudeCode,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let mut line = args.who.speak(&client).await?;
    let who = line.call::<methods::AgentWhoami>(&CallerParams::default()).await?;
    let settings = claude::settings_file(&context.settings.places.state, &who.address);
    let asked = |action| AutorespondParams { action: Some(action), ..AutorespondParams::default() };
    let params = match &args.action {
        Some(Action::On { harness: Some(Responder::ClaudeCode), .. }) => AutorespondParams {
            command: Some(AnswerCommand::Words(claude::command(&settings)?)),
            // Its model is there.
            network: Some(true),
            ..asked(Switch::On)
        },
        Some(Action::On { network, command, harness: None }) => AutorespondParams {
            command: Some(AnswerCommand::Words(command.clone())),
            network: network.then_some(true),
            ..asked(Switch::On)
        },
        Some(Action::Off) => asked(Switch::Off),
        Some(Action::Status) | None => asked(Switch::Status),
    };
    let found = line.call::<methods::MailAutorespond>(&params).await;
    let uses = |found: &Autorespond| {
        found.on && found.command.iter().flatten().any(|word| Path::new(word) == settings)
    };
    // Credentials do not stay longer than what needs them.
    match &found {
        Ok(found) if uses(found) => {}
        Err(_) if params.action != Some(Switch::On) => {}
        Ok(_) | Err(_) => claude::remove(&settings)?,
    }
    let found = found?;
    if context.output.json {
        context.output.json(&found)?;
    } else {
        context.output.line(described(&found))?;
    }
    Ok(0)
}

fn described(found: &Autorespond) -> String {
    let Some(command) = found.command.as_ref().filter(|_| found.on) else { return "off".to_owned() };
    let network = if found.network { ", with network" } else { "" };
    let words: Vec<_> = command.iter().map(|word| quote::quoted(word)).collect();
    format!(
        "on: {} (sandbox: {}{network}; {} answered in the last 24 hours)",
        words.join(" "),
        found.sandbox,
        found.answered_today
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_is_told_in_one_line() {
        let mut found = Autorespond {
            on: true,
            command: Some(vec!["sh".into(), "-c".into(), "echo later".into()]),
            network: true,
            sandbox: "landlock+seccomp".into(),
            answered_today: 2,
        };
        assert_eq!(
            described(&found),
            "on: sh -c 'echo later' (sandbox: landlock+seccomp, with network; 2 answered in the last 24 hours)"
        );
        found.on = false;
        assert_eq!(described(&found), "off");
    }
}
