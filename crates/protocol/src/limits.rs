//! Numbers that bound what one request, one session and one daemon may use.

/// Longest request line.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;
/// Kept output of one stream in a reply, unless the request says otherwise.
pub const DEFAULT_MAX_OUTPUT_BYTES: u64 = 1024 * 1024;
/// Most of one stream that a reply holds, whatever the request asks for.
pub const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;
/// Kept output of one stream on disk: a head and a ring for the tail.
pub const DEFAULT_JOURNAL_BYTES: u64 = 64 * 1024 * 1024;
/// Longest command text.
pub const MAX_COMMAND_BYTES: usize = 8 * 1024 * 1024;
/// Largest stdin given with a request, and most that waits to be written to a command.
pub const MAX_STDIN_BYTES: usize = 16 * 1024 * 1024;
/// Longest `run_id`.
pub const MAX_RUN_ID_BYTES: usize = 200;
/// Largest range that one `exec.output` returns.
pub const MAX_RANGE_BYTES: u64 = 8 * 1024 * 1024;
/// Commands that may wait for one session.
pub const MAX_QUEUE: usize = 256;
/// Rows or columns of a terminal.
pub const MAX_TERMINAL_SIDE: u16 = 1000;
pub const DEFAULT_TIMEOUT_S: f64 = 60.0;
pub const DEFAULT_MAX_SESSIONS: usize = 64;
/// Clients at a time, over each transport.
pub const DEFAULT_MAX_CONNECTIONS: u32 = 1024;
pub const DEFAULT_MAX_IDLE_S: f64 = 3600.0;
pub const DEFAULT_SESSION_TTL_S: f64 = 86_400.0;
/// Below this much free memory no new session is begun.
pub const DEFAULT_MIN_FREE_MEMORY: u64 = 32 * 1024 * 1024;
/// Longest deadline or wait that can be asked for: ten years.
pub const MAX_SECONDS: f64 = 315_360_000.0;
/// Finished commands whose output a session keeps.
pub const KEPT_EXECS: usize = 256;
/// How long the output of a finished command is kept.
pub const KEPT_EXEC_S: u64 = 24 * 3600;
/// Disk that the kept output of one session may use.
pub const KEPT_SESSION_BYTES: u64 = 512 * 1024 * 1024;
