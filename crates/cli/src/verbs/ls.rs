//! `trl ls`: the sessions there are.

use trl_protocol::methods;
use trl_protocol::session::{SessionInfo, SessionList, SessionState};
use trl_protocol::system::NoParams;

use crate::context::Context;
use crate::failure::Result;
use crate::human;
use crate::output::{self, Output};
use crate::table::{Keep, Table};

/// List the sessions
#[derive(Debug, clap::Args)]
#[command(visible_alias = "list")]
pub(crate) struct Args {
    /// Only the ids, one per line
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<u8> {
    // A daemon that does not run has no sessions to show; starting one would not change that,
    // unless it adopts what an earlier one left.
    let list = context.client().await?.call::<methods::SessionList>(&NoParams {}).await?;
    print(args, &list, context.output)?;
    Ok(0)
}

fn print(args: &Args, list: &SessionList, output: Output) -> Result<()> {
    if output.json {
        return output.json(list);
    }
    if args.quiet {
        return list.sessions.iter().try_for_each(|session| output.line(session.session_id.to_string()));
    }
    if list.sessions.is_empty() {
        output::note("no sessions; `trl run COMMAND` makes one");
        return Ok(());
    }
    output.text(&table(&list.sessions).render(output::terminal_width(), output.paint))
}

fn table(sessions: &[SessionInfo]) -> Table {
    let mut table =
        Table::new(&["ID", "NAME", "STATE", "SHELL", "CWD", "COMMANDS", "IDLE", "AGE"], "CWD", Keep::End);
    let home = human::home_dir();
    for session in sessions {
        let idle = match session.state {
            SessionState::Running => "-".to_owned(),
            SessionState::Creating
            | SessionState::Idle
            | SessionState::Terminated
            | SessionState::Lost
            | SessionState::Damaged => human::age_of(&session.last_activity),
        };
        table.row(vec![
            session.session_id.to_string(),
            session.name.clone().unwrap_or_else(|| "-".to_owned()),
            state(session),
            session.shell.rsplit('/').next().unwrap_or_default().to_owned(),
            human::path(&session.working_dir, home.as_deref()),
            session.command_count.to_string(),
            idle,
            human::age_of(&session.created_at),
        ]);
    }
    table
}

pub(crate) fn state(session: &SessionInfo) -> String {
    let word = match session.state {
        SessionState::Creating => "creating",
        SessionState::Idle => "idle",
        SessionState::Running => "running",
        SessionState::Terminated => "terminated",
        SessionState::Lost => "lost",
        SessionState::Damaged => "damaged",
    };
    if session.queued > 0 { format!("{word} +{}", session.queued) } else { word.to_owned() }
}
