//! `trl info`: one session, and what it ran last.

use trl_protocol::exec::{ExecInfo, ExecState, ListParams};
use trl_protocol::methods;
use trl_protocol::quote::inline;
use trl_protocol::session::{SessionInfo, SessionParams};

use crate::context::Context;
use crate::failure::Result;
use crate::human;
use crate::output::{self, Output};
use crate::table::{Keep, Table};
use crate::verbs::ls;

const LAST_COMMANDS: usize = 10;

/// Show one session and its last commands
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A session's name or id
    #[arg(value_name = "SESSION")]
    session: String,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    let client = context.client().await?;
    let session =
        client.call::<methods::SessionInfo>(&SessionParams { session_id: args.session.clone() }).await?;
    let output = context.output;
    if output.json {
        output.json(&session)?;
        return Ok(0);
    }
    output.text(&fields(&session, output))?;
    let listed = client
        .call::<methods::ExecList>(&ListParams {
            session_id: Some(session.session_id.to_string()),
            own: false,
        })
        .await?;
    if !listed.execs.is_empty() {
        let first = listed.execs.len().saturating_sub(LAST_COMMANDS);
        output.text("\n")?;
        output.text(&commands(&listed.execs[first..]).render(output::terminal_width(), output.paint))?;
    }
    Ok(0)
}

fn fields(session: &SessionInfo, output: Output) -> String {
    let seconds = |value: f64| if value == 0.0 { "none".to_owned() } else { human::duration(value) };
    let home = human::home_dir();
    let mut rows = vec![
        ("Session", session.session_id.to_string()),
        ("Name", session.name.clone().unwrap_or_else(|| "-".to_owned())),
        ("State", ls::state(session)),
        (
            "Shell",
            format!("{} (pid {})", session.shell, session.pid.map_or("-".to_owned(), |pid| pid.to_string())),
        ),
        ("Directory", human::path(&session.working_dir, home.as_deref())),
        ("Runtime", session.runtime.clone().unwrap_or_else(|| "local".to_owned())),
        ("Commands", session.command_count.to_string()),
        ("Created", format!("{} ({})", session.created_at, human::ago(&session.created_at))),
        ("Last used", format!("{} ({})", session.last_activity, human::ago(&session.last_activity))),
        ("Deadline", seconds(session.timeout_s)),
        ("Ends idle after", seconds(session.idle_timeout_s)),
        ("Shell replaced", format!("{} times", session.restarts)),
        ("Host", format!("pid {}", session.host_pid)),
    ];
    if let Some(damage) = &session.damage {
        rows.insert(3, ("Damage", damage.clone()));
    }
    if let Some(running) = session.running {
        rows.insert(3, ("Running", running.to_string()));
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    rows.iter()
        .map(|(name, value)| format!("{}  {}\n", output.paint.dim(&format!("{name:<width$}")), inline(value)))
        .collect()
}

fn commands(execs: &[ExecInfo]) -> Table {
    let mut table =
        Table::new(&["COMMAND ID", "STATE", "EXIT", "TOOK", "OUTPUT", "COMMAND"], "COMMAND", Keep::Start);
    for exec in execs {
        let state = match exec.state {
            ExecState::Queued => "queued",
            ExecState::Running => "running",
            ExecState::Finished => "finished",
        };
        let ended = exec.outcome.as_ref();
        let dash = || "-".to_owned();
        table.row(vec![
            exec.exec_id.to_string(),
            state.to_owned(),
            ended.and_then(|ended| ended.exit_code).map_or_else(dash, |code| code.to_string()),
            ended.map_or_else(dash, |ended| human::duration(ended.duration_us as f64 / 1e6)),
            human::bytes(exec.stdout_bytes + exec.stderr_bytes),
            exec.command.trim_end().to_owned(),
        ]);
    }
    table
}
