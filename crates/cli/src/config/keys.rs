//! The registry of settings: a new one does not resolve until it has a row here.

/// How far a setting reaches. A `.env` file that lies in the working directory is usually part of
/// somebody else's project, so it may only change what stays inside the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Opens a listener, connects to another machine, or names a token, a key, a socket or a file.
    Outside,
    /// Limits, formats and defaults.
    Inside,
}

macro_rules! keys {
    ($($key:ident, $env:literal, $file:expr, $reach:ident, $about:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Key { $($key,)* }

        impl Key {
            pub(crate) const ALL: &[Key] = &[$(Key::$key,)*];

            pub(crate) fn env(self) -> &'static str { match self { $(Key::$key => $env,)* } }

            /// Its name in the config file; `None` for what decides where that file is.
            pub(crate) fn in_file(self) -> Option<&'static str> { match self { $(Key::$key => $file,)* } }

            /// What the setting decides about.
            pub(super) fn reach(self) -> Reach { match self { $(Key::$key => Reach::$reach,)* } }

            #[cfg(test)]
            pub(crate) fn about(self) -> &'static str { match self { $(Key::$key => $about,)* } }
        }
    };
}

keys! {
    Home, "TRL_HOME", None, Outside, "one directory for everything: `run`, `state` and `config` below it";
    SocketPath, "TRL_SOCKET_PATH", Some("socket_path"), Outside, "the daemon's Unix socket; default `trl.sock` in the runtime directory";
    Http, "TRL_HTTP", Some("http"), Outside, "address of the HTTP transport: `127.0.0.1:7700`, or only a port of this machine";
    AuthToken, "TRL_AUTH_TOKEN", Some("auth_token"), Outside, "bearer token of the HTTP transport, with all rights";
    TokensFile, "TRL_TOKENS_FILE", Some("tokens_file"), Outside, "file (mode 0600) with more tokens, one per line: `NAME SCOPE TOKEN`, the scope `read`, `run` or `admin`";
    HttpHosts, "TRL_HTTP_HOSTS", Some("http_hosts"), Outside, "host names, separated by commas, that HTTP accepts in addition to addresses and `localhost`";
    HttpOrigins, "TRL_HTTP_ORIGINS", Some("http_origins"), Outside, "origins, separated by commas, whose web pages may use HTTP; default none";
    HttpTlsCert, "TRL_HTTP_TLS_CERT", Some("http_tls_cert"), Outside, "certificate chain (PEM) for HTTP over TLS";
    HttpTlsSecret, "TRL_HTTP_TLS_KEY", Some("http_tls_key"), Outside, "the key of that certificate (PEM)";
    Announce, "TRL_ANNOUNCE", Some("announce"), Outside, "where agents that are granted access (`trl runtimes grant`) find this daemon: `https://HOST:PORT`, or `on` for the address of HTTP; default that address if other machines can reach it with TLS";
    MaxSessions, "TRL_MAX_SESSIONS", Some("max_sessions"), Inside, "most sessions at a time; default 64";
    MaxConnections, "TRL_MAX_CONNECTIONS", Some("max_connections"), Inside, "most connections at a time over the socket, and as many over HTTP; default 1024";
    DefaultTimeout, "TRL_DEFAULT_TIMEOUT_S", Some("default_timeout_s"), Inside, "default deadline of commands, in seconds; 0 is none; default 60";
    MaxOutput, "TRL_MAX_OUTPUT_BYTES", Some("max_output_bytes"), Inside, "most output of each stream in a reply; default 1 MiB";
    Journal, "TRL_JOURNAL_BYTES", Some("journal_bytes"), Inside, "most output of each stream of a command on disk; default 64 MiB";
    MaxIdle, "TRL_MAX_IDLE_SEC", Some("max_idle_sec"), Inside, "idle timeout of sessions; 0 is never; default 3600";
    SessionTtl, "TRL_SESSION_TTL_SEC", Some("session_ttl_sec"), Inside, "maximum age of sessions; 0 is never; default 86400";
    MinFreeMemory, "TRL_MIN_FREE_MEMORY", Some("min_free_memory"), Inside, "free memory below which no new session is created; 0 switches this off; default 32 MiB";
    ExitIdle, "TRL_EXIT_IDLE_SEC", Some("exit_idle_sec"), Inside, "the daemon ends after this time without a session, a client and a live agent; 0 is never; default 0";
    Isolation, "TRL_ISOLATION", Some("isolation"), Outside, "default isolation of sessions: `none`, `workspace`, `strict`, or an object as `session.create` takes it; default `none`";
    KeepSessions, "TRL_KEEP_SESSIONS", Some("keep_sessions"), Inside, "keep sessions running for the next daemon when this one ends; default no";
    ContainerEngine, "TRL_CONTAINER_ENGINE", Some("container_engine"), Outside, "container engine for sessions in containers: `docker`, `podman`, `nerdctl` or the path of one; default the first that is installed";
    HostProgram, "TRL_HOST_PROGRAM", Some("host_program"), Outside, "statically linked host program for containers and other machines; default `trl-host-ARCH` beside `trl`";
    McpTools, "TRL_MCP_TOOLS", Some("mcp_tools"), Inside, "tools for MCP clients: `minimal`, `terminal`, `default`, `mail`, `files`, `full`, or names separated by commas";
    Channel, "TRL_CHANNEL", Some("channel"), Inside, "how `trl mcp` tells clients with channels of new mail: `notice` (sender and id), `message` (with the text, framed), `off`; default `notice`, and others announce the message too";
    McpStructured, "TRL_MCP_STRUCTURED", Some("mcp_structured"), Inside, "results for MCP clients also as structured fields, with output schemas. For programs: models are shown the fields instead of the text; default no";
    Relay, "TRL_RELAY", Some("relay"), Outside, "broker for mail between machines, `nats://HOST:4222` or `tls://HOST:4222`; several addresses of a cluster separated by commas; default none";
    RelayCredentials, "TRL_RELAY_CREDENTIALS", Some("relay_credentials"), Outside, "key file (mode 0600) of this daemon's agent, or a directory with one for each agent: `ADDRESS.nk` or `ADDRESS.creds`";
    RelayCa, "TRL_RELAY_CA", Some("relay_ca"), Outside, "certificate authorities (PEM) for the broker's certificate; default the system's";
    RelayCert, "TRL_RELAY_CERT", Some("relay_cert"), Outside, "client certificate (PEM) for the broker";
    RelayCertSecret, "TRL_RELAY_KEY", Some("relay_key"), Outside, "its key (PEM, mode 0600)";
    Log, "TRL_LOG", Some("log"), Inside, "log filter in `tracing` syntax; default `info`";
    LogFormat, "TRL_LOG_FORMAT", Some("log_format"), Inside, "`human` or `json`; default `human`";
    LogFile, "TRL_LOG_FILE", Some("log_file"), Outside, "log to this file instead of stderr; default for a daemon started on demand: `daemon.log` in the state directory";
}

/// Variables that are about one process: what trl sets for what runs in its sessions, and who that is.
pub(crate) const NOT_SETTINGS: &[&str] =
    &["TRL_SESSION_ID", "TRL_SESSION_NAME", "TRL_AGENT", "TRL_LABEL", "TRL_HARNESS_SESSION_ID"];
