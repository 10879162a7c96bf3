//! `trl serve`: the daemon, in the foreground or, started on demand, detached.

mod detach;
mod http;
mod log;
mod open_files;
pub(super) mod secrets;
mod signals;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use trl_client::MAX_SOCKET_PATH;
use trl_client::readiness::Readiness;
use trl_gateway::{GatewayConfig, HttpError, ServeError, SocketError};
use trl_protocol::agent::Mode;
use trl_runtime::{HostDirsError, StartError};

use crate::args::Global;
use crate::config::{self, EnvFile, Flags, Key, Settings};
use crate::failure::{Failure, Result};
use crate::human;
use crate::output;
use crate::verbs::version;

/// How long a daemon started on demand waits for the one before it to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Run the daemon in the foreground
///
/// Without a transport it listens on its Unix socket. SIGTERM and SIGINT end it, and its
/// sessions unless told to keep them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Serve the line protocol on stdin and stdout
    #[arg(long)]
    stdin: bool,
    /// Serve HTTP at this address, with the token in TRL_AUTH_TOKEN [env: TRL_HTTP]
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// More tokens for HTTP, one per line: NAME SCOPE TOKEN; the file's mode must be 0600 [env: TRL_TOKENS_FILE]
    #[arg(long, value_name = "FILE")]
    tokens: Option<String>,
    /// Host names that HTTP accepts in addition to addresses and localhost [env: TRL_HTTP_HOSTS]
    #[arg(long, value_name = "NAMES")]
    http_hosts: Option<String>,
    /// Origins whose web pages may use HTTP [env: TRL_HTTP_ORIGINS]
    #[arg(long, value_name = "ORIGINS")]
    http_origins: Option<String>,
    /// Serve HTTP over TLS with this certificate (PEM) [env: TRL_HTTP_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    http_tls_cert: Option<String>,
    /// The key of that certificate (PEM) [env: TRL_HTTP_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    http_tls_key: Option<String>,
    /// Where agents that are granted access find this daemon: a URL, or `on` for the address of HTTP [env: TRL_ANNOUNCE]
    #[arg(long, value_name = "URL")]
    announce: Option<String>,
    /// Most sessions at a time [env: TRL_MAX_SESSIONS] [default: 64]
    #[arg(long, value_name = "COUNT")]
    max_sessions: Option<String>,
    /// Most connections at a time over the socket, and as many over HTTP
    /// [env: TRL_MAX_CONNECTIONS] [default: 1024]
    #[arg(long, value_name = "COUNT")]
    max_connections: Option<String>,
    /// Default deadline of commands; 0 is none [env: TRL_DEFAULT_TIMEOUT_S] [default: 60]
    #[arg(long, value_name = "SECONDS")]
    default_timeout: Option<String>,
    /// Most output of each stream in a reply [env: TRL_MAX_OUTPUT_BYTES] [default: 1M]
    #[arg(long, value_name = "BYTES")]
    max_output_bytes: Option<String>,
    /// Most output of each stream of a command on disk [env: TRL_JOURNAL_BYTES] [default: 64M]
    #[arg(long, value_name = "BYTES")]
    journal_bytes: Option<String>,
    /// Idle timeout of sessions; 0 is never [env: TRL_MAX_IDLE_SEC] [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    max_idle: Option<String>,
    /// Maximum age of sessions; 0 is never [env: TRL_SESSION_TTL_SEC] [default: 86400]
    #[arg(long, value_name = "SECONDS")]
    session_ttl: Option<String>,
    /// Free memory below which no session is created; 0 switches this off [env: TRL_MIN_FREE_MEMORY] [default: 32M]
    #[arg(long, value_name = "BYTES")]
    min_free_memory: Option<String>,
    /// End after this time without a session, a client and a live agent; 0 is never
    /// [env: TRL_EXIT_IDLE_SEC] [default: 0]
    #[arg(long, value_name = "SECONDS")]
    exit_idle: Option<String>,
    /// Default isolation of sessions: `none`, `workspace`, `strict`
    /// [env: TRL_ISOLATION] [default: none]
    #[arg(long, value_name = "PROFILE")]
    isolation: Option<String>,
    /// Keep sessions running for the next daemon when this one ends [env: TRL_KEEP_SESSIONS]
    #[arg(long)]
    keep_sessions: bool,
    /// Broker that carries mail between machines [env: TRL_RELAY]
    #[arg(long, value_name = "URL")]
    relay: Option<String>,
    /// Key file, or directory of key files, for the broker [env: TRL_RELAY_CREDENTIALS]
    #[arg(long, value_name = "PATH")]
    relay_credentials: Option<String>,
    /// Log filter in `tracing` syntax [env: TRL_LOG] [default: info]
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// `human` or `json` [env: TRL_LOG_FORMAT] [default: human]
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// Log to this file instead of stderr [env: TRL_LOG_FILE]
    #[arg(long, value_name = "FILE")]
    log_file: Option<String>,
    /// Read every setting from this file of `NAME=VALUE` lines; without the flag, `.env` in the working
    /// directory is read, except for settings that open a listener or name a token, a socket or a file
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// Started on demand: report readiness on stdout, then let go of the terminal
    #[arg(long, hide = true)]
    detached: bool,
}

