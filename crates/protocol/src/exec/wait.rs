//! Waiting for a command: until it ends, says something or opens a port.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ExecInfo, Stream};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitParams {
    pub exec_id: String,
    /// How long to wait; 0, the default, is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// Default: for the end of the command.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::request::object")]
    pub until: Option<Until>,
}

/// What is waited for: one of these.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The end of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Something in its output.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::request::object")]
    pub log: Option<LogUntil>,
    /// A port that takes connections.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::request::object")]
    pub port: Option<PortUntil>,
}

/// `true` or `{}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Exit {
    Said(bool),
    Empty(crate::system::NoParams),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogUntil {
    /// A text, or with `regex` an expression whose `^` and `$` are ends of lines, also of one that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// Several instead of `pattern`. The match that begins first counts; `index` says which one it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    #[serde(default)]
    pub regex: bool,
    /// Only in this stream; default: in both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Stream>,
    /// Matches begin here or later, counted in bytes of each stream. Without `stream` it holds for both.
    #[serde(default)]
    pub from_offset: u64,
    /// The same, one for each stream; what `next_offsets` of the last match says.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::request::object")]
    pub from_offsets: Option<Offsets>,
}

/// A place in each stream of a command, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Offsets {
    #[serde(default)]
    pub stdout: u64,
    #[serde(default)]
    pub stderr: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PortUntil {
    pub port: u16,
    /// Default: the machine that the session runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// A path that must be answered with a status below 400.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_path: Option<String>,
}

/// The answer to `exec.wait`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Waited {
    #[serde(flatten)]
    pub info: ExecInfo,
    pub matched: Matched,
}

/// What was waited for and came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Matched {
    Exit(bool),
    Log {
        stream: Stream,
        /// Where in the stream it begins.
        offset: u64,
        /// Where in the stream it ends.
        #[serde(default)]
        end_offset: u64,
        /// Which of several patterns it is.
        #[serde(default)]
        index: u64,
        text: String,
        /// Where to go on: behind the match in its stream, and where the search began in the other.
        #[serde(default)]
        next_offsets: Offsets,
    },
    Port {
        port: u16,
        host: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        http_status: Option<u16>,
    },
}
