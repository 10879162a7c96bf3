//! `trl screen`: what a person would see on a command's terminal.

use trl_protocol::exec::{Screen, ScreenParams};
use trl_protocol::{ExecId, methods};

use crate::context::Context;
use crate::failure::Result;
use crate::output;
use crate::target;

/// Show the screen of a command on a terminal
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A session, by name or id, or a command's id
    #[arg(value_name = "SESSION|COMMAND_ID", default_value = target::DEFAULT)]
    named: String,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let named = Some(args.named.clone());
    let params = match args.named.parse::<ExecId>() {
        Ok(_) => ScreenParams { exec_id: named, session_id: None },
        Err(_) => ScreenParams { exec_id: None, session_id: named },
    };
    let screen = context.client().await?.call::<methods::ExecScreen>(&params).await?;
    if context.output.json {
        context.output.json(&screen)?;
        return Ok(0);
    }
    context.output.text(&text(&screen))?;
    if let Some(prompt) = &screen.waiting_for_input {
        output::note_to_person(&format!("{} waits for input: {prompt}", screen.exec_id));
    }
    Ok(0)
}

/// Without the empty lines below the last.
fn text(screen: &Screen) -> String {
    let used = screen.lines.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
    screen.lines[..used].iter().map(|line| format!("{line}\n")).collect()
}
