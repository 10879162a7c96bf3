//! `assign`, `unassign`, `assignments`: which agent a session is without being told.

use schemars::JsonSchema;
use serde::Deserialize;
use trl_protocol::agent::{
    AssignParams, AssignScope, Assignment, Assignments as Answer, AssignmentsParams, UnassignParams,
    Unassigned,
};
use trl_protocol::{Fault, methods};

use crate::fault;
use crate::guest::Guest;
use crate::toolbox::{Call, Hints, Spec};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AssignArgs {
    /// Agent's name
    agent: String,
    /// Default: session
    #[serde(default)]
    scope: Option<AssignScope>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnassignArgs {
    /// Default: session
    #[serde(default)]
    scope: Option<AssignScope>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoArgs {}

impl Guest {
    /// An agent for this session, its project or everything; without a scope, for the narrowest that is known.
    pub(crate) async fn assign(&self, agent: &str, scope: Option<AssignScope>) -> Result<Assignment, Fault> {
        let params = AssignParams {
            agent: agent.to_owned(),
            scope,
            harness_session_id: self.known_harness_session(),
            project: self.project(),
        };
        self.client.call::<methods::AgentAssign>(&params).await.map_err(fault::of)
    }
}

pub(crate) struct Assign;

impl Spec for Assign {
    const NAME: &'static str = "assign";
    const ABOUT: &'static str = "Remember which agent this harness session, its project directory or every session is from its start; the \
        first that is assigned counts, in that order. Only if your user asks for it.";
    const HINTS: Hints = Hints::Adds { idempotent: true };
    const OPEN_WORLD: bool = false;
    type Args = AssignArgs;
    type Answer = Assignment;

    async fn call(args: AssignArgs, call: Call) -> Result<(String, Assignment), Fault> {
        let made = call.guest.assign(&args.agent, args.scope).await?;
        Ok((format!("[{}; use makes you that agent now]", told(&made)), made))
    }
}

pub(crate) struct Unassign;

impl Spec for Unassign {
    const NAME: &'static str = "unassign";
    const ABOUT: &'static str =
        "Forget which agent this harness session, its project directory or every session is.";
    const HINTS: Hints = Hints::Destroys { idempotent: true };
    const OPEN_WORLD: bool = false;
    type Args = UnassignArgs;
    type Answer = Unassigned;

    async fn call(args: UnassignArgs, call: Call) -> Result<(String, Unassigned), Fault> {
        let params = UnassignParams {
            scope: args.scope,
            harness_session_id: call.guest.known_harness_session(),
            project: call.guest.project(),
        };
        let gone = call.guest.client.call::<methods::AgentUnassign>(&params).await.map_err(fault::of)?;
        let told = if gone.removed { "is forgotten" } else { "was not there" };
        Ok((format!("[the {} assignment {told}]", gone.scope.name()), gone))
    }
}

pub(crate) struct Assignments;

impl Spec for Assignments {
    const NAME: &'static str = "assignments";
    const ABOUT: &'static str = "Which agents are assigned to this session, to projects and to everything, and which one counts here.";
    const HINTS: Hints = Hints::ReadOnly;
    const OPEN_WORLD: bool = false;
    type Args = NoArgs;
    type Answer = Answer;

    async fn call(_: NoArgs, call: Call) -> Result<(String, Answer), Fault> {
        let params = AssignmentsParams {
            harness_session_id: call.guest.known_harness_session(),
            project: call.guest.project(),
        };
        let found = call.guest.client.call::<methods::AgentAssignments>(&params).await.map_err(fault::of)?;
        let mut lines: Vec<String> = found.assignments.iter().map(told).collect();
        lines.push(match &found.effective {
            Some(agent) => format!("[here it is {agent}]"),
            None => "[none counts here]".to_owned(),
        });
        Ok((lines.join("\n"), found))
    }
}

pub(super) fn told(assignment: &Assignment) -> String {
    let what = match (assignment.scope, &assignment.key) {
        (AssignScope::Session, _) => "this session".to_owned(),
        (AssignScope::Project, Some(dir)) => format!("sessions in {dir}"),
        (AssignScope::Project, None) | (AssignScope::Global, _) => "every session".to_owned(),
    };
    format!("{} for {what}", assignment.agent)
}
