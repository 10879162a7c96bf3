//! From what was said to what it means.

use std::fmt;
use std::path::PathBuf;

use trl_gateway::TlsFiles;
use trl_mail::relay::broker::{BrokerConfig, Credentials, Tls};
use trl_protocol::isolation::Isolation;
use trl_protocol::limits;
use trl_runtime::{Announce, NamedRuntime};

use super::dot_env::Ignored;
use super::keys::Key;
use super::layers::{Ambient, Layers, Origin, SettingText};
use super::places::Places;
use super::{ConfigError, value};

/// What is logged unless something else is said.
pub(crate) const DEFAULT_LOG: &str = "info";

/// Everything a daemon or a client needs to know, checked.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) places: Places,
    pub(crate) socket: PathBuf,
    /// Whether the socket was named by a flag, not only by habit.
    pub(crate) socket_by_flag: bool,
    /// Whether anybody named it at all.
    pub(crate) socket_named: bool,
    pub(crate) http: Option<HttpSettings>,
    pub(crate) announce: Announce,
    pub(crate) max_sessions: usize,
    pub(crate) max_connections: u32,
    pub(crate) default_timeout_s: f64,
    pub(crate) max_output_bytes: u64,
    pub(crate) journal_bytes: u64,
    pub(crate) max_idle_s: f64,
    pub(crate) session_ttl_s: f64,
    pub(crate) min_free_memory: u64,
    pub(crate) exit_idle_s: f64,
    pub(crate) isolation: Option<Isolation>,
    pub(crate) keep_sessions: bool,
    pub(crate) runtimes: Vec<NamedRuntime>,
    pub(crate) container_engine: Option<String>,
    pub(crate) host_program: Option<PathBuf>,
    pub(crate) mcp_tools: trl_mcp::Profile,
    pub(crate) mcp_structured: bool,
    pub(crate) channel: trl_mcp::Channel,
    pub(crate) relay: Option<BrokerConfig>,
    pub(crate) relay_tls: Tls,
    pub(crate) log_filter: String,
    pub(crate) log_format: LogFormat,
    pub(crate) log_file: Option<PathBuf>,
    /// What a `.env` file in the working directory asked for and may not decide.
    pub(crate) ignored: Option<Ignored>,
}

impl Settings {
    /// What isolated sessions never see, wherever it lies: directories, tokens, keys and the log of the daemon and its user, and
    /// the programs that it runs outside.
    pub(crate) fn private_paths(&self) -> Vec<PathBuf> {
        let Places { runtime, state, config_file: _, config, is_common_to_homes: _ } = &self.places;
        let mut paths = vec![runtime.clone(), state.clone(), config.clone()];
        if let Some(http) = &self.http {
            paths.extend(http.tokens_file.clone());
            paths.extend(http.tls.as_ref().map(|tls| tls.key.clone()));
        }
        if let Some(relay) = &self.relay {
            match &relay.credentials {
                Credentials::File(path) | Credentials::Directory(path) => paths.push(path.clone()),
                Credentials::None => {}
            }
        }
        paths.extend(self.relay_tls.key.clone());
        paths.extend(self.log_file.clone().filter(|file| file.exists()));
        paths.extend(self.host_program.clone());
        let engine = self.container_engine.as_ref().map(PathBuf::from);
        paths.extend(engine.filter(|engine| engine.is_absolute()));
        paths
    }
}

/// HTTP as asked for; whether it can be served is the gateway's to say.
#[derive(Debug, Clone)]
pub(crate) struct HttpSettings {
    pub(crate) address: String,
    pub(crate) by_flag: bool,
    pub(crate) token: Option<Secret>,
    pub(crate) tokens_file: Option<PathBuf>,
    pub(crate) hosts: Vec<String>,
    pub(crate) origins: Vec<String>,
    pub(crate) tls: Option<TlsFiles>,
}

