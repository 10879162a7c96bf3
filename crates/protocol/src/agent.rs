//! Agents and their sessions: what is asked about them and what is answered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;

/// Speaks for a session. `Debug` does not tell it, so a logged request gives nobody away.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Token(pub String);

impl std::ops::Deref for Token {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Token(_) = self;
        f.write_str("[token]")
    }
}

/// What happens to mail that names no session when no conversation is bound to one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The lowest label, or the pinned one.
    #[default]
    Primary,
    /// Every live session.
    Broadcast,
    /// Nobody; the sender is told.
    Drop,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateParams {
    /// `[A-Za-z0-9._-]{1,32}`, unique in this daemon.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Created {
    pub agent: String,
    pub address: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentRow {
    pub agent: String,
    pub address: String,
    pub live_sessions: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentList {
    pub agents: Vec<AgentRow>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UseParams {
    /// An agent's name or address. Without it: the one that is assigned to the harness session, to the
    /// project or to everything, else the only one there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Wished for; granted if no live session holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The harness's own id of its session; a resumed one gets its last label back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness_session_id: Option<String>,
    /// What the harness is called: the stem of a label that is not wished for. Default `claude`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The project directory, for assignments. Default `cwd`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Pin the granted label as the agent's primary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<bool>,
    /// The `session_id` of the terminal session it runs in, by whose terminal it can be woken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<SessionId>,
    /// Also assign the agent to this harness session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    Daemon,
    /// The engine runs in the caller's own process.
    #[serde(rename = "self")]
    Own,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Used {
    pub agent: String,
    pub address: String,
    pub label: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
    /// Why this label was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub mode: Mode,
    /// Proves this session on other connections, as param `as`.
    pub token: Token,
    pub live_sessions: Vec<String>,
}

/// Params of requests that need only to know who asks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallerParams {
    /// The token of `agent.use`, on a connection that is not bound.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseParams {
    /// The session of this harness session, instead of the caller's own. For hooks, which run when the harness
    /// has ended its session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness_session_id: Option<String>,
    /// The token of `agent.use`, on a connection that is not bound.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
}

/// What an agent is assigned to. The first that applies decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AssignScope {
    /// One session of a harness.
    Session,
    /// A directory and all below it; the nearest one counts.
    Project,
    /// Everything else.
    Global,
}

impl AssignScope {
    pub const ALL: [AssignScope; 3] = [AssignScope::Session, AssignScope::Project, AssignScope::Global];

    pub fn name(self) -> &'static str {
        match self {
            AssignScope::Session => "session",
            AssignScope::Project => "project",
            AssignScope::Global => "global",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AssignParams {
    /// An agent's name or address.
    pub agent: String,
    /// Default: the harness session if one is named, else the project, else `global`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<AssignScope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness_session_id: Option<String>,
    /// An absolute path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnassignParams {
    /// As of `agent.assign`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<AssignScope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AssignmentsParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness_session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Assignment {
    pub agent: String,
    pub scope: AssignScope,
    /// The harness session id or the directory; missing for `global`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unassigned {
    pub scope: AssignScope,
    /// False if there was no such assignment.
    pub removed: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Assignments {
    /// Those of the harness session that was named, of all projects, and the global one.
    pub assignments: Vec<Assignment>,
    /// The agent that the named harness session and project get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Whoami {
    pub agent: String,
    pub address: String,
    pub label: String,
    pub mode: Mode,
    pub live_sessions: Vec<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionsParams {
    /// Another agent of this daemon; default: the caller's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRow {
    pub label: String,
    /// Whether this is the caller.
    #[serde(rename = "self")]
    pub own: bool,
    pub pid: Option<u32>,
    pub cwd: Option<String>,
    pub started_at: String,
    pub last_seen: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sessions {
    pub sessions: Vec<SessionRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Beat {
    pub label: String,
    /// Messages that wait in this session's inbox.
    pub waiting: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Released {
    pub label: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_tells_no_token() {
        let params = CallerParams { as_token: Some(Token("0123456789abcdef".to_owned())) };
        assert_eq!(format!("{params:?}"), "CallerParams { as_token: Some([token]) }");
        assert_eq!(serde_json::to_string(&params).unwrap_or_default(), r#"{"as":"0123456789abcdef"}"#);
    }
}
