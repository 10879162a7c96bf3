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
    AuthToken, "TRL_AUTH_TOKEN", Some("auth_token"), Outside, "bearer token of the HTTP transport, with every right";
    TokensFile, "TRL_TOKENS_FILE", Some("tokens_file"), Outside, "file (mode 0600) of more tokens, one a line: `NAME SCOPE TOKEN`, the scope `read`, `run` or `admin`";
    HttpHosts, "TRL_HTTP_HOSTS", Some("http_hosts"), Outside, "names, separated by commas, that HTTP answers to beside addresses and `localhost`";
    HttpOrigins, "TRL_HTTP_ORIGINS", Some("http_origins"), Outside, "origins, separated by commas, whose web pages may use HTTP; default none";
    HttpTlsCert, "TRL_HTTP_TLS_CERT", Some("http_tls_cert"), Outside, "certificate (PEM, with those that lead to its root) under which HTTP is served with TLS";
    HttpTlsSecret, "TRL_HTTP_TLS_KEY", Some("http_tls_key"), Outside, "the key of that certificate (PEM)";
    MaxSessions, "TRL_MAX_SESSIONS", Some("max_sessions"), Inside, "sessions that may live at once; default 64";
    MaxConnections, "TRL_MAX_CONNECTIONS", Some("max_connections"), Inside, "clients that may be connected at once, over the socket and as many over HTTP; default 1024";
    DefaultTimeout, "TRL_DEFAULT_TIMEOUT_S", Some("default_timeout_s"), Inside, "deadline of commands that name none, in seconds; 0 is none; default 60";
    MaxOutput, "TRL_MAX_OUTPUT_BYTES", Some("max_output_bytes"), Inside, "how much of each stream a reply holds; default 1 MiB";
    Journal, "TRL_JOURNAL_BYTES", Some("journal_bytes"), Inside, "how much of each stream of a command is kept on disk; default 64 MiB";
    MaxIdle, "TRL_MAX_IDLE_SEC", Some("max_idle_sec"), Inside, "sessions without a command for this long end; 0 is never; default 3600";
    SessionTtl, "TRL_SESSION_TTL_SEC", Some("session_ttl_sec"), Inside, "sessions older than this end; 0 is never; default 86400";
    MinFreeMemory, "TRL_MIN_FREE_MEMORY", Some("min_free_memory"), Inside, "no new session while less memory than this is free; 0 is never; default 32 MiB";
    ExitIdle, "TRL_EXIT_IDLE_SEC", Some("exit_idle_sec"), Inside, "the daemon ends when for this long it had no session, no client and no live agent; 0 is never; default 0";
    Isolation, "TRL_ISOLATION", Some("isolation"), Outside, "what sessions are kept from unless they say otherwise: `none`, `workspace`, `strict`, or an object as `session.create` takes it; default `none`";
    KeepSessions, "TRL_KEEP_SESSIONS", Some("keep_sessions"), Inside, "leave the sessions to the next daemon when this one is told to end; default no";
    ContainerEngine, "TRL_CONTAINER_ENGINE", Some("container_engine"), Outside, "container engine for sessions in containers: `docker`, `podman`, `nerdctl` or the path of one; default the first that is installed";
    HostProgram, "TRL_HOST_PROGRAM", Some("host_program"), Outside, "statically linked host program for containers and other machines; default `trl-host-ARCH` beside `trl`";
    McpTools, "TRL_MCP_TOOLS", Some("mcp_tools"), Inside, "tools that MCP clients are offered: `minimal`, `terminal`, `default`, `mail`, `full`, or names separated by commas";
    McpStructured, "TRL_MCP_STRUCTURED", Some("mcp_structured"), Inside, "results for MCP clients also as fields, with output schemas; for programs, since models are then shown the fields instead of the text; default no";
    Relay, "TRL_RELAY", Some("relay"), Outside, "broker that carries mail between machines, `nats://HOST:4222` or `tls://HOST:4222`, several of a cluster with commas; default none";
    RelayCredentials, "TRL_RELAY_CREDENTIALS", Some("relay_credentials"), Outside, "key file (mode 0600) that speaks for this daemon's agents, or a directory with one for each: `ADDRESS.nk` or `ADDRESS.creds`";
    RelayCa, "TRL_RELAY_CA", Some("relay_ca"), Outside, "certificates (PEM) that the broker's is checked against; default the system's";
    RelayCert, "TRL_RELAY_CERT", Some("relay_cert"), Outside, "certificate (PEM) to show to the broker";
    RelayCertSecret, "TRL_RELAY_KEY", Some("relay_key"), Outside, "its key (PEM, mode 0600)";
    Log, "TRL_LOG", Some("log"), Inside, "what is logged, as a `tracing` filter; default `info`";
    LogFormat, "TRL_LOG_FORMAT", Some("log_format"), Inside, "`human` or `json`; default `human`";
    LogFile, "TRL_LOG_FILE", Some("log_file"), Outside, "log to this file instead of stderr; a daemon started on demand: `daemon.log` in the state directory";
}

/// Variables that are about one process: what trl sets for what runs in its sessions, and who that is.
pub(crate) const NOT_SETTINGS: &[&str] =
    &["TRL_SESSION_ID", "TRL_SESSION_NAME", "TRL_AGENT", "TRL_LABEL", "TRL_HARNESS_SESSION_ID"];
