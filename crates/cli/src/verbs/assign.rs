//! `trl agent assign`: which agent a harness session, a project or everything is without being told.

use std::path::PathBuf;

use trl_protocol::agent::{AssignParams, AssignScope, AssignmentsParams, UnassignParams};
use trl_protocol::methods;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::harness;
use crate::output;
use crate::table::{Keep, Table};

/// What an agent is assigned to. Without any: the harness session that runs this, else the directory.
#[derive(Debug, clap::Args)]
struct Target {
    /// One session of a harness, by the harness's own id
    #[arg(long, value_name = "ID", group = "target")]
    session: Option<String>,
    /// A directory and all below it
    #[arg(long, value_name = "DIR", group = "target", num_args = 0..=1, default_missing_value = ".")]
    project: Option<PathBuf>,
    /// Everything that has no assignment of its own
    #[arg(long, group = "target")]
    global: bool,
}

/// Assign an agent to a harness session, a directory, or everything else
#[derive(Debug, clap::Args)]
pub(crate) struct Assign {
    /// Its name or address
    agent: String,
    #[command(flatten)]
    target: Target,
}

/// Remove an assignment
#[derive(Debug, clap::Args)]
pub(crate) struct Unassign {
    #[command(flatten)]
    target: Target,
}

/// List assignments, and tell which agent this harness session or directory gets
#[derive(Debug, clap::Args)]
pub(crate) struct List {}

/// A target as the daemon knows it.
struct Resolved {
    scope: AssignScope,
    harness_session_id: Option<String>,
    project: Option<String>,
}

impl Target {
    fn resolved(&self) -> Result<Resolved> {
        let scope = match (&self.session, &self.project, self.global) {
            (Some(_), _, _) => AssignScope::Session,
            (None, Some(_), _) => AssignScope::Project,
            (None, None, true) => AssignScope::Global,
            (None, None, false) if harness::session_id().is_some() => AssignScope::Session,
            (None, None, false) => AssignScope::Project,
        };
        let project = match &self.project {
            Some(dir) => Some(absolute(dir)?),
            None => project(),
        };
        Ok(Resolved { scope, harness_session_id: self.session.clone().or_else(harness::session_id), project })
    }
}

fn absolute(dir: &std::path::Path) -> Result<String> {
    let found = dir.canonicalize().map_err(|error| Failure::system(&dir.display().to_string(), error))?;
    found.into_os_string().into_string().map_err(|_| Failure::usage("--project: the path is no UTF-8 text"))
}

/// That of the harness, else the working directory.
fn project() -> Option<String> {
    let cwd = || std::env::current_dir().ok().and_then(|dir| dir.into_os_string().into_string().ok());
    harness::project().or_else(cwd)
}

pub(crate) async fn assign(args: &Assign, context: &Context) -> Result<u8> {
    let Resolved { scope, harness_session_id, project } = args.target.resolved()?;
    let params = AssignParams { agent: args.agent.clone(), scope: Some(scope), harness_session_id, project };
    let made = context.client().await?.call::<methods::AgentAssign>(&params).await?;
    if context.output.json {
        context.output.json(&made)?;
    } else {
        let key = made.key.map(|key| format!(" {key}")).unwrap_or_default();
        context.output.line(format!("{}: {}{key}", made.agent, made.scope.name()))?;
    }
    Ok(0)
}

pub(crate) async fn unassign(args: &Unassign, context: &Context) -> Result<u8> {
    let Resolved { scope, harness_session_id, project } = args.target.resolved()?;
    let params = UnassignParams { scope: Some(scope), harness_session_id, project };
    let gone = context.client().await?.call::<methods::AgentUnassign>(&params).await?;
    if context.output.json {
        context.output.json(&gone)?;
    } else if !gone.removed {
        output::note(&format!("there was no assignment of this {}", gone.scope.name()));
    }
    Ok(0)
}

pub(crate) async fn list(_: &List, context: &Context) -> Result<u8> {
    let params = AssignmentsParams { harness_session_id: harness::session_id(), project: project() };
    let found = context.client().await?.call::<methods::AgentAssignments>(&params).await?;
    let output = context.output;
    if output.json {
        output.json(&found)?;
        return Ok(0);
    }
    if found.assignments.is_empty() {
        output::note("no assignments; `trl agent assign` makes one");
        return Ok(0);
    }
    let mut table = Table::new(&["AGENT", "SCOPE", "FOR"], "FOR", Keep::End);
    for row in found.assignments {
        let key = row.key.unwrap_or_else(|| "-".to_owned());
        table.row(vec![row.agent, row.scope.name().to_owned(), key]);
    }
    output.text(&table.render(output::terminal_width(), output.paint))?;
    if let Some(agent) = found.effective {
        output::note(&format!("here it is {agent}"));
    }
    Ok(0)
}