impl Args {
    fn add_to(&self, flags: &mut Flags) {
        let keep = self.keep_sessions.then(|| "yes".to_owned());
        let given = [
            (Key::Http, "--http", &self.http),
            (Key::TokensFile, "--tokens", &self.tokens),
            (Key::HttpHosts, "--http-hosts", &self.http_hosts),
            (Key::HttpOrigins, "--http-origins", &self.http_origins),
            (Key::HttpTlsCert, "--http-tls-cert", &self.http_tls_cert),
            (Key::HttpTlsSecret, "--http-tls-key", &self.http_tls_key),
            (Key::Announce, "--announce", &self.announce),
            (Key::MaxSessions, "--max-sessions", &self.max_sessions),
            (Key::MaxConnections, "--max-connections", &self.max_connections),
            (Key::DefaultTimeout, "--default-timeout", &self.default_timeout),
            (Key::MaxOutput, "--max-output-bytes", &self.max_output_bytes),
            (Key::Journal, "--journal-bytes", &self.journal_bytes),
            (Key::MaxIdle, "--max-idle", &self.max_idle),
            (Key::SessionTtl, "--session-ttl", &self.session_ttl),
            (Key::MinFreeMemory, "--min-free-memory", &self.min_free_memory),
            (Key::ExitIdle, "--exit-idle", &self.exit_idle),
            (Key::Isolation, "--isolation", &self.isolation),
            (Key::KeepSessions, "--keep-sessions", &keep),
            (Key::Relay, "--relay", &self.relay),
            (Key::RelayCredentials, "--relay-credentials", &self.relay_credentials),
            (Key::Log, "--log", &self.log),
            (Key::LogFormat, "--log-format", &self.log_format),
            (Key::LogFile, "--log-file", &self.log_file),
        ];
        let said = given.into_iter().filter_map(|(key, flag, text)| Some((key, flag, text.clone()?)));
        flags.settings.extend(said);
        flags.env_file = match &self.env_file {
            Some(path) => EnvFile::Named(path.clone()),
            None if self.detached => EnvFile::Unread,
            None => EnvFile::InWorkingDir,
        };
    }
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<u8> {
    secrets::forbid_inspection();
    if args.detached {
        detach::leave_terminal();
        // Started on demand from inside a session, it is not to end with that.
        #[cfg(target_os = "linux")]
        trl_confine::linux::cgroups::leave();
    }
    match prepare(args, global).and_then(|daemon| daemon.serve()) {
        Ok(()) => Ok(0),
        Err(failure) if args.detached => {
            tracing::error!("{}", failure.message());
            detach::announce(&Readiness::Refused {
                message: failure.message().to_owned(),
                help: failure.hints().first().cloned(),
            });
            Ok(failure.status)
        }
        Err(failure) => Err(failure),
    }
}

/// A daemon about to serve.
struct Daemon {
    settings: Settings,
    socket: Option<PathBuf>,
    stdin: bool,
    /// HTTP was asked for by a flag and the socket by nobody.
    http_is_enough: bool,
    detached: bool,
}

fn prepare(args: &Args, global: &Global) -> Result<Daemon> {
    let mut flags = global.flags();
    args.add_to(&mut flags);
    let settings = config::load(&flags)?;
    secrets::overwrite();
    // To stderr even if the log goes elsewhere: whoever started the daemon must see it.
    if let Some(ignored) = &settings.ignored {
        output::note(&ignored.to_string());
    }
    log::start(&settings, args.detached)?;
    // stdin alone is the whole daemon: nobody else is to reach it, unless a socket is named too.
    let listens = !args.stdin || settings.socket_by_flag;
    let socket = listens.then(|| settings.socket.clone());
    if let Some(path) = socket.as_ref().filter(|path| path.as_os_str().len() > MAX_SOCKET_PATH) {
        return Err(trl_client::Error::PathTooLong { socket: path.clone(), limit: MAX_SOCKET_PATH }.into());
    }
    let http_is_enough = !settings.socket_named && settings.http.as_ref().is_some_and(|http| http.by_flag);
    Ok(Daemon { socket, stdin: args.stdin, http_is_enough, detached: args.detached, settings })
}

/// MCP on stdin and stdout with the whole runtime behind it, in this process.
pub(crate) fn embedded(settings: &Settings, mcp: trl_mcp::Settings) -> Result<()> {
    let daemon = Daemon {
        settings: settings.clone(),
        socket: None,
        stdin: false,
        http_is_enough: false,
        detached: false,
    };
    let gateway = GatewayConfig { stdio_mcp: Some(mcp), ..GatewayConfig::default() };
    secrets::forbid_inspection();
    secrets::overwrite();
    // Nobody finds these sessions again: they end with us.
    let config = trl_runtime::Config { keep_sessions: false, mail_mode: Mode::Own, ..daemon.config()? };
    trl_gateway::serve_blocking(gateway, config, Box::pin(signals::told_to_end())).map_err(refused)
}

/// The log of a program whose stdout is a transport and whose stderr a harness may show: only
/// what went wrong, unless more is asked for.
pub(crate) fn log_quietly(settings: &Settings) -> Result<()> {
    let mut settings = settings.clone();
    if settings.log_filter == config::DEFAULT_LOG {
        settings.log_filter = "warn".to_owned();
    }
    log::start(&settings, false)
}

pub(crate) use signals::told_to_end;

impl Daemon {
    fn serve(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            match trl_gateway::serve_blocking(
                self.gateway()?,
                self.config()?,
                Box::pin(signals::told_to_end()),
            ) {
                Ok(()) => return Ok(()),
                Err(ServeError::Socket(SocketError::Taken { path, pid }))
                    if self.detached && Instant::now() < end && !detach::is_served(&path) =>
                {
                    // Its holder is about to end, or to listen; either is a matter of moments.
                    detach::wait_for_exit(pid, Duration::from_millis(20));
                }
                Err(error) => return Err(refused(error)),
            }
        }
    }