/// Never shown.
#[derive(Clone)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Settings {
    /// Where a daemon without a terminal logs.
    pub(crate) fn daemon_log(&self) -> PathBuf {
        self.log_file.clone().unwrap_or_else(|| self.places.state.join("daemon.log"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Human,
    Json,
}

pub(crate) fn resolve(layers: &Layers, ambient: &Ambient) -> Result<Settings, ConfigError> {
    let path = |key| layers.get(key).map(|said| ambient.cwd.join(&said.text));
    let socket_said = layers.get(Key::SocketPath);
    let seconds = |key, default| read(layers, key, value::seconds, value::SECONDS, default);
    let bytes = |key, default| read(layers, key, value::bytes, value::BYTES, default);
    Ok(Settings {
        socket: path(Key::SocketPath).unwrap_or_else(|| layers.places.runtime.join("trl.sock")),
        socket_by_flag: socket_said.is_some_and(|said| matches!(said.origin, Origin::Flag(_))),
        socket_named: socket_said.is_some(),
        http: http(layers, ambient)?,
        announce: read(layers, Key::Announce, value::announce, value::ANNOUNCE, Announce::Unset)?,
        max_sessions: read(
            layers,
            Key::MaxSessions,
            value::count,
            value::COUNT,
            limits::DEFAULT_MAX_SESSIONS,
        )?,
        max_connections: read(
            layers,
            Key::MaxConnections,
            |text| value::count(text)?.try_into().ok(),
            value::COUNT,
            limits::DEFAULT_MAX_CONNECTIONS,
        )?,
        default_timeout_s: seconds(Key::DefaultTimeout, limits::DEFAULT_TIMEOUT_S)?,
        max_output_bytes: bytes(Key::MaxOutput, limits::DEFAULT_MAX_OUTPUT_BYTES)?,
        journal_bytes: bytes(Key::Journal, limits::DEFAULT_JOURNAL_BYTES)?,
        max_idle_s: seconds(Key::MaxIdle, limits::DEFAULT_MAX_IDLE_S)?,
        session_ttl_s: seconds(Key::SessionTtl, limits::DEFAULT_SESSION_TTL_S)?,
        min_free_memory: bytes(Key::MinFreeMemory, limits::DEFAULT_MIN_FREE_MEMORY)?,
        exit_idle_s: seconds(Key::ExitIdle, 0.0)?,
        isolation: read(
            layers,
            Key::Isolation,
            |text| value::isolation(text).map(Some),
            value::ISOLATION,
            None,
        )?,
        keep_sessions: read(layers, Key::KeepSessions, value::yes_no, value::YES_NO, false)?,
        runtimes: layers.runtimes.clone(),
        container_engine: layers.get(Key::ContainerEngine).map(|said| said.text.clone()),
        host_program: path(Key::HostProgram),
        mcp_tools: read(
            layers,
            Key::McpTools,
            |text| text.parse().ok(),
            value::TOOLS,
            trl_mcp::Profile::default(),
        )?,
        channel: read(
            layers,
            Key::Channel,
            trl_mcp::Channel::named,
            value::CHANNEL,
            trl_mcp::Channel::Unset,
        )?,
        mcp_structured: read(layers, Key::McpStructured, value::yes_no, value::YES_NO, false)?,
        relay: relay(layers, ambient),
        relay_tls: relay_tls(layers, ambient),
        log_filter: layers.get(Key::Log).map_or_else(|| DEFAULT_LOG.to_owned(), |said| said.text.clone()),
        log_format: read(layers, Key::LogFormat, log_format, value::FORMAT, LogFormat::Human)?,
        log_file: path(Key::LogFile),
        ignored: layers.ignored.clone(),
        places: layers.places.clone(),
    })
}

fn relay(layers: &Layers, ambient: &Ambient) -> Option<BrokerConfig> {
    let servers = layers.get(Key::Relay)?.text.clone();
    let path = |key| layers.get(key).map(|said| ambient.cwd.join(&said.text));
    Some(BrokerConfig {
        servers,
        credentials: path(Key::RelayCredentials).map_or(Credentials::None, Credentials::at),
        tls: relay_tls(layers, ambient),
    })
}

/// Also where no relay is set: whoever prepares a broker names it on the command line.
fn relay_tls(layers: &Layers, ambient: &Ambient) -> Tls {
    let path = |key| layers.get(key).map(|said| ambient.cwd.join(&said.text));
    Tls { ca: path(Key::RelayCa), cert: path(Key::RelayCert), key: path(Key::RelayCertSecret) }
}

fn http(layers: &Layers, ambient: &Ambient) -> Result<Option<HttpSettings>, ConfigError> {
    let Some(said) = layers.get(Key::Http) else { return Ok(None) };
    let bad = || ConfigError::Value {
        origin: said.origin.clone(),
        value: said.text.clone(),
        expected: value::ADDRESS,
    };
    let list = |key| layers.get(key).map(|said| value::list(&said.text)).unwrap_or_default();
    // Whoever is told to come here by this name is not turned away for it.
    let announced = layers.get(Key::Announce).and_then(|said| value::announced_host(said.text.trim()));
    let mut hosts = list(Key::HttpHosts);
    hosts.extend(announced.map(str::to_owned));
    Ok(Some(HttpSettings {
        address: value::address(&said.text).ok_or_else(bad)?,
        by_flag: matches!(said.origin, Origin::Flag(_)),
        token: layers.get(Key::AuthToken).map(|said| Secret(said.text.clone())),
        tokens_file: layers.get(Key::TokensFile).map(|said| ambient.cwd.join(&said.text)),
        hosts,
        origins: list(Key::HttpOrigins),
        tls: tls(layers, ambient)?,
    }))
}

/// A certificate needs its key, and a key its certificate.
fn tls(layers: &Layers, ambient: &Ambient) -> Result<Option<TlsFiles>, ConfigError> {
    let path = |said: &SettingText| ambient.cwd.join(&said.text);
    match (layers.get(Key::HttpTlsCert), layers.get(Key::HttpTlsSecret)) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            Ok(Some(TlsFiles { certificate: path(certificate), key: path(key) }))
        }
        (Some(said), None) | (None, Some(said)) => Err(ConfigError::Value {
            origin: said.origin.clone(),
            value: said.text.clone(),
            expected: "the other one of certificate and key too",
        }),
    }
}

fn read<T>(
    layers: &Layers,
    key: Key,
    parse: impl Fn(&str) -> Option<T>,
    expected: &'static str,
    default: T,
) -> Result<T, ConfigError> {
    let Some(said) = layers.get(key) else { return Ok(default) };
    parse(&said.text).ok_or_else(|| ConfigError::Value {
        origin: said.origin.clone(),
        value: said.text.clone(),
        expected,
    })
}

fn log_format(text: &str) -> Option<LogFormat> {
    match text {
        "human" => Some(LogFormat::Human),
        "json" => Some(LogFormat::Json),
        _ => None,
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
