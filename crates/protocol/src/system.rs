//! The daemon about itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Params of requests that take none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pong {
    pub uptime_s: f64,
    pub version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    pub active_sessions: usize,
    pub total_commands_run: u64,
    pub uptime_s: f64,
    pub memory_rss_bytes: u64,
    pub open_fds: u64,
    pub running_commands: usize,
    pub connections: usize,
    /// What the living sessions have used together; `memory_peak_bytes` is the largest of theirs.
    #[serde(default)]
    pub usage: crate::session::Usage,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemInfo {
    pub version: String,
    pub protocol_version: u32,
    pub host_protocol_version: u32,
    pub pid: u32,
    pub features: Vec<String>,
    pub shells: Vec<ShellFound>,
    pub limits: LimitsInfo,
    /// Profiles that this machine can enforce in full.
    pub isolation: Vec<String>,
    /// Why it cannot enforce the others, and limits that it cannot enforce for a session as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub isolation_missing: Vec<crate::isolation::Missing>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellFound {
    pub name: String,
    pub path: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitsInfo {
    pub max_sessions: usize,
    pub default_timeout_s: f64,
    pub max_output_bytes: u64,
    pub journal_bytes: u64,
    pub max_line_bytes: usize,
    pub max_command_bytes: usize,
    pub max_stdin_bytes: usize,
    pub max_idle_s: f64,
    pub session_ttl_s: f64,
}

/// What this daemon can reach, for those who must choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Runtimes {
    pub runtimes: Vec<RuntimeFound>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuntimeFound {
    pub name: String,
    /// What a configured name stands for, as `runtime` of `session.create` takes it, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    pub kind: RuntimeKind,
    pub state: RuntimeState,
    /// Why it is unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when the state is what it is; RFC 3339.
    pub since: String,
    /// Whether sessions can be made there now.
    pub available: bool,
    /// Where sessions are made unless they say otherwise.
    pub default: bool,
    pub version: String,
    pub hostname: String,
    pub os: String,
    pub arch: String,
    pub cpus: usize,
    pub shells: Vec<ShellFound>,
    pub isolation: Vec<String>,
    pub active_sessions: usize,
    /// The same as `active_sessions`.
    pub sessions: usize,
    pub max_sessions: usize,
    pub labels: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Of the last minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<f64>,
    /// How long it took to answer, when it was last asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// The agent that has granted access to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granted_by: Option<String>,
    /// Until when that access is granted; RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeKind {
    /// This machine, under this daemon.
    Local,
    /// Containers of an image on this machine.
    Container,
    /// Another machine, through SSH.
    Ssh,
    /// Another daemon, over its HTTP transport.
    Trl,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeState {
    Ready,
    Unreachable,
    /// Nobody has looked yet.
    Unknown,
}

/// What a place is like, as the host program tells where it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlaceFacts {
    pub hostname: String,
    pub os: String,
    pub arch: String,
    pub cpus: usize,
    pub memory_bytes: Option<u64>,
    pub load: Option<f64>,
    pub shells: Vec<ShellFound>,
    /// Profiles of isolation that sessions can have there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub isolation: Vec<String>,
    /// Of its daemon or host program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How many more sessions its daemon takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_sessions: Option<usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShutdownParams {
    /// Leave the sessions to the next daemon.
    #[serde(default)]
    pub keep_sessions: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShuttingDown {
    pub pid: u32,
    pub keep_sessions: bool,
}
