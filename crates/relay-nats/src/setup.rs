//! The administrator's step: streams as they must be, read back after they were made.

use std::path::Path;

use async_nats::jetstream::stream::Config;
use serde::Deserialize;

use trl_mail::relay::broker::BrokerConfig;

use super::access::User;
use super::connection::{Connection, NoAnswer};
use super::layout::{self, Quota};
use super::names;
use trl_mail::identity::Address;
use trl_mail::relay::RelayError;

#[derive(Debug, Deserialize)]
pub(crate) struct Info {
    pub(crate) config: Config,
    #[serde(default)]
    state: StreamState,
}

#[derive(Debug, Default, Deserialize)]
struct StreamState {
    messages: u64,
}

/// What was done about one stream.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Done {
    Made,
    Changed,
    Found,
}

#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Prepared {
    pub stream: String,
    pub done: Done,
}

impl Done {
    pub fn word(&self) -> &'static str {
        match self {
            Done::Made => "made",
            Done::Changed => "changed",
            Done::Found => "found",
        }
    }
}

/// How far the broker has taken in the config for one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Admission {
    /// It knows the key, and the member reaches the streams.
    Admitted,
    /// It knows the key, but the member's imports do not work yet: a second reload is missing.
    HalfLoaded,
    Refused,
}

/// Tries the key of a member.
pub async fn admission(config: &BrokerConfig, key: &Path) -> Admission {
    let Ok(user) = User::read(key) else { return Admission::Refused };
    let Ok(connection) = Connection::dial(config, &user).await else { return Admission::Refused };
    let subject = format!("STREAM.INFO.{}", names::DIRECTORY);
    match connection.api::<Info>(&subject, &serde_json::json!({})).await {
        Ok(_) => Admission::Admitted,
        Err(_) => Admission::HalfLoaded,
    }
}

/// Makes what is missing and adapts what was asked for; what is there and wrong is an error, not replaced.
pub async fn prepare(
    config: &BrokerConfig,
    agents: &[Address],
    quota: Quota,
    replicas: impl Into<Option<usize>>,
) -> Result<Vec<Prepared>, RelayError> {
    let asked: Option<usize> = replicas.into();
    let replicas = asked.unwrap_or(1);
    let user = match config.credentials.any_file() {
        Some(path) => User::read(&path).map_err(|error| RelayError::Misconfigured(error.to_string()))?,
        None => User::anonymous(),
    };
    let connection = Connection::dial(config, &user).await?;
    let mut wanted =
        vec![layout::directory(replicas), layout::used_keys(replicas), layout::presence(replicas)];
    wanted.extend(agents.iter().map(|who| layout::mailbox(who.as_str(), quota, replicas)));
    let mut prepared = Vec::new();
    for config in wanted {
        let done = stream(&connection, &config, quota, asked).await?;
        prepared.push(Prepared { stream: config.name, done });
    }
    Ok(prepared)
}

async fn stream(
    connection: &Connection,
    wanted: &Config,
    quota: Quota,
    replicas: Option<usize>,
) -> Result<Done, RelayError> {
    let found: Result<Info, _> =
        connection.api(&format!("STREAM.INFO.{}", wanted.name), &serde_json::json!({})).await;
    match found {
        Ok(info) => {
            as_wanted(wanted, &info.config)?;
            let wanted = with_bounds_of(wanted, &info.config, quota, replicas);
            if same_bounds(&wanted, &info.config) {
                return Ok(Done::Found);
            }
            check_room(&wanted, &info)?;
            let made: Info = connection.api(&format!("STREAM.UPDATE.{}", wanted.name), &wanted).await?;
            as_made(&wanted, &made.config)?;
            Ok(Done::Changed)
        }
        Err(NoAnswer::Missing) => {
            let made: Info = connection.api(&format!("STREAM.CREATE.{}", wanted.name), wanted).await?;
            as_made(wanted, &made.config)?;
            Ok(Done::Made)
        }
        Err(other) => Err(other.into()),
    }
}

