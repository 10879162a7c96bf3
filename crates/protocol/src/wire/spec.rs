//! What a host is told of its session before it starts it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::isolation::{Isolation, IsolationReport};
use crate::session::{Durability, SessionLimits};

/// All that a host needs to start its session. Sent over its first connection, never in arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionSpec {
    pub session_id: SessionId,
    pub name: Option<String>,
    /// As asked for; told back in `session.info`.
    pub shell: String,
    pub shell_path: String,
    pub dialect: Dialect,
    /// The whole environment of the shell.
    pub env: BTreeMap<String, String>,
    /// Names told by `session.info` as given.
    pub env_keys: Vec<String>,
    pub working_dir: String,
    pub timeout_s: f64,
    pub idle_timeout_s: f64,
    pub ttl_s: f64,
    pub tty: bool,
    pub rc: bool,
    pub limits: SessionLimits,
    /// Directory of journals and snapshot.
    pub state_dir: String,
    /// Where later daemons find this host.
    pub socket: String,
    /// Go on with what an earlier host has left in `state_dir`.
    #[serde(default)]
    pub resume: bool,
    /// How many files a process of the session may have open, if that is less than the daemon may.
    #[serde(default)]
    pub open_files: Option<u64>,
    #[serde(default)]
    pub isolation: Option<Isolation>,
    /// The daemon's own directories and sockets, which an isolated session never sees.
    #[serde(default)]
    pub hidden_dirs: Vec<String>,
    /// `/HERE:/THERE[:ro]`: directories of the daemon's machine that the session's container has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<String>,
    /// What the place enforces of `isolation` and of the limits on memory, processes and processors, as a
    /// container engine does. The host tells it and leaves it alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outside: Option<Box<IsolationReport>>,
    /// A file that also gets the state of the shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_state: Option<String>,
    /// A file with the state to begin with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_state: Option<String>,
    /// The state of another session's shell to begin with. Only hosts know what is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_with: Option<serde_json::Value>,
    #[serde(default)]
    pub durability: Durability,
    /// What the host finds out itself, since the daemon is elsewhere. `shell`, `shell_path`, `dialect` and
    /// `working_dir` are then to be filled in, and `env` to be added to the host's own environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolve: Option<Resolve>,
}

/// What was asked for; `None` is the default of the place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolve {
    pub shell: Option<String>,
    pub working_dir: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    Bash,
    Zsh,
    Sh,
}
