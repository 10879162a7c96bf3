//! Where mail lives and what bounds it.

use std::path::PathBuf;
use std::time::Duration;

use trl_protocol::agent::Mode;

use crate::steps::Steps;

#[derive(Debug, Clone)]
pub struct MailConfig {
    /// Private directory for `mail.db`, its lock and its witness.
    pub dir: PathBuf,
    pub mode: Mode,
    /// This machine's name, told in presence.
    pub host: String,
    /// Longest text of a message; longer is refused, never cut.
    pub max_text_bytes: usize,
    /// How long mail for a session that is not live waits before it goes back.
    pub grace: Duration,
    /// How long mail lives when its sender does not say.
    pub expiry: Duration,
    /// A heartbeat older than this is no sign of life.
    pub heartbeat_fresh: Duration,
    /// Unread messages that one agent may have.
    pub mailbox_messages: u64,
    /// Messages a minute between an agent and one peer, each way.
    pub rate_per_minute: u32,
    /// Messages a minute between two agents of this daemon. Lower: nobody types or thinks as fast, but two
    /// programs that answer each other do, and nothing between them slows them down.
    pub local_rate_per_minute: u32,
    /// How long to wait for a receipt before publishing the same bytes again.
    pub republish_after: Duration,
    /// At most one new key exchange with a peer in this time.
    pub rekey_gap: Duration,
    pub one_time_keys: usize,
    pub fallback_rotation: Duration,
    /// How long mail that is over (read, answered, failed) is kept, and what could not be read. A
    /// packet's id is remembered as long; a relay that repeats one later than this is broken.
    pub keep: Duration,
    /// Unreadable packets and dead letters that are kept for one agent.
    pub keep_unreadable: u64,
    pub auto: AutoLimits,
    /// Watched by tests that stop at each step.
    pub steps: Steps,
}

#[derive(Debug, Clone)]
pub struct AutoLimits {
    pub time_limit: Duration,
    pub max_running: usize,
    pub max_answer_bytes: usize,
    /// Automatic answers that may lead to a message before nobody answers it automatically.
    pub max_hops: u32,
    pub per_pair_per_hour: u32,
    pub per_day: u32,
    /// The command's whole search path; nothing else of the environment reaches it.
    pub path: String,
    /// What keeps the command to its one task; without it, it runs as anything of this user's does.
    pub confiner: Option<Confiner>,
}

/// A program of ours that gives up everything but what it is told, and becomes the command:
/// `PROGRAM ARGUMENTS… [--network] DIR COMMAND…`. See [`trl_confine`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confiner {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

impl AutoLimits {
    /// What keeps the command to its one task, by name.
    pub fn sandbox(&self) -> &'static str {
        if self.confiner.is_some() { trl_confine::layers() } else { "none" }
    }
}

impl MailConfig {
    pub fn new(dir: PathBuf) -> MailConfig {
        MailConfig {
            dir,
            mode: Mode::Daemon,
            host: String::new(),
            max_text_bytes: 256 * 1024,
            grace: Duration::from_secs(3600),
            expiry: Duration::from_secs(7 * 86_400),
            heartbeat_fresh: Duration::from_secs(30),
            mailbox_messages: 200_000,
            rate_per_minute: 6000,
            local_rate_per_minute: 600,
            republish_after: Duration::from_secs(60),
            rekey_gap: Duration::from_secs(60),
            one_time_keys: 50,
            fallback_rotation: Duration::from_secs(7 * 86_400),
            keep: Duration::from_secs(30 * 86_400),
            keep_unreadable: 1000,
            auto: AutoLimits {
                time_limit: Duration::from_secs(120),
                max_running: 2,
                max_answer_bytes: 64 * 1024,
                max_hops: 3,
                per_pair_per_hour: 10,
                per_day: 100,
                path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
                confiner: None,
            },
            steps: Steps::default(),
        }
    }
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}