    fn gateway(&self) -> Result<GatewayConfig> {
        let (socket, detached) = (self.socket.clone(), self.detached);
        let on_ready = move |http: Option<SocketAddr>| {
            if let Some(socket) = socket {
                tracing::info!(socket = %socket.display(), "listening");
            }
            if let Some(address) = http {
                tracing::info!(http = %address, "listening");
            }
            if detached {
                detach::announce(&Readiness::Listening { pid: std::process::id() });
            }
        };
        let http = match self.settings.http.as_ref().map(http::config).transpose() {
            Ok(http) => http,
            // A variable meant for another daemon must not keep a client from its own.
            Err(failure) if self.detached => {
                tracing::warn!("{}; going on without", failure.message());
                None
            }
            Err(failure) => return Err(failure),
        };
        Ok(GatewayConfig {
            socket: self.socket.clone(),
            socket_if_free: http.is_some() && self.http_is_enough,
            stdio: self.stdin,
            stdio_mcp: None,
            http_mcp: http.is_some().then(|| trl_mcp::Settings {
                profile: self.settings.mcp_tools.clone(),
                structured: self.settings.mcp_structured,
                silence: Some(self.settings.max_idle_s)
                    .filter(|idle| *idle > 0.0)
                    .and_then(|idle| Duration::try_from_secs_f64(idle).ok()),
                ..trl_mcp::Settings::new(version::OURS)
            }),
            http,
            http_if_possible: self.detached,
            max_connections: Some(self.settings.max_connections),
            on_ready: Some(Box::new(on_ready)),
        })
    }

