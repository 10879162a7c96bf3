//! `trl ps`: commands, running or all that are kept.

use trl_protocol::exec::{ExecInfo, ExecList, ExecState, ListParams};
use trl_protocol::methods;

use crate::context::Context;
use crate::failure::Result;
use crate::human;
use crate::output::{self, Output};
use crate::table::{Keep, Table};

/// List running commands, of all sessions or of one
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only of this session
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Also finished commands whose output is still stored
    #[arg(short, long)]
    all: bool,
    /// Only the ids, one per line
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let mut list = context
        .client()
        .await?
        .call::<methods::ExecList>(&ListParams { session_id: args.session.clone(), own: false })
        .await?;
    if !args.all {
        list.execs.retain(|exec| exec.state != ExecState::Finished);
    }
    print(args, &list, context.output)?;
    Ok(0)
}

fn print(args: &Args, list: &ExecList, output: Output) -> Result<()> {
    if output.json {
        return output.json(list);
    }
    if args.quiet {
        return list.execs.iter().try_for_each(|exec| output.line(exec.exec_id.to_string()));
    }
    if list.execs.is_empty() {
        output::note(if args.all { "no commands are kept" } else { "nothing runs; --all shows what has" });
        return Ok(());
    }
    output.text(&table(&list.execs).render(output::terminal_width(), output.paint))
}

fn table(execs: &[ExecInfo]) -> Table {
    let mut table =
        Table::new(&["ID", "STATE", "WHERE", "PID", "TIME", "OUTPUT", "COMMAND"], "COMMAND", Keep::Start);
    for exec in execs {
        table.row(vec![
            exec.exec_id.to_string(),
            state(exec),
            if exec.background { "background" } else { "shell" }.to_owned(),
            exec.pid.map_or("-".to_owned(), |pid| pid.to_string()),
            time(exec),
            human::bytes(exec.stdout_bytes + exec.stderr_bytes),
            exec.command.clone(),
        ]);
    }
    table
}

fn state(exec: &ExecInfo) -> String {
    let ended = exec.outcome.as_ref().map(|outcome| match (outcome.exit_code, outcome.timed_out) {
        (_, true) => "timed out".to_owned(),
        (Some(code), false) => format!("exit {code}"),
        (None, false) if outcome.cancelled => "cancelled".to_owned(),
        (None, false) => "ended".to_owned(),
    });
    match exec.state {
        ExecState::Queued => "queued".to_owned(),
        ExecState::Running if exec.waiting_for_input.is_some() => "waiting".to_owned(),
        ExecState::Running => "running".to_owned(),
        ExecState::Finished => ended.unwrap_or_else(|| "ended".to_owned()),
    }
}

/// How long it ran, or has run.
fn time(exec: &ExecInfo) -> String {
    match (&exec.outcome, &exec.started_at) {
        (Some(outcome), _) => human::duration(outcome.duration_us as f64 / 1e6),
        (None, Some(started)) => human::age_of(started),
        (None, None) => "-".to_owned(),
    }
}
