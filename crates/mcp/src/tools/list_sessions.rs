//! `list_sessions`: which shells there are, and what runs in them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trl_protocol::Fault;
use trl_protocol::exec::{ExecState, ListParams};
use trl_protocol::quote;
use trl_protocol::session::{self, SessionState};

use crate::fault;
use crate::toolbox::{Call, Hints, Spec};

pub(crate) struct ListSessions;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Answer {
    sessions: Vec<Row>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Row {
    session: String,
    session_id: String,
    /// Whether it is the one of calls that name none.
    own: bool,
    state: SessionState,
    cwd: String,
    /// Where it runs, if not on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime: Option<String>,
    running: Vec<Command>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Command {
    exec_id: String,
    command: String,
    background: bool,
}

impl Spec for ListSessions {
    const NAME: &'static str = "list_sessions";
    const ABOUT: &'static str =
        "List the shells of this machine's user: name, state, cwd, and the commands that run in them.";
    const HINTS: Hints = Hints::ReadOnly;
    const OPEN_WORLD: bool = false;
    type Args = Args;
    type Answer = Answer;

    async fn call(_: Args, call: Call) -> Result<(String, Answer), Fault> {
        let client = &call.guest.client;
        let own = call.guest.own_id().await;
        let list = client.session_list(&session::ListParams::default()).await.map_err(fault::of)?;
        let commands =
            client.exec_list(&ListParams { session_id: None, own: false }).await.map_err(fault::of)?;
        let mut sessions = Vec::new();
        for info in list.sessions {
            let running = commands
                .execs
                .iter()
                .filter(|exec| exec.session_id == info.session_id && exec.state != ExecState::Finished);
            sessions.push(Row {
                session: info.name.unwrap_or_else(|| info.session_id.to_string()),
                session_id: info.session_id.to_string(),
                own: own == Some(info.session_id),
                state: info.state,
                cwd: info.working_dir,
                runtime: info.runtime.filter(|runtime| runtime != "local"),
                running: running
                    .map(|exec| Command {
                        exec_id: exec.exec_id.to_string(),
                        command: first_line(&exec.command),
                        background: exec.background,
                    })
                    .collect(),
            });
        }
        Ok((text(&sessions), Answer { sessions }))
    }
}

fn first_line(command: &str) -> String {
    let line = command.lines().next().unwrap_or_default();
    let short: String = line.chars().take(120).collect();
    if short.len() < command.trim_end().len() { format!("{short} …") } else { short }
}

fn text(sessions: &[Row]) -> String {
    if sessions.is_empty() {
        return "(no sessions; run makes one)".to_owned();
    }
    let mut lines = Vec::new();
    for row in sessions {
        let state = serde_json::to_value(row.state).unwrap_or_default();
        let own = if row.own { ", yours" } else { "" };
        let state = state.as_str().unwrap_or_default();
        let place =
            row.runtime.as_ref().map(|runtime| format!(" on {}", quote::inline(runtime))).unwrap_or_default();
        let name = quote::inline(&row.session);
        lines.push(format!("{name} ({state}{own}) in {}{place}", quote::inline(&row.cwd)));
        for command in &row.running {
            let beside = if command.background { " in the background" } else { "" };
            lines.push(format!("  {} runs{beside}: {}", command.exec_id, quote::inline(&command.command)));
        }
    }
    lines.join("\n")
}
