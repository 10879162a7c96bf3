//! `trl sh`: a prompt into a session, line by line.
//!
//! The lines run one after the other in the living shell; leaving the prompt leaves the
//! session as it is. Reading happens in the foreground, outside the event loop: while
//! the person types, nothing else goes on.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use trl_client::Client;
use trl_protocol::exec::{Encoding, Outcome, RunParams};
use trl_protocol::limits::MAX_SECONDS;
use trl_protocol::session::SessionParams;
use trl_protocol::{SessionId, methods};

use crate::context::{self, Context};
use crate::failure::{Failure, Result};
use crate::output::{self, Paint};
use crate::verbs::run;
use crate::{human, target};

const HISTORY_LINES: usize = 5000;

/// Open a prompt in a session
///
/// Each line runs in the session's living shell; Ctrl-C ends a running command, Ctrl-D or
/// `exit` leaves the prompt and keeps the session. Commands have no deadline here, and an
/// empty stdin: `trl run -i` is for those that ask questions.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The session, by name or id; a new name creates a session
    #[arg(short, long, value_name = "NAME", default_value = target::DEFAULT)]
    session: String,
    /// Shell of a new session
    #[arg(long)]
    shell: Option<String>,
}

/// Where the prompt is: what it shows and what it exits with.
struct PromptState {
    label: String,
    session: SessionId,
    cwd: String,
    status: u8,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<u8> {
    if context.output.json {
        return Err(Failure::usage("`trl sh` is for people; `trl run --json` is for programs"));
    }
    let runtime = context::event_loop()?;
    let (client, mut place) = runtime.block_on(enter(args, context))?;
    let mut lines = Lines::new(context)?;
    let done = loop {
        match lines.next(&place) {
            Ok(Some(line)) if matches!(line.trim(), "exit" | "logout") => break Ok(()),
            Ok(Some(line)) if line.trim().is_empty() => {}
            Ok(Some(line)) => match runtime.block_on(execute(&client, &mut place, line)) {
                Ok(()) => {}
                Err(failure) if failure.is_quiet() => place.status = failure.status,
                Err(failure) if lines.is_interactive() => {
                    context.output.failure(&failure);
                    place.status = failure.status;
                }
                Err(failure) => break Err(failure),
            },
            Ok(None) => break Ok(()),
            Err(failure) => break Err(failure),
        }
    };
    lines.save();
    runtime.shutdown_background();
    done.map(|()| place.status)
}

async fn enter(args: &Args, context: &Context) -> Result<(Arc<Client>, PromptState)> {
    let client = context.client().await?;
    let making = target::Making { shell: args.shell.clone(), ..target::Making::default() };
    let session = target::find_or_create(&client, &args.session, &making).await?.id;
    target::refuse_own_session(session)?;
    let info =
        client.call::<methods::SessionInfo>(&SessionParams { session_id: session.to_string() }).await?;
    let label = info.name.unwrap_or_else(|| session.to_string());
    Ok((client, PromptState { label, session, cwd: info.working_dir, status: 0 }))
}

async fn execute(client: &Arc<Client>, place: &mut PromptState, command: String) -> Result<()> {
    let params = RunParams {
        session_id: Some(place.session.to_string()),
        command: Some(command),
        timeout_s: Some(0.0),
        wait_s: Some(MAX_SECONDS),
        encoding: Encoding::Base64,
        ..RunParams::default()
    };
    let reply = run::follow(client, &params, None, &mut run::Through::new()).await?;
    let Outcome { notes, working_dir, .. } = &reply.outcome;
    notes.iter().for_each(|note| output::note(note));
    place.cwd.clone_from(working_dir);
    place.status = run::status(&reply.outcome);
    Ok(())
}

fn prompt(place: &PromptState, paint: Paint) -> String {
    let cwd = human::path(&place.cwd, human::home_dir().as_deref());
    let status = match place.status {
        0 => String::new(),
        status => format!(" {}", paint.red(&format!("[{status}]"))),
    };
    format!("{} {}{status}\n$ ", paint.green(&place.label), paint.bold(&cwd))
}

/// Where lines come from: a person with arrows and history, or a pipe.
enum Lines {
    Person { editor: Box<Editor<(), FileHistory>>, history: PathBuf, paint: Paint },
    Pipe,
}

impl Lines {
    fn new(context: &Context) -> Result<Lines> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Ok(Lines::Pipe);
        }
        let failed = |error: ReadlineError| Failure::system("opening the prompt", error);
        let config =
            Config::builder().max_history_size(HISTORY_LINES).map_err(failed)?.auto_add_history(true);
        let mut editor = Editor::with_config(config.build()).map_err(failed)?;
        let history = context.settings.places.state.join("sh_history");
        // There is none the first time.
        let _ = editor.load_history(&history);
        Ok(Lines::Person { editor: Box::new(editor), history, paint: context.output.paint })
    }

    fn is_interactive(&self) -> bool {
        matches!(self, Lines::Person { .. })
    }

    fn next(&mut self, place: &PromptState) -> Result<Option<String>> {
        match self {
            Lines::Pipe => {
                let mut line = String::new();
                match std::io::stdin().lock().read_line(&mut line) {
                    Ok(0) => Ok(None),
                    Ok(_) => Ok(Some(line.trim_end_matches('\n').to_owned())),
                    Err(error) => Err(Failure::system("reading stdin", error)),
                }
            }
            Lines::Person { editor, paint, .. } => {
                let shown = prompt(place, *paint);
                // The editor takes the last line only; what is above it is ours to print.
                let (above, last) = shown.rsplit_once('\n').unwrap_or(("", &shown));
                output::above_prompt(above);
                match editor.readline(last) {
                    Ok(line) => Ok(Some(line)),
                    Err(ReadlineError::Interrupted) => Ok(Some(String::new())),
                    Err(ReadlineError::Eof) => Ok(None),
                    Err(error) => Err(Failure::system("reading the line", error)),
                }
            }
        }
    }

    fn save(&mut self) {
        if let Lines::Person { editor, history, .. } = self
            && let Err(error) = editor.save_history(history)
        {
            output::note(&format!("the history is not saved: {}: {error}", history.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_tells_session_directory_and_failure() {
        let place = |status| PromptState {
            label: "build".into(),
            session: SessionId(1),
            cwd: "/nowhere/src".into(),
            status,
        };
        assert_eq!(prompt(&place(0), Paint(false)), "build /nowhere/src\n$ ");
        assert_eq!(prompt(&place(2), Paint(false)), "build /nowhere/src [2]\n$ ");
    }
}
