//! MCP as streamable HTTP, to be put at a path of an HTTP listener.
//!
//! Protocol versions until 2025 give each client a session of its own, and with it a
//! [`Guest`]. Since 2026-07-28 requests stand alone: then clients are told apart by the name
//! they give themselves, and one that has been silent for long counts as gone.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use axum::Router;
use rmcp::model::Extensions;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use trl_client::Client;

use crate::guest::Guest;
use crate::profile::Profile;
use crate::server::Server;
use crate::settings::Settings;

const SESSION_HEADER: &str = "mcp-session-id";

/// Everyone who comes by HTTP.
#[derive(Debug)]
pub struct Guests {
    client: Arc<Client>,
    settings: Arc<Settings>,
    by_name: Mutex<HashMap<String, (Arc<Guest>, Instant)>>,
}

impl Guests {
    pub fn new(client: Arc<Client>, settings: Arc<Settings>) -> Arc<Guests> {
        Arc::new(Guests { client, settings, by_name: Mutex::default() })
    }

    pub(crate) fn stranger(&self) -> Guest {
        Guest::new(Arc::clone(&self.client), Arc::clone(&self.settings))
    }

    /// The client of this name; its time to be silent begins anew.
    pub(crate) fn of(self: &Arc<Guests>, name: &str) -> Arc<Guest> {
        let mut known = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (guest, heard) = known.entry(name.to_owned()).or_insert_with(|| {
            tokio::spawn(forget_when_silent(Arc::downgrade(self), name.to_owned()));
            (Arc::new(self.stranger()), now)
        });
        *heard = now;
        Arc::clone(guest)
    }

    /// When to look again; `None` if it is forgotten now.
    fn silent_until(&self, name: &str) -> Option<Instant> {
        let mut known = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let end = known.get(name)?.1 + self.settings.silence?;
        if end > Instant::now() {
            return Some(end);
        }
        known.remove(name);
        None
    }
}

async fn forget_when_silent(guests: Weak<Guests>, name: String) {
    loop {
        let Some(end) = guests.upgrade().and_then(|guests| guests.silent_until(&name)) else { return };
        tokio::time::sleep_until(end).await;
    }
}

/// The head of the HTTP request that a call came with.
pub(crate) struct Head<'a>(&'a http::request::Parts);

impl Head<'_> {
    pub(crate) fn of(extensions: &Extensions) -> Option<Head<'_>> {
        extensions.get::<http::request::Parts>().map(Head)
    }

    pub(crate) fn has_session(&self) -> bool {
        self.0.headers.contains_key(SESSION_HEADER)
    }

    /// `?tools=…` chooses a profile for this client.
    pub(crate) fn profile(&self) -> Option<Profile> {
        self.query("tools")?.replace("%2C", ",").parse().ok()
    }

    /// `?structured=1` asks for fields beside the text, `?structured=0` for text alone.
    pub(crate) fn structured(&self) -> Option<bool> {
        match self.query("structured")? {
            "1" | "true" | "yes" => Some(true),
            "0" | "false" | "no" => Some(false),
            _ => None,
        }
    }

    fn query(&self, name: &str) -> Option<&str> {
        let pairs = self.0.uri.query()?.split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// `/mcp`. Who may come, from which host and origin, is checked by the listener.
pub fn http_route(guests: Arc<Guests>, ct: CancellationToken) -> Router {
    let mut sessions = LocalSessionManager::default();
    let mut config = SessionConfig::default();
    config.keep_alive = guests.settings.silence;
    sessions.session_config = config;
    let http = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(trl_protocol::limits::MAX_LINE_BYTES)
        .with_cancellation_token(ct);
    let service =
        StreamableHttpService::new(move || Ok(Server::among(Arc::clone(&guests))), Arc::new(sessions), http);
    Router::new().route_service("/mcp", service)
}
