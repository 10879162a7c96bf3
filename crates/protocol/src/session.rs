//! Sessions: what is asked about them and what is answered.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SessionId;
use crate::isolation::{Isolation, IsolationReport, Size};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateParams {
    /// `bash`, `zsh`, `sh` or `dash`, or the path of one. Default: `$SHELL` if spoken, else bash, else sh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// Added to the daemon's environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Unique among living sessions; usable wherever a session id is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Default deadline of this session's commands, in seconds; 0 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// Commands of this session run on a terminal unless they say otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::request::object")]
    pub limits: Option<SessionLimits>,
    /// What the session is kept from: `none`, `workspace`, `strict`, or an object with details.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::isolation::word_or_object"
    )]
    #[schemars(with = "Option<crate::isolation::WordOrObject>")]
    pub isolation: Option<Isolation>,
    /// End the session after this many seconds without a command; 0 is never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_s: Option<f64>,
    /// Where the session runs: `local` (default), `container:IMAGE`, `container:@NAME`, `ssh:[USER@]HOST[:PORT]`,
    /// `trl:https://HOST:PORT` (another daemon), or a name from the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Keep the state of the shell under this name for a week after its last use, also when the session is over. On
    /// this machine only. What an isolated session keeps is for sessions with the same isolation and directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_state: Option<String>,
    /// Begin with the state that is kept under this name, if there is one of the same shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_state: Option<String>,
    /// Read the user's start-up files (`.bashrc`, `.zshrc`). Default: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rc: Option<bool>,
    /// `env` is the whole environment, without the daemon's; the session's own `TRL_…` variables are added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_env: Option<bool>,
    /// What results and the session's state survive once they were told: `process` (the default), the end of
    /// any process; `power`, also a power cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
}

/// What a session's files survive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The end of any process.
    #[default]
    Process,
    /// A power cut, too.
    Power,
}

/// Bounds of one session; what is missing takes the daemon's default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionLimits {
    /// Kept output of each stream of one command on disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal_bytes: Option<u64>,
    /// Commands that this session runs before it refuses more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_commands: Option<u64>,
    /// Commands that may wait in its queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_queue: Option<usize>,
    /// Memory of everything that it runs: bytes, or `512M`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    /// Processes and threads that it may have at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// Processors' worth of time, such as 1.5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Files that each process may have open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
    /// Largest file that a process may write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size: Option<Size>,
    /// Processor time that each process may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_time_s: Option<f64>,
    /// Size of the private directories of an isolated session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Size>,
}

/// What holds a session, and what it has used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confinement {
    /// Of a session with isolation or limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Box<IsolationReport>>,
    /// As asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Box<SessionLimits>>,
    /// As cgroups account for it, else as its processes tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// What everything that a session has started has used together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
    /// By its programs, to files, pipes and terminals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// For how long its processor limit has held it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_s: Option<f64>,
}

impl Usage {
    /// With what another has used; the peaks were not at the same time, so the larger one counts.
    pub fn and(self, other: Usage) -> Usage {
        fn sum<T: std::ops::Add<Output = T>>(one: Option<T>, other: Option<T>) -> Option<T> {
            match (one, other) {
                (Some(one), Some(other)) => Some(one + other),
                (one, other) => one.or(other),
            }
        }
        Usage {
            cpu_s: sum(self.cpu_s, other.cpu_s),
            memory_bytes: sum(self.memory_bytes, other.memory_bytes),
            memory_peak_bytes: self.memory_peak_bytes.max(other.memory_peak_bytes),
            processes: sum(self.processes, other.processes),
            written_bytes: sum(self.written_bytes, other.written_bytes),
            throttled_s: sum(self.throttled_s, other.throttled_s),
        }
    }
}