    fn config(&self) -> Result<trl_runtime::Config> {
        let program =
            std::env::current_exe().map_err(|error| Failure::system("finding this program's file", error))?;
        let Settings { places, .. } = &self.settings;
        let root = || PathBuf::from("/");
        let home_dir = human::home_dir().filter(|home| home.is_absolute()).unwrap_or_else(root);
        let working_dir =
            if self.detached { home_dir.clone() } else { std::env::current_dir().unwrap_or_else(|_| root()) };
        let text =
            |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        let mut config = trl_runtime::Config::new(places.runtime.clone(), places.state.clone(), program);
        config.version = version::OURS.to_owned();
        config.env = std::env::vars_os().filter_map(text).collect();
        // Nothing can be mounted over what does not exist: an isolated session that may write beside it could create it.
        if places.config != places.config_file && !places.config.exists() {
            trl_sys::private::make_private(&places.config).ok();
        }
        config.private_paths = self.settings.private_paths();
        config.working_dir = working_dir;
        config.home_dir = home_dir;
        config.open_files = open_files::take_what_is_allowed();
        config.static_host = self.settings.host_program.clone().or_else(|| {
            let beside = config.host_program.with_file_name(format!("trl-host-{}", std::env::consts::ARCH));
            Some(beside).filter(|path| path.is_file())
        });
        config.runtimes = self.settings.runtimes.clone();
        config.tokens_dir = places.config_file.parent().map(|dir| dir.join("tokens"));
        config.container_engine = self.settings.container_engine.clone();
        config.max_sessions = self.settings.max_sessions;
        config.default_timeout_s = self.settings.default_timeout_s;
        config.max_output_bytes = self.settings.max_output_bytes;
        config.journal_bytes = self.settings.journal_bytes;
        config.max_idle_s = self.settings.max_idle_s;
        config.session_ttl_s = self.settings.session_ttl_s;
        config.relay = self.settings.relay.clone();
        config.open_relay = crate::verbs::relay::OPEN;
        config.min_free_memory = self.settings.min_free_memory;
        config.exit_idle_s = self.settings.exit_idle_s;
        config.isolation.clone_from(&self.settings.isolation);
        config.announced.announce = self.settings.announce.clone();
        config.keep_sessions = self.settings.keep_sessions;
        Ok(config)
    }
}

fn refused(error: ServeError) -> Failure {
    let hint = match &error {
        ServeError::Socket(SocketError::Taken { .. }) => Some(
            "`trl shutdown` ends it, `trl restart` replaces it; --socket or TRL_HOME chooses another place"
                .to_owned(),
        ),
        ServeError::Socket(SocketError::Untrusted(untrusted))
        | ServeError::Start(StartError::Local(HostDirsError::Untrusted(untrusted))) => untrusted.help(),
        ServeError::Http(HttpError::NoToken) => Some(http::HOW_TO_SET_A_TOKEN.to_owned()),
        _ => None,
    };
    hint.into_iter().fold(Failure::unavailable(error.to_string()), Failure::hint)
}
