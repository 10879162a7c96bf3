//! Public keys: an entry for each address, and a mark for each one-time key that was given away.
//!
//! An entry is written by its owner alone. A key belongs to whoever makes its mark first;
//! the broker lets only one do that.

use std::collections::HashSet;

use async_nats::HeaderMap;
use async_nats::jetstream::context::PublishErrorKind;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::connection::{Connection, NoAnswer};
use super::names;
use trl_mail::identity::Address;
use trl_mail::relay::{Claim, RelayError};
use trl_mail::seal::{Bundle, SignedKey};

/// What the directory says about an address.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) bundle: Bundle,
    /// Those not known to be used when this was written.
    pub(crate) keys: Vec<SignedKey>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct FetchedMessage {
    pub(crate) message: Stored,
}

/// A message as the broker keeps it.
#[derive(Debug, Deserialize)]
pub(crate) struct Stored {
    pub(crate) subject: String,
    pub(crate) seq: u64,
    #[serde(default)]
    data: String,
}

impl Stored {
    pub(crate) fn payload(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.data).ok()
    }
}

/// Longest entry that is looked at; it is somebody else's word.
const MAX_KEYS: usize = 200;

pub(crate) async fn entry(connection: &Connection, who: &Address) -> Result<Option<Entry>, RelayError> {
    let ask = json!({ "last_by_subj": names::directory_subject(who.as_str()) });
    let got: FetchedMessage =
        match connection.api(&format!("STREAM.MSG.GET.{}", names::DIRECTORY), &ask).await {
            Ok(got) => got,
            Err(NoAnswer::Missing) => {
                // No entry, or no directory at all?
                let _info: serde_json::Value =
                    connection.api(&format!("STREAM.INFO.{}", names::DIRECTORY), &json!({})).await?;
                return Ok(None);
            }
            Err(other) => return Err(other.into()),
        };
    let entry = got.message.payload().and_then(|bytes| serde_json::from_slice::<Entry>(&bytes).ok());
    Ok(entry.map(|mut entry| {
        entry.keys.truncate(MAX_KEYS);
        entry
    }))
}

/// Replaces the owner's entry; keys that somebody has taken are left out.
pub(crate) async fn announce(
    connection: &Connection,
    who: &Address,
    bundle: Bundle,
    new: Vec<SignedKey>,
) -> Result<(), RelayError> {
    let used = used(connection, who).await?;
    let mut keys = entry(connection, who).await?.map(|entry| entry.keys).unwrap_or_default();
    for key in new {
        if keys.iter().all(|known| known.id != key.id) {
            keys.push(key);
        }
    }
    // Keys of an epoch that ended open nothing any more.
    let epoch = format!("{}.", bundle.card.epoch);
    keys.retain(|key| key.id.starts_with(&epoch) && !used.contains(&mark(who, key)));
    let surplus = keys.len().saturating_sub(MAX_KEYS);
    keys.drain(..surplus);
    let body = serde_json::to_vec(&Entry { bundle, keys })
        .map_err(|error| RelayError::Misconfigured(error.to_string()))?;
    let subject = names::directory_subject(who.as_str());
    store(connection, &subject, HeaderMap::new(), body).await.map(drop)
}

pub(crate) async fn unclaimed(connection: &Connection, who: &Address) -> Result<usize, RelayError> {
    let Some(entry) = entry(connection, who).await? else { return Ok(0) };
    let used = used(connection, who).await?;
    Ok(entry.keys.iter().filter(|key| !used.contains(&mark(who, key))).count())
}

pub(crate) async fn claim(connection: &Connection, who: &Address) -> Result<Option<Claim>, RelayError> {
    let Some(Entry { bundle, mut keys }) = entry(connection, who).await? else { return Ok(None) };
    // Those who claim at once begin at different keys.
    let start = getrandom::u64().unwrap_or(0);
    let turns = usize::try_from(start).unwrap_or(0) % keys.len().max(1);
    keys.rotate_left(turns);
    for key in keys {
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
        if store(connection, &mark(who, &key), headers, Vec::new()).await? {
            return Ok(Some(Claim { bundle, one_time_key: Some(key) }));
        }
    }
    Ok(Some(Claim { bundle, one_time_key: None }))
}

fn mark(who: &Address, key: &SignedKey) -> String {
    names::used_key_subject(who.as_str(), &key.id)
}

/// Subjects of the marks on this agent's keys.
async fn used(connection: &Connection, who: &Address) -> Result<HashSet<String>, RelayError> {
    #[derive(Deserialize)]
    struct Info {
        state: State,
    }
    #[derive(Deserialize)]
    struct State {
        #[serde(default)]
        subjects: Option<std::collections::HashMap<String, u64>>,
    }
    let ask = json!({ "subjects_filter": names::used_keys_of(who.as_str()) });
    let info: Info = connection.api(&format!("STREAM.INFO.{}", names::USED_KEYS), &ask).await?;
    Ok(info.state.subjects.unwrap_or_default().into_keys().collect())
}

/// `false` if somebody was first.
async fn store(
    connection: &Connection,
    subject: &str,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<bool, RelayError> {
    let asked = connection.jetstream.publish_with_headers(subject.to_owned(), headers, body.into()).await;
    let error = match asked {
        Ok(answer) => match answer.await {
            Ok(_) => return Ok(true),
            Err(error) => error,
        },
        Err(error) => error,
    };
    match error.kind() {
        PublishErrorKind::WrongLastSequence => Ok(false),
        PublishErrorKind::StreamNotFound => Err(NoAnswer::Missing.into()),
        PublishErrorKind::TimedOut => Err(match connection.refusal_of(subject) {
            Some(refused) => RelayError::Misconfigured(refused),
            None => RelayError::Unreachable("the broker did not confirm in time".to_owned()),
        }),
        _ => Err(RelayError::Unreachable(error.to_string())),
    }
}
