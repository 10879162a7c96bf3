//! One user's connection to the broker, made again whenever it breaks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::RequestErrorKind;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, Event, ServerError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use trl_mail::relay::RelayError;
use trl_mail::relay::broker::BrokerConfig;

use super::access::{self, User};

/// Refusals that are remembered.
const KEPT: usize = 64;

/// How often the connection was made, and what the broker refused on it, newest last.
#[derive(Debug, Default, Clone)]
pub(crate) struct ConnectionEvents {
    pub(crate) times_connected: u64,
    pub(crate) refused: Vec<String>,
    /// How often a subscription was too full for a message.
    pub(crate) dropped: u64,
}

#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) jetstream: Context,
    pub(crate) events: watch::Receiver<ConnectionEvents>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("state", &self.client.connection_state()).finish_non_exhaustive()
    }
}

/// Why a request to the broker has no good answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// What was asked for is not there.
    Missing,
    Refused {
        code: u64,
        why: String,
    },
    Failed(RelayError),
}

impl From<NoAnswer> for RelayError {
    fn from(no: NoAnswer) -> RelayError {
        match no {
            NoAnswer::Missing => RelayError::Misconfigured(
                "a stream of ours is missing on the broker; its administrator runs `trl relay init`"
                    .to_owned(),
            ),
            NoAnswer::Refused { code, why } => {
                RelayError::Unreachable(format!("the broker answered: {why} ({code})"))
            }
            NoAnswer::Failed(error) => error,
        }
    }
}

impl Connection {
    /// Does not wait for the connection; it is made in the background, as often as it takes.
    pub(crate) async fn open(config: &BrokerConfig, user: &User) -> Result<Connection, RelayError> {
        Connection::connect(config, user, true).await
    }

    /// Connects now or says why not.
    pub(crate) async fn dial(config: &BrokerConfig, user: &User) -> Result<Connection, RelayError> {
        Connection::connect(config, user, false).await
    }

    async fn connect(
        config: &BrokerConfig,
        user: &User,
        in_background: bool,
    ) -> Result<Connection, RelayError> {
        let wrong = |error: access::BadAccess| RelayError::Misconfigured(error.to_string());
        let servers = access::servers(&config.servers).map_err(wrong)?;
        let (tell, events) = watch::channel(ConnectionEvents::default());
        let tell = Arc::new(tell);
        let mut options =
            access::options(user, &config.tls, "trl").map_err(wrong)?.event_callback(move |event| {
                let tell = Arc::clone(&tell);
                async move { hear(&tell, event) }
            });
        if in_background {
            options = options.retry_on_initial_connect();
        } else {
            options = options.max_reconnects(Some(3));
        }
        let client = options
            .connect(servers)
            .await
            .map_err(|error| RelayError::Unreachable(format!("{}: {error}", config.servers)))?;
        let jetstream = jetstream::new(client.clone());
        Ok(Connection { client, jetstream, events })
    }

    pub(crate) fn is_up(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Waits for the connection, so that nothing piles up before it.
    pub(crate) async fn ready(&self, patience: Duration) -> Result<(), RelayError> {
        if self.is_up() {
            return Ok(());
        }
        let mut events = self.events.clone();
        let connected = async {
            while !self.is_up() {
                if events.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(patience, connected).await.is_ok() && self.is_up() {
            return Ok(());
        }
        let why = self.events.borrow().refused.last().cloned();
        Err(RelayError::Unreachable(why.unwrap_or_else(|| "there is no connection".to_owned())))
    }

    /// Which process answers; another one may have lost what the one before had taken.
    pub(crate) fn server_id(&self) -> Option<String> {
        self.client.try_server_info().map(|info| info.server_id)
    }

    /// One request of the JetStream API.
    pub(crate) async fn api<V: DeserializeOwned>(
        &self,
        subject: &str,
        body: &impl Serialize,
    ) -> Result<V, NoAnswer> {
        let answer: Result<Response<V>, _> = self.jetstream.request(subject.to_owned(), body).await;
        match answer {
            Ok(Response::Ok(value)) => Ok(value),
            Ok(Response::Err { error })
                if matches!(
                    error.error_code(),
                    ErrorCode::NO_MESSAGE_FOUND | ErrorCode::STREAM_NOT_FOUND
                ) =>
            {
                Err(NoAnswer::Missing)
            }
            Ok(Response::Err { error }) => {
                Err(NoAnswer::Refused { code: error.error_code().0, why: error.to_string() })
            }
            Err(error) => Err(NoAnswer::Failed(self.failure(subject, error.kind(), &error))),
        }
    }

    fn failure(&self, subject: &str, kind: RequestErrorKind, error: &dyn fmt::Display) -> RelayError {
        match kind {
            RequestErrorKind::NoResponders => RelayError::Misconfigured(
                "this user does not reach JetStream; a broker with a new member must be reloaded twice, and \
                 `trl relay init` shows the config that it must have"
                    .to_owned(),
            ),
            // The broker says nothing to what it forbids, except beside the connection.
            RequestErrorKind::TimedOut => match self.refusal_of(subject) {
                Some(refused) => RelayError::Misconfigured(refused),
                None => RelayError::Unreachable(error.to_string()),
            },
            _ => RelayError::Unreachable(error.to_string()),
        }
    }

    pub(crate) fn refusal_of(&self, subject: &str) -> Option<String> {
        self.events.borrow().refused.iter().rfind(|refused| refused.contains(subject)).cloned()
    }
}

fn hear(tell: &watch::Sender<ConnectionEvents>, event: Event) {
    match event {
        Event::Connected => tell.send_modify(|events| {
            events.times_connected += 1;
            events.refused.clear();
        }),
        Event::ServerError(ServerError::Other(refused)) => {
            tracing::warn!(%refused, "the broker refuses");
            refuse(tell, refused);
        }
        Event::ServerError(ServerError::AuthorizationViolation) => {
            let refused = "the broker knows no such user, or the key is wrong; its administrator looks at \
                           the config that `trl relay init` printed";
            refuse(tell, refused.to_owned());
        }
        Event::ClientError(error) => refuse(tell, error.to_string()),
        Event::Disconnected | Event::Closed => tell.send_modify(|_| {}),
        Event::SlowConsumer(_) | Event::ServerError(ServerError::SlowConsumer(_)) => {
            tell.send_modify(|events| events.dropped += 1);
        }
        Event::LameDuckMode | Event::Draining => {}
    }
}

fn refuse(tell: &watch::Sender<ConnectionEvents>, why: String) {
    tell.send_modify(|events| {
        if events.refused.len() >= KEPT {
            events.refused.remove(0);
        }
        events.refused.push(why);
    });
}
