//! The host's wire: what a daemon says to a session host and what it hears back.
//!
//! A host outlives daemons, so this is versioned: a field may be added with a
//! default, never removed or renamed; a message that a host does not know gets
//! [`FromHost::Fault`]. Each daemon connection starts with [`ToHost::Hello`].
//!
//! Output flows as data frames ([`crate::frame`]) tagged with the request that
//! asked for it: for `Collect` the head and the tail that fit, just before `Done`;
//! for `Stream` and `Attach` everything from the asked offsets on, never more than
//! the granted credit ahead.

mod read;
mod spec;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::exec::{ExecInfo, Outcome, PortUntil, Screen, Stream};
use crate::fault::Fault;
use crate::file::{FileDone, FileOp};
pub use crate::session::Released;
use crate::session::SessionInfo;
pub use spec::{Dialect, Resolve, SessionSpec};

/// Raised when a host or daemon must know that the other can do something new.
pub const HOST_PROTOCOL: u32 = 1;
/// Bytes that a host may send for a stream before it is granted more.
pub const INITIAL_CREDIT: u64 = 2 * 1024 * 1024;
/// In the environment of hosts and their keepers: the pid of the daemon that had them started.
pub const DAEMON_PID: &str = "TRL_DAEMON_PID";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum ToHost {
    /// First on every connection. A host's first connection also brings its session.
    Hello {
        protocol: u32,
        #[serde(default)]
        create: Option<Box<SessionSpec>>,
    },
    Run {
        req: u64,
        run: Box<RunSpec>,
    },
    Attach {
        req: u64,
        exec: u64,
        stdout_offset: u64,
        stderr_offset: u64,
    },
    /// The end of a command, without its output; answered with `Done`.
    Wait {
        req: u64,
        exec: u64,
    },
    /// Everything that begins and ends from now on, as `Changed`.
    Watch {
        req: u64,
    },
    /// More bytes may be sent for this stream or attach.
    Credit {
        req: u64,
        bytes: u64,
    },
    /// Nobody listens to this request any more; what it started goes on.
    Detach {
        req: u64,
    },
    Output {
        req: u64,
        exec: u64,
        stream: Stream,
        offset: u64,
        limit: u64,
    },
    Write {
        req: u64,
        exec: u64,
        #[serde(with = "base64_bytes")]
        data: Vec<u8>,
        eof: bool,
        write_id: Option<String>,
    },
    Resize {
        req: u64,
        exec: u64,
        rows: u16,
        cols: u16,
    },
    /// Shows the session as people see it, until `Detach` or `Released`.
    View {
        req: u64,
        /// Types, and whose window gives the size.
        writer: bool,
        /// In place of the one who does now.
        take_over: bool,
        /// Rows and columns.
        #[serde(default)]
        size: Option<(u16, u16)>,
    },
    /// Keys of a person, to the command on the terminal or to the prompt.
    Keys {
        req: u64,
        #[serde(with = "base64_bytes")]
        data: Vec<u8>,
    },
    /// The size of the session's terminal.
    Size {
        req: u64,
        rows: u16,
        cols: u16,
    },
    /// `exec: None` is the session's command on a terminal, or the last one.
    Screen {
        req: u64,
        exec: Option<u64>,
    },
    /// `exec: None` is whatever runs in the foreground.
    Cancel {
        req: u64,
        exec: Option<u64>,
        signal: Option<i32>,
    },
    List {
        req: u64,
    },
    Info {
        req: u64,
        exec: u64,
    },
    Session {
        req: u64,
    },
    Restart {
        req: u64,
    },
    /// Answered with `Forked` once the state that the last command left is known.
    Fork {
        req: u64,
    },
    /// Answered with `Session` once the name is stored.
    Rename {
        req: u64,
        name: String,
    },
    /// Answered with `Session` once the shell is ready for its first command.
    AwaitReady {
        req: u64,
    },
    /// Answered with `File`, after data frames with the bytes that were read.
    File {
        req: u64,
        file: Box<FileOp>,
    },
    /// One look at a port, from where the session runs; answered with `Port`.
    Port {
        req: u64,
        port: Box<PortUntil>,
    },
    /// Whoever asks accepts what the session's programs connect to as their proxy. The socket comes with `Listener`,
    /// and again whenever it is another. Only over a Unix socket.
    Proxy {
        req: u64,
    },
    /// Something that the commands that run now are to tell at their end.
    Note {
        req: u64,
        text: String,
    },
    /// End the session and every process it started, then the host.
    End {
        req: u64,
        force: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunSpec {
    pub command: String,
    /// Deadline; 0 is none, `None` the session's default.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    pub stdin: Stdin,
    pub env: BTreeMap<String, String>,
    pub working_dir: Option<String>,
    pub max_output: u64,
    pub mode: Mode,
    /// How long it may wait for a busy session; 0 is not at all.
    pub wait_ms: u64,
    pub background: bool,
    pub tty: bool,
    /// Of a command that may be sent again, and is to run once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// stderr is stdout, too.
    #[serde(default)]
    pub merge_stderr: bool,
    /// `env` is the whole environment.
    #[serde(default)]
    pub replace_env: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// End of file at once.
    Empty,
    /// This, then end of file.
    Whole(#[serde(with = "base64_bytes")] Vec<u8>),
    /// This, then what `Write` brings.
    Open(#[serde(with = "base64_bytes")] Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// `Done` with head and tail at the end (`exec.run`).
    Collect,
    /// Output as it comes, then `Done` (`exec.stream`).
    Stream,
    /// Only `Started` (`exec.start`).
    Detached,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum FromHost {
    Welcome {
        protocol: u32,
        version: String,
        session: Box<SessionInfo>,
    },
    /// The command has a number; it runs, or waits for its turn. Who follows one that waits hears it
    /// again when its turn has come.
    Started {
        req: u64,
        exec: u64,
        queued: bool,
        pid: Option<u32>,
    },
    /// Bytes between the offsets are no longer kept; data goes on at `to`.
    Gap {
        req: u64,
        stream: Stream,
        from: u64,
        to: u64,
    },
    Waiting {
        req: u64,
        exec: u64,
        prompt: String,
    },
    /// End of `Run` (not detached) and `Attach`. `dropped`: bytes no longer kept, per stream.
    Done {
        req: u64,
        exec: u64,
        outcome: Box<Outcome>,
        dropped: [u64; 2],
    },
    /// What a `Watch` asked for: a command is queued, runs or is over, or the session has a new shell.
    Changed {
        req: u64,
        #[serde(default)]
        exec: Option<Box<ExecInfo>>,
        #[serde(default)]
        session: Option<Box<SessionInfo>>,
    },
    /// Answers `Output`; the bytes came in data frames before it.
    Range {
        req: u64,
        offset: u64,
        next_offset: u64,
        total: u64,
        dropped: u64,
    },
    Wrote {
        req: u64,
        exec: u64,
        bytes: u64,
        eof: bool,
        duplicate: bool,
    },
    Resized {
        req: u64,
        exec: u64,
    },
    /// A descriptor comes with this: the socket that `Proxy` asked for.
    Listener {
        req: u64,
    },
    /// Answers `Keys`, `Size` and `Note`.
    Taken {
        req: u64,
    },
    /// The end of `View` that was not asked for.
    Released {
        req: u64,
        reason: Released,
    },
    Screen {
        req: u64,
        screen: Box<Screen>,
    },
    /// `exec: None`: there was no command to cancel.
    Cancelled {
        req: u64,
        exec: Option<u64>,
        /// The shell was interrupted in its start-up files.
        #[serde(default)]
        startup: bool,
    },
    Execs {
        req: u64,
        execs: Vec<ExecInfo>,
    },
    Session {
        req: u64,
        session: Box<SessionInfo>,
    },
    File {
        req: u64,
        done: Box<FileDone>,
    },
    Port {
        req: u64,
        seen: PortSeen,
    },
    /// This session's own spec, with the state of its shell in `begin_with`.
    Forked {
        req: u64,
        spec: Box<SessionSpec>,
    },
    Fault {
        req: u64,
        fault: Fault,
    },
    /// The session is over; `req` is 0 if nobody asked (idle, age). The host ends now.
    Ended {
        req: u64,
        reason: String,
        /// As it was at the end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<Box<SessionInfo>>,
    },
}

impl FromHost {
    /// The request that this answers; 0 for none.
    pub fn req(&self) -> u64 {
        match self {
            FromHost::Welcome { .. } => 0,
            FromHost::Started { req, .. }
            | FromHost::Gap { req, .. }
            | FromHost::Waiting { req, .. }
            | FromHost::Done { req, .. }
            | FromHost::Changed { req, .. }
            | FromHost::Range { req, .. }
            | FromHost::Wrote { req, .. }
            | FromHost::Resized { req, .. }
            | FromHost::Listener { req }
            | FromHost::Taken { req }
            | FromHost::Released { req, .. }
            | FromHost::Screen { req, .. }
            | FromHost::Cancelled { req, .. }
            | FromHost::Execs { req, .. }
            | FromHost::Session { req, .. }
            | FromHost::File { req, .. }
            | FromHost::Port { req, .. }
            | FromHost::Forked { req, .. }
            | FromHost::Fault { req, .. }
            | FromHost::Ended { req, .. } => *req,
        }
    }

    /// Whether `req` is answered for good with this.
    pub fn is_final(&self) -> bool {
        match self {
            FromHost::Gap { .. }
            | FromHost::Waiting { .. }
            | FromHost::Changed { .. }
            | FromHost::Listener { .. }
            | FromHost::Started { .. }
            | FromHost::Welcome { .. } => false,
            FromHost::Done { .. }
            | FromHost::Range { .. }
            | FromHost::Wrote { .. }
            | FromHost::Resized { .. }
            | FromHost::Taken { .. }
            | FromHost::Released { .. }
            | FromHost::Screen { .. }
            | FromHost::Cancelled { .. }
            | FromHost::Execs { .. }
            | FromHost::Session { .. }
            | FromHost::File { .. }
            | FromHost::Port { .. }
            | FromHost::Forked { .. }
            | FromHost::Fault { .. }
            | FromHost::Ended { .. } => true,
        }
    }
}

/// What a look at a port has shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortSeen {
    /// Nobody takes connections there.
    Closed,
    /// Somebody does, and does not answer as asked for.
    Unready,
    Open {
        host: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        http_status: Option<u16>,
    },
}

/// Bytes as base64 in JSON.
pub mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
