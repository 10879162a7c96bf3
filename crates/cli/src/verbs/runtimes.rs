//! `trl runtimes`: where sessions can run.

mod grants;

use trl_protocol::methods;
use trl_protocol::system::{NoParams, RuntimeFound, RuntimeKind, RuntimeState};

use crate::context::Context;
use crate::failure::Result;
use crate::table::{Keep, Table};
use crate::{human, output};

/// Show where sessions can run
///
/// This machine, the runtimes of the config file (`[runtimes.NAME]`), and those that sessions were made on.
/// What is shown is what was last seen; a look at the others goes on in the background.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List them; so does `trl runtimes` alone
    #[command(visible_alias = "ls")]
    List,
    Grant(grants::GrantArgs),
    Revoke(grants::RevokeArgs),
    /// List who was granted access
    Grants,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    match &args.action {
        None | Some(Action::List) => list(context).await,
        Some(Action::Grant(args)) => grants::grant(args, context).await,
        Some(Action::Revoke(args)) => grants::revoke(args, context).await,
        Some(Action::Grants) => grants::list(context).await,
    }
}

async fn list(context: &Context) -> Result<u8> {
    let found = context.client().await?.call::<methods::SystemRuntimes>(&NoParams {}).await?;
    if context.output.json {
        context.output.json(&found)?;
        return Ok(0);
    }
    let mut table = Table::new(
        &[
            "NAME",
            "KIND",
            "STATE",
            "ARCH",
            "CPUS",
            "MEMORY",
            "LOAD",
            "SESSIONS",
            "LABELS",
            "SHELLS",
            "ISOLATION",
            "RTT",
            "REASON",
        ],
        "REASON",
        Keep::Start,
    );
    for runtime in &found.runtimes {
        table.row(row(runtime));
    }
    context.output.text(&table.render(output::terminal_width(), context.output.paint))?;
    Ok(0)
}

fn row(runtime: &RuntimeFound) -> Vec<String> {
    let dash = || "-".to_owned();
    let state = match runtime.state {
        RuntimeState::Ready => "ready".to_owned(),
        RuntimeState::Unreachable => format!("unreachable {}", human::age_of(&runtime.since)),
        RuntimeState::Unknown => "unknown".to_owned(),
    };
    let listed = |words: Vec<&str>| if words.is_empty() { dash() } else { words.join(",") };
    let kind = match runtime.kind {
        RuntimeKind::Local => "local",
        RuntimeKind::Container => "container",
        RuntimeKind::Ssh => "ssh",
        RuntimeKind::Trl => "trl",
    };
    vec![
        runtime.name.clone(),
        kind.to_owned(),
        state,
        if runtime.arch.is_empty() { dash() } else { runtime.arch.clone() },
        if runtime.cpus == 0 { dash() } else { runtime.cpus.to_string() },
        runtime.memory_bytes.map_or_else(dash, human::bytes),
        runtime.load.map_or_else(dash, |load| format!("{load:.1}")),
        format!("{}/{}", runtime.sessions, runtime.max_sessions),
        listed(runtime.labels.iter().map(String::as_str).collect()),
        listed(runtime.shells.iter().map(|shell| shell.name.as_str()).collect()),
        listed(runtime.isolation.iter().map(String::as_str).collect()),
        runtime.rtt_ms.map_or_else(dash, |rtt| format!("{rtt:.1}ms")),
        runtime.reason.clone().unwrap_or_default(),
    ]
}
