//! Everything the runtime must be told, since it looks nothing up by itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use trl_mail::relay::broker::{BrokerConfig, OpenRelay};
use trl_protocol::agent::Mode;
use trl_protocol::isolation::Isolation;
use trl_protocol::limits;

use crate::grants::reach::Announced;

#[derive(Debug, Clone)]
pub struct Config {
    /// Sockets of hosts live below this, in `hosts/`.
    pub runtime_dir: PathBuf,
    /// Journals and snapshots live below this, in `sessions/`.
    pub state_dir: PathBuf,
    /// Agents and their mail live here, made when first asked for. Daemons that share it do
    /// not share the mail: the first that needs it owns it.
    pub mail_dir: PathBuf,
    /// Told by `agent.whoami`: whether a daemon has the mail, or its only client's own process.
    pub mail_mode: Mode,
    /// The broker that carries mail between machines; without one mail stays here.
    pub relay: Option<BrokerConfig>,
    /// How such a relay is opened; which implementations exist is the program's decision.
    pub open_relay: OpenRelay,
    /// The program and arguments of a session host.
    pub host_program: PathBuf,
    pub host_args: Vec<OsString>,
    /// The statically linked host program, which is brought to containers and other machines. Without one, the program
    /// of this daemon is, which has a host in it and needs the libraries that it needs here.
    pub static_host: Option<PathBuf>,
    /// `docker`, `podman`, `nerdctl` or the path of one; default: the first that is installed.
    pub container_engine: Option<String>,
    /// Runtimes with a name of their own.
    pub runtimes: Vec<NamedRuntime>,
    /// Tokens of other daemons that no runtime is configured for: a file for each, named `HOST:PORT`.
    pub tokens_dir: Option<PathBuf>,
    /// Where the agents that are granted access find this daemon.
    pub announced: Announced,
    /// Told by `system.ping`.
    pub version: String,
    /// What sessions inherit: the daemon's environment at its start.
    pub env: BTreeMap<String, String>,
    /// Where sessions begin unless they say otherwise: the daemon's directory at its start.
    pub working_dir: PathBuf,
    /// Where they begin if that one is gone.
    pub home_dir: PathBuf,
    /// Files and directories beside these that isolated sessions never see: the configuration, tokens, keys.
    pub private_paths: Vec<PathBuf>,
    /// Told to sessions as `TRL_SOCKET_PATH`, so that a `trl` inside one finds its daemon.
    pub socket: Option<PathBuf>,
    /// How many files a session's processes may have open, where the daemon has given itself more.
    pub open_files: Option<u64>,
    pub max_sessions: usize,
    pub default_timeout_s: f64,
    pub max_output_bytes: u64,
    pub journal_bytes: u64,
    pub max_idle_s: f64,
    pub session_ttl_s: f64,
    /// New sessions are refused while less memory than this is free; 0 is never.
    pub min_free_memory: u64,
    /// End when nobody has needed this daemon for so long; 0 is never.
    pub exit_idle_s: f64,
    /// What sessions are kept from unless they say otherwise.
    pub isolation: Option<Isolation>,
    /// Leave sessions to the next daemon when this one ends.
    pub keep_sessions: bool,
}

/// A runtime that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRuntime {
    pub name: String,
    /// As a request would write it, such as `ssh:me@build1`.
    pub target: String,
    pub labels: Vec<String>,
    pub max_sessions: Option<usize>,
    /// Of sessions that do not say themselves.
    pub isolation: Option<Isolation>,
    /// `/HERE:/THERE[:ro]`: directories of this machine that its containers have.
    pub mounts: Vec<String>,
    /// The token of another daemon.
    pub token_file: Option<PathBuf>,
    /// Certificate authorities (PEM) of another daemon.
    pub ca: Option<PathBuf>,
}

impl Config {
    /// What people call a runtime: its name here, if it has one and no more.
    pub(crate) fn name_of<'a>(&'a self, target: &'a str) -> &'a str {
        let mut names = self.runtimes.iter().filter(|named| named.target == target);
        match (names.next(), names.next()) {
            (Some(named), None) => named.name.as_str(),
            _ => target,
        }
    }

    /// The documented defaults; everything that has none is asked for.
    pub fn new(runtime_dir: PathBuf, state_dir: PathBuf, host_program: PathBuf) -> Config {
        Config {
            runtime_dir,
            mail_dir: state_dir.join("mail"),
            mail_mode: Mode::Daemon,
            state_dir,
            relay: None,
            open_relay: trl_mail::relay::broker::not_in_this_build,
            host_program,
            host_args: vec![OsString::from("host")],
            static_host: None,
            container_engine: None,
            runtimes: Vec::new(),
            tokens_dir: None,
            announced: Announced::default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            env: BTreeMap::new(),
            working_dir: PathBuf::from("/"),
            home_dir: PathBuf::from("/"),
            private_paths: Vec::new(),
            socket: None,
            open_files: None,
            max_sessions: limits::DEFAULT_MAX_SESSIONS,
            default_timeout_s: limits::DEFAULT_TIMEOUT_S,
            max_output_bytes: limits::DEFAULT_MAX_OUTPUT_BYTES,
            journal_bytes: limits::DEFAULT_JOURNAL_BYTES,
            max_idle_s: limits::DEFAULT_MAX_IDLE_S,
            session_ttl_s: limits::DEFAULT_SESSION_TTL_S,
            min_free_memory: limits::DEFAULT_MIN_FREE_MEMORY,
            exit_idle_s: 0.0,
            isolation: None,
            keep_sessions: false,
        }
    }
}
