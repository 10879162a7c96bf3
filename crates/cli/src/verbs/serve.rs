//! `trl serve`: the daemon, in the foreground.

use crate::args::Global;
use crate::config::{self, Flags, Key};
use crate::failure::{Failure, Result};

/// Run the daemon in the foreground
///
/// Without a transport it listens on its Unix socket. SIGTERM and SIGINT end it, and its
/// sessions unless told to keep them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Speak the line protocol on stdin and stdout
    #[arg(long)]
    stdin: bool,
    /// Speak HTTP at this address (not in this build yet) [env: TRL_HTTP]
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Sessions that may live at once [env: TRL_MAX_SESSIONS] [default: 64]
    #[arg(long, value_name = "COUNT")]
    max_sessions: Option<String>,
    /// Deadline of commands that name none; 0 is none [env: TRL_DEFAULT_TIMEOUT_S] [default: 60]
    #[arg(long, value_name = "SECONDS")]
    default_timeout: Option<String>,
    /// How much of each stream a reply holds [env: TRL_MAX_OUTPUT_BYTES] [default: 1M]
    #[arg(long, value_name = "BYTES")]
    max_output_bytes: Option<String>,
    /// How much of each stream of a command is kept on disk [env: TRL_JOURNAL_BYTES] [default: 64M]
    #[arg(long, value_name = "BYTES")]
    journal_bytes: Option<String>,
    /// End sessions without a command for this long; 0 is never [env: TRL_MAX_IDLE_SEC] [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    max_idle: Option<String>,
    /// End sessions older than this; 0 is never [env: TRL_SESSION_TTL_SEC] [default: 86400]
    #[arg(long, value_name = "SECONDS")]
    session_ttl: Option<String>,
    /// Leave the sessions to the next daemon when this one is told to end [env: TRL_KEEP_SESSIONS]
    #[arg(long)]
    keep_sessions: bool,
    /// What is logged, as a `tracing` filter [env: TRL_LOG] [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// `human` or `json` [env: TRL_LOG_FORMAT] [default: human]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Log to this file instead of stderr [env: TRL_LOG_FILE]
    #[arg(long, value_name = "FILE")]
    log_file: Option<String>,
    /// Started on demand: report readiness on stdout, then let go of the terminal
    #[arg(long, hide = true)]
    detached: bool,
}

impl Args {
    fn add_to(&self, flags: &mut Flags) {
        let keep = self.keep_sessions.then(|| "yes".to_owned());
        let given = [
            (Key::Http, "--http", &self.http),
            (Key::MaxSessions, "--max-sessions", &self.max_sessions),
            (Key::DefaultTimeout, "--default-timeout", &self.default_timeout),
            (Key::MaxOutput, "--max-output-bytes", &self.max_output_bytes),
            (Key::Journal, "--journal-bytes", &self.journal_bytes),
            (Key::MaxIdle, "--max-idle", &self.max_idle),
            (Key::SessionTtl, "--session-ttl", &self.session_ttl),
            (Key::KeepSessions, "--keep-sessions", &keep),
            (Key::Log, "--log", &self.log),
            (Key::LogFormat, "--log-format", &self.log_format),
            (Key::LogFile, "--log-file", &self.log_file),
        ];
        let said = given.into_iter().filter_map(|(key, flag, text)| Some((key, flag, text.clone()?)));
        flags.settings.extend(said);
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<u8> {
    let mut flags = global.flags();
    args.add_to(&mut flags);
    let settings = config::load(&flags)?;
    let _ = settings;
    Err(Failure::unavailable("the daemon is not wired yet"))
}
