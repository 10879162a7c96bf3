//! Commands: how they are asked for and what is told about them.

mod terminal;
mod wait;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ExecId, SessionId};

pub use terminal::{Cursor, ResizeParams, Resized, Screen, ScreenParams};
pub use wait::{Exit, LogUntil, Matched, Offsets, PortUntil, Until, WaitParams, Waited};

/// Shared by `exec.run`, `exec.stream` and `exec.start`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunParams {
    /// A session's id or name. Default: a temporary session for this command alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Shell text. Either this or `argv` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// A program and its arguments, which the shell does not interpret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Deadline in seconds of run time; 0 is none. Default: the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    /// Given whole, then end of file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// How `stdin` is given; default: as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_encoding: Option<Encoding>,
    /// Keep stdin open for `exec.write` after what `stdin` gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_open: Option<bool>,
    /// For this command only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<BTreeMap<String, String>>,
    /// `env` is the whole environment of the programs that this command starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace_env: Option<bool>,
    /// For this command only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// How much of each stream the reply holds: head and tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_bytes: Option<u64>,
    /// stdin and stdout are a terminal. Default: the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<bool>,
    /// stdout and stderr are one stream, in the order in which they were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_stderr: Option<bool>,
    /// A non-zero exit is `COMMAND_FAILED`, a timeout `COMMAND_TIMEOUT`.
    #[serde(default)]
    pub check: bool,
    /// Answer after this many seconds even if the command still runs: with the output so far and
    /// `still_running`. The command continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft_timeout_s: Option<f64>,
    /// How long to queue for a busy session; without it: `SESSION_BUSY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
    /// Beside the shell instead of in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    #[serde(default)]
    pub encoding: Encoding,
    /// A command that is sent again under the same id runs once: the repetition hears what the first did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Lossless for UTF-8; U+FFFD otherwise, and `…_lossy:true`.
    #[default]
    Utf8,
    Base64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    pub const BOTH: [Stream; 2] = [Stream::Stdout, Stream::Stderr];

    pub fn index(self) -> usize {
        match self {
            Stream::Stdout => 0,
            Stream::Stderr => 1,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecParams {
    pub exec_id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachParams {
    pub exec_id: String,
    #[serde(default)]
    pub stdout_offset: u64,
    #[serde(default)]
    pub stderr_offset: u64,
    #[serde(default)]
    pub encoding: Encoding,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputParams {
    pub exec_id: String,
    pub stream: Stream,
    #[serde(default)]
    pub offset: u64,
    /// At most this many bytes. Default and most: 8 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    #[serde(default)]
    pub encoding: Encoding,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteParams {
    pub exec_id: String,
    #[serde(default)]
    pub data: String,
    /// How `data` is given.
    #[serde(default)]
    pub encoding: Encoding,
    /// The same, by the name that it has elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_encoding: Option<Encoding>,
    /// Close stdin after `data`.
    #[serde(default)]
    pub eof: bool,
    /// A write repeated with the same id is applied once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_id: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<String>,
    /// Just this signal (`INT`, `SIGTERM`, `9`, …) instead of INT, then TERM, then KILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<SignalName>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BindParams {
    pub exec_id: String,
    /// False lets it go, whichever connection it was bound to.
    #[serde(default = "crate::session::yes")]
    pub bound: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bound {
    pub exec_id: ExecId,
    pub bound: bool,
}

/// A signal as people write it: by name, with or without `SIG`, or by number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SignalName {
    Number(i32),
    Name(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Only commands of sessions of this daemon itself, none on other daemons.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecState {
    Queued,
    Running,
    Finished,
}

/// How a command ended. Everything `exec.run` tells but the two texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// As the shell saw it; null if nobody saw it.
    pub exit_code: Option<i32>,
    /// The signal that ended the command or its shell, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub duration_ms: u64,
    pub duration_us: u64,
    pub timed_out: bool,
    pub cancelled: bool,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub working_dir: String,
    /// The limit of the session that it ran into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<HitLimit>,
    /// The shell could not parse the command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub syntax_error: bool,
    /// The session's shell ended with this command (`exit`, `exec`, a signal).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell_ended: bool,
    /// This command ran in a new shell with the restored state, or ending it cost the shell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell_replaced: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A limit of a session, by its name in `limits`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HitLimit {
    /// The kernel ended a process because the session had no memory left.
    Memory,
    /// A process or thread could not be started.
    Pids,
    /// A process was ended because it wrote beyond the largest size of a file.
    FileSize,
    /// A process was ended because its processor time was used up.
    CpuTimeS,
}

impl HitLimit {
    pub fn name(self) -> &'static str {
        match self {
            HitLimit::Memory => "memory",
            HitLimit::Pids => "pids",
            HitLimit::FileSize => "file_size",
            HitLimit::CpuTimeS => "cpu_time_s",
        }
    }
}

/// The answer to `exec.run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunReply {
    pub exec_id: ExecId,
    pub stdout: String,
    pub stderr: String,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub stdout_truncated: bool,
    pub stderr_truncated: bool,
    /// `soft_timeout_s` passed: this is the result so far, and the command continues.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub still_running: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdout_lossy: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stderr_lossy: bool,
}

/// The answer to `exec.stream` and `exec.attach`: `exec.run`'s without the two texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamReply {
    pub exec_id: ExecId,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub stdout_truncated: bool,
    pub stderr_truncated: bool,
    /// `soft_timeout_s` passed: this is the result so far, and the command continues.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub still_running: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stdout_lossy: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stderr_lossy: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Started {
    pub exec_id: ExecId,
    pub session_id: SessionId,
    pub state: ExecState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// What `exec.info` tells, and each row of `exec.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecInfo {
    pub exec_id: ExecId,
    pub session_id: SessionId,
    pub command: String,
    pub state: ExecState,
    pub background: bool,
    pub tty: bool,
    /// Process that runs it: the shell's for a foreground command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    pub created_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Bytes seen so far; may grow after the end, by background children.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    /// Bytes that the journal no longer holds.
    pub stdout_dropped_bytes: u64,
    pub stderr_dropped_bytes: u64,
    /// True when the command reads from its terminal and nobody has answered, with the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_for_input: Option<String>,
    /// Bytes of its input that wait, because it has not read what came before them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin_waiting_bytes: Option<u64>,
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<FinishedFields>,
}

/// The part of [`Outcome`] that [`ExecInfo`] does not have itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FinishedFields {
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub duration_ms: u64,
    pub duration_us: u64,
    pub timed_out: bool,
    pub cancelled: bool,
    pub stdout_truncated: bool,
    pub stderr_truncated: bool,
    pub working_dir: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<HitLimit>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub syntax_error: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell_ended: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shell_replaced: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl FinishedFields {
    /// `max_output`: how much of each stream the reply held.
    pub fn of(outcome: Outcome, max_output: u64) -> FinishedFields {
        FinishedFields {
            stdout_truncated: outcome.stdout_bytes > max_output,
            stderr_truncated: outcome.stderr_bytes > max_output,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            duration_ms: outcome.duration_ms,
            duration_us: outcome.duration_us,
            timed_out: outcome.timed_out,
            cancelled: outcome.cancelled,
            working_dir: outcome.working_dir,
            limit: outcome.limit,
            syntax_error: outcome.syntax_error,
            shell_ended: outcome.shell_ended,
            shell_replaced: outcome.shell_replaced,
            notes: outcome.notes,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExecList {
    pub execs: Vec<ExecInfo>,
}

/// A range of kept output: `text` or `base64`, as asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputReply {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// Where this range begins; later than asked if the bytes before are dropped.
    pub offset: u64,
    pub next_offset: u64,
    pub total_bytes: u64,
    /// Bytes of this stream that are no longer kept.
    pub dropped_bytes: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    pub exec_id: ExecId,
    pub bytes: u64,
    pub eof: bool,
    /// This write had been applied before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cancelled {
    /// The command that was cancelled; null if nothing ran.
    pub exec_id: Option<ExecId>,
    /// False if there was nothing to cancel.
    pub cancelled: bool,
}
