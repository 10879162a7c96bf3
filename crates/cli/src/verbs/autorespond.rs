//! `trl agent autorespond`: a command that answers while nobody of an agent is there.

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
        /// Program and arguments
        #[arg(last = true, required = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// No more
    Off,
    /// Whether it is on; so does `trl agent autorespond` alone
    Status,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let mut line = args.who.speak(&client).await?;
    let asked = |action| AutorespondParams { action: Some(action), ..AutorespondParams::default() };
    let params = match &args.action {
        Some(Action::On { network, command }) => AutorespondParams {
            command: Some(AnswerCommand::Words(command.clone())),
            network: network.then_some(true),
            ..asked(Switch::On)
        },
        Some(Action::Off) => asked(Switch::Off),
        Some(Action::Status) | None => asked(Switch::Status),
    };
    let found = line.call::<methods::MailAutorespond>(&params).await?;
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