/// Params of every request that names one session and nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionParams {
    /// A session's id or name.
    pub session_id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RestartParams {
    /// A session's id or name.
    pub session_id: String,
    /// Leave a session that is alive as it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub if_lost: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkParams {
    /// Id or name of the session to begin with.
    pub session_id: String,
    /// Name of the new session, unique among living sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameParams {
    /// A session's id or name.
    pub session_id: String,
    /// Its new name, unique among living sessions.
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Renamed {
    pub session_id: SessionId,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DestroyParams {
    /// A session's id or name.
    pub session_id: String,
    /// KILL at once instead of TERM and a grace period.
    #[serde(default)]
    pub force: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BindParams {
    /// A session's id or name.
    pub session_id: String,
    /// False lets it go, whichever connection it was bound to.
    #[serde(default = "yes")]
    pub bound: bool,
}

pub(crate) fn yes() -> bool {
    true
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bound {
    pub session_id: SessionId,
    pub bound: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    Creating,
    Idle,
    Running,
    Terminated,
    /// Its host process is gone; the last snapshot remains.
    Lost,
    /// Its host is gone, and what it stored about itself cannot be read.
    Damaged,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Created {
    pub session_id: SessionId,
    pub name: Option<String>,
    pub shell: String,
    pub working_dir: String,
    pub state: SessionState,
    /// RFC 3339, UTC, milliseconds.
    pub created_at: String,
    /// The shell's pid.
    pub pid: Option<u32>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Why it runs there, if the request left the choice to the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_reason: Option<String>,
}

/// What `session.info` tells, and each row of `session.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    pub session_id: SessionId,
    pub name: Option<String>,
    pub shell: String,
    pub working_dir: String,
    pub state: SessionState,
    /// Names of the variables given at creation and exported since; never a value.
    pub env_keys: Vec<String>,
    pub created_at: String,
    pub last_activity: String,
    pub command_count: u64,
    pub timeout_s: f64,
    pub idle_timeout_s: f64,
    pub pid: Option<u32>,
    pub host_pid: u32,
    /// How often the shell had to be replaced.
    pub restarts: u64,
    pub tty: bool,
    /// All that its commands have printed since its host began, kept or not.
    #[serde(default)]
    pub stdout_bytes: u64,
    #[serde(default)]
    pub stderr_bytes: u64,
    /// The command that runs in the foreground.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running: Option<crate::ExecId>,
    pub queued: usize,
    /// Its host does not answer at the moment (it may be stopped); the rest is what was last known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unresponsive: bool,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Of a session that somebody else has made on another daemon. It is used by its id, and stays when this daemon ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Foreign>,
    /// Of a damaged session: what is wrong with it, and what can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<String>,
    /// What the shell's start-up files (`rc`) have written, the last 64 KiB of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_output: Option<String>,
    #[serde(flatten)]
    pub confinement: Confinement,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Foreign {
    /// Its name on that daemon, which is no name here.
    pub name: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    /// Only sessions of this daemon itself, none on other daemons.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionList {
    pub sessions: Vec<SessionInfo>,
    /// Other daemons that did not answer in time: of their sessions, what was last known is listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unanswered: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Destroyed {
    pub session_id: SessionId,
    pub state: SessionState,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Restarted {
    pub session_id: SessionId,
    pub state: SessionState,
    pub pid: Option<u32>,
    pub restarts: u64,
    pub working_dir: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachParams {
    /// A session's id or name.
    pub session_id: String,
    /// Only look.
    #[serde(default)]
    pub read_only: bool,
    /// In place of the one who is attached now.
    #[serde(default)]
    pub take_over: bool,
    /// Of the window, with `cols`; not of one that only looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Released {
    /// Somebody else has attached in this place.
    TakenOver,
    /// The end of input (Ctrl-D) at the prompt.
    Left,
}

/// The end of `session.attach`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Detached {
    pub session_id: SessionId,
    pub reason: Released,
}

/// The `reason` in the details where keys find neither a command nor a prompt.
pub const NOBODY_ATTACHED: &str = "nobody_attached";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InputParams {
    /// A session's id or name.
    pub session_id: String,
    pub data: String,
    /// How `data` is given.
    #[serde(default)]
    pub encoding: crate::exec::Encoding,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputTaken {
    pub session_id: SessionId,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizeParams {
    /// A session's id or name.
    pub session_id: String,
    /// 1 to 1000.
    pub rows: u16,
    /// 1 to 1000.
    pub cols: u16,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resized {
    pub session_id: SessionId,
    pub rows: u16,
    pub cols: u16,
}
