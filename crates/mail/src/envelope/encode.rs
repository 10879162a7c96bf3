//! From what is to be said to the body, byte-exact.

use serde::{Deserialize, Serialize};
use trl_protocol::mail::Text;

use super::{ENVELOPE_VERSION, OwnBlock, Role};
use crate::label::{BadLabel, Label};

/// What `trl envelope encode` takes on stdin.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EncodeInput {
    pub agent_address: String,
    #[serde(default)]
    pub from_session: Option<String>,
    #[serde(default)]
    pub to_session: Option<String>,
    #[serde(default)]
    pub in_reply_to: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub auto: bool,
    #[serde(default)]
    pub role: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub text: Text,
    #[serde(default)]
    pub message_id: Option<String>,
    #[serde(default)]
    pub cwd: Option<String>,
    pub harness_session_id: String,
    #[serde(default)]
    pub now: Option<Stamp>,
    /// The maker of the harness, `claude` unless said otherwise.
    #[serde(default)]
    pub harness: Option<String>,
    #[serde(skip)]
    pub own: Option<OwnBlock>,
}

/// Makers of JSON write `null` for what they leave out.
fn or_default<'de, D, T>(input: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Option::<T>::deserialize(input).map(Option::unwrap_or_default)
}

/// A moment, as RFC 3339 text or as milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Stamp {
    Millis(i64),
    Text(String),
}

/// What the input leaves open; the library neither reads the clock nor the environment.
#[derive(Debug, Clone)]
pub struct Defaults {
    pub now_ms: i64,
    pub message_id: String,
    pub cwd: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEnvelope {
    #[error(transparent)]
    Label(#[from] BadLabel),
    #[error("harness_session_id is empty; other implementations reject such a body")]
    EmptyHarnessSession,
    #[error("now is {0:?}: give RFC 3339 text or milliseconds since 1970")]
    BadTime(String),
    #[error("the body could not be written: {0}")]
    Unwritable(String),
}

#[derive(Serialize)]
struct Envelope<'a> {
    envelope_version: &'a str,
    version: u32,
    bucket: Bucket,
    scope: Scope<'a>,
    harness: Harness<'a>,
    message: Message<'a>,
    source: Source<'a>,
    tp: Tp<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trl: Option<&'a OwnBlock>,
}

#[derive(Serialize)]
struct Bucket {
    unit: &'static str,
    start: String,
    end: String,
}

#[derive(Serialize)]
struct Scope<'a> {
    r#type: &'static str,
    key: String,
    cwd: &'a str,
    wrapper_session_id: &'a str,
    harness_session_id: &'a str,
}

#[derive(Serialize)]
struct Harness<'a> {
    provider: &'a str,
    command: &'static str,
    argv: [&'static str; 0],
}

#[derive(Serialize)]
struct Message<'a> {
    id: &'a str,
    line: u32,
    role: Role,
    text: &'a str,
    timestamp: String,
}

#[derive(Serialize)]
struct Source<'a> {
    path: &'a str,
    record_type: &'a str,
}

#[derive(Serialize)]
struct Tp<'a> {
    v: u32,
    from_session: &'a Label,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_session: Option<Label>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    auto: bool,
}

pub fn encode(input: &EncodeInput, defaults: &Defaults) -> Result<String, BadEnvelope> {
    let from = Label::new(filled(&input.from_session).unwrap_or("claude:1"))?;
    let to_session = filled(&input.to_session).map(Label::new).transpose()?;
    if input.harness_session_id.is_empty() {
        return Err(BadEnvelope::EmptyHarnessSession);
    }
    let now_ms = match &input.now {
        Some(stamp) => stamp.millis()?,
        None => defaults.now_ms,
    };
    let minute = now_ms.div_euclid(60_000) * 60_000;
    let envelope = Envelope {
        envelope_version: ENVELOPE_VERSION,
        version: 1,
        bucket: Bucket { unit: "minute", start: rfc3339(minute), end: rfc3339(minute + 60_000) },
        scope: Scope {
            r#type: "session",
            key: format!("{}:{from}", input.agent_address),
            cwd: input.cwd.as_deref().unwrap_or(&defaults.cwd),
            wrapper_session_id: &input.harness_session_id,
            harness_session_id: &input.harness_session_id,
        },
        harness: Harness {
            provider: filled(&input.harness).unwrap_or("claude"),
            command: "tinyplace-plugin",
            argv: [],
        },
        message: Message {
            id: filled(&input.message_id).unwrap_or(&defaults.message_id),
            line: 0,
            role: Role::read(input.role.as_deref()),
            text: &input.text,
            timestamp: rfc3339(now_ms),
        },
        source: Source { path: "plugin", record_type: "dm" },
        tp: Tp {
            v: 1,
            from_session: &from,
            to_session,
            in_reply_to: filled(&input.in_reply_to),
            auto: input.auto,
        },
        trl: input.own.as_ref(),
    };
    serde_json::to_string(&envelope).map_err(|error| BadEnvelope::Unwritable(error.to_string()))
}

/// An empty text means the same as none.
fn filled(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl Stamp {
    fn millis(&self) -> Result<i64, BadEnvelope> {
        match self {
            Stamp::Millis(ms) => {
                jiff::Timestamp::from_millisecond(*ms).map_err(|_| BadEnvelope::BadTime(ms.to_string()))?;
                Ok(*ms)
            }
            Stamp::Text(text) => text
                .parse::<jiff::Timestamp>()
                .map(|moment| moment.as_millisecond())
                .map_err(|_| BadEnvelope::BadTime(text.chars().take(64).collect())),
        }
    }
}

/// Exactly three decimals and `Z`; a moment outside the calendar is shown as 1970.
pub fn rfc3339(ms: i64) -> String {
    let moment = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{moment:.3}")
}

/// `msg-` and eighteen hex digits.
pub fn message_id(random: [u8; 9]) -> String {
    let mut id = String::with_capacity(22);
    id.push_str("msg-");
    for byte in random {
        id.push_str(&format!("{byte:02x}"));
    }
    id
}
