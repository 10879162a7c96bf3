//! `trl ls`: the sessions there are.

use trl_protocol::methods;
use trl_protocol::session::{ListParams, SessionInfo, SessionList, SessionState};

use crate::context::Context;
use crate::failure::Result;
use crate::human;
use crate::output::{self, Output};
use crate::table::{Keep, Table};

/// The runtime that is this machine.
const LOCAL: &str = "local";

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
    let list = context.client().await?.call::<methods::SessionList>(&ListParams::default()).await?;
    print(args, &list, context.output)?;
    if !list.unanswered.is_empty() {
        let names = list.unanswered.join(", ");
        output::note_to_person(&format!(
            "no answer from {names}: what was last known is shown; `trl runtimes` says more"
        ));
    }
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
    let mut columns = vec!["ID", "NAME", "STATE", "SHELL", "CWD", "COMMANDS", "IDLE", "AGE"];
    // Most people have all of them on this machine.
    let places = sessions.iter().any(|session| place(session) != LOCAL);
    if places {
        columns.insert(2, "RUNTIME");
    }
    let mut table = Table::new(&columns, "CWD", Keep::End);
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
        let mut row = vec![
            session.session_id.to_string(),
            name(session),
            state(session),
            session.shell.rsplit('/').next().unwrap_or_default().to_owned(),
            human::path(&session.working_dir, home.as_deref()),
            session.command_count.to_string(),
            idle,
            human::age_of(&session.created_at),
        ];
        if places {
            row.insert(2, place(session).to_owned());
        }
        table.row(row);
    }
    table
}

/// Somebody else's session on another daemon has its name there in parentheses: it is not to be used here.
fn name(session: &SessionInfo) -> String {
    let theirs = || session.foreign.as_ref().and_then(|foreign| foreign.name.as_ref());
    match (&session.name, theirs()) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) => format!("({name})"),
        (None, None) => "-".to_owned(),
    }
}

fn place(session: &SessionInfo) -> &str {
    session.runtime.as_deref().unwrap_or(LOCAL)
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