/// What nobody asked to change stays as it is.
fn with_bounds_of(wanted: &Config, found: &Config, quota: Quota, replicas: Option<usize>) -> Config {
    let is_mailbox = wanted.discard_new_per_subject;
    let keep = |asked: Option<i64>, wanted: i64, found: i64| match (is_mailbox, asked) {
        (true, None) => found,
        (true, Some(_)) | (false, _) => wanted,
    };
    Config {
        max_messages: keep(quota.parcels, wanted.max_messages, found.max_messages),
        max_messages_per_subject: keep(
            quota.parcels_per_sender,
            wanted.max_messages_per_subject,
            found.max_messages_per_subject,
        ),
        max_bytes: keep(quota.bytes, wanted.max_bytes, found.max_bytes),
        num_replicas: replicas.unwrap_or(found.num_replicas),
        ..wanted.clone()
    }
}

/// A broker makes room for a smaller bound by throwing away what waits.
fn check_room(wanted: &Config, found: &Info) -> Result<(), RelayError> {
    let waiting = i64::try_from(found.state.messages).unwrap_or(i64::MAX);
    let shrinks = |wanted: i64, found: i64| wanted >= 0 && (found < 0 || wanted < found) && waiting > wanted;
    let lost = shrinks(wanted.max_messages, found.config.max_messages)
        || shrinks(wanted.max_messages_per_subject, found.config.max_messages_per_subject)
        || (waiting > 0 && wanted.max_bytes >= 0 && wanted.max_bytes != found.config.max_bytes);
    if !lost || !wanted.discard_new_per_subject {
        return Ok(());
    }
    Err(RelayError::Misconfigured(format!(
        "{} has {waiting} parcels waiting, and the bounds asked for would throw some of them away; give larger \
         ones, or have them read first",
        wanted.name
    )))
}

fn same_bounds(wanted: &Config, found: &Config) -> bool {
    let bounds = |config: &Config| {
        (
            config.max_messages,
            config.max_messages_per_subject,
            config.max_bytes,
            config.max_message_size,
            config.num_replicas,
        )
    };
    bounds(wanted) == bounds(found)
}

fn as_made(wanted: &Config, made: &Config) -> Result<(), RelayError> {
    as_wanted(wanted, made)?;
    if same_bounds(wanted, made) {
        return Ok(());
    }
    Err(RelayError::Misconfigured(format!("the broker did not take the bounds of {}", wanted.name)))
}

pub(crate) fn as_wanted(wanted: &Config, found: &Config) -> Result<(), RelayError> {
    let differ = layout::differences(wanted, found);
    if differ.is_empty() {
        return Ok(());
    }
    let why = format!(
        "the stream {} is not as it must be: {}; its administrator removes it and runs `trl relay init`",
        wanted.name,
        differ.join("; ")
    );
    Err(RelayError::Misconfigured(why))
}

/// An agent's own mailbox. Only users whom the administrator trusts with that can make one.
pub(crate) async fn find_or_make_mailbox(connection: &Connection, who: &Address) -> Result<(), RelayError> {
    let wanted = layout::mailbox(who.as_str(), Quota::default(), 1);
    let name = names::mailbox_stream(who.as_str());
    let found: Result<Info, _> = connection.api(&format!("STREAM.INFO.{name}"), &serde_json::json!({})).await;
    match found {
        Ok(info) => as_wanted(&wanted, &info.config),
        Err(NoAnswer::Missing) => match connection
            .api::<Info>(&format!("STREAM.CREATE.{name}"), &wanted)
            .await
        {
            Ok(made) => as_made(&wanted, &made.config),
            Err(NoAnswer::Failed(RelayError::Misconfigured(_))) => Err(RelayError::Misconfigured(format!(
                "there is no mailbox for {who}; the broker's administrator runs `trl relay init --agent {who}`"
            ))),
            Err(other) => Err(other.into()),
        },
        Err(other) => Err(other.into()),
    }
}
