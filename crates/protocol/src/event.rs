//! What a streaming request sends before its one response.
//!
//! The shape of each event's `data` is defined once, by the structs below: [`Event`] is
//! written through them, clients read them, and the contract describes them. [`Event`]
//! itself borrows, because output goes from the host's receive buffer into the client's
//! send buffer without a copy in between.

use std::borrow::Cow;

use base64::Engine as _;
use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::change::{ChangeEvent, MissedEvent, SubscribedEvent};
use crate::exec::Stream;
use crate::mail::MailEvent;
use crate::{ExecId, written_schema};

/// An event of a streaming request. Serialized, it is the event's `data`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    Started {
        exec_id: ExecId,
        pid: Option<u32>,
    },
    /// The command waits for its turn.
    Queued {
        exec_id: ExecId,
    },
    /// Output as text; `offset` counts bytes as the command wrote them.
    Text {
        stream: Stream,
        offset: u64,
        text: &'a str,
    },
    /// Output as bytes, written as base64.
    Bytes {
        stream: Stream,
        offset: u64,
        bytes: &'a [u8],
    },
    /// Bytes between the two offsets are no longer kept.
    Gap {
        stream: Stream,
        from: u64,
        to: u64,
    },
    /// The command reads from its terminal.
    Waiting {
        exec_id: ExecId,
        prompt: &'a str,
    },
    /// Mail has arrived.
    Mail(&'a MailEvent),
    /// A subscription to changes holds from here on.
    Subscribed {
        next: u64,
    },
    /// Changes that are no longer known.
    Missed {
        from: u64,
        to: u64,
    },
    /// Something began or ended.
    Change(&'a ChangeEvent),
}

impl Event<'_> {
    pub fn name(&self) -> &'static str {
        match self {
            Event::Started { .. } => "started",
            Event::Queued { .. } => "queued",
            Event::Text { stream, .. } | Event::Bytes { stream, .. } => stream.name(),
            Event::Gap { .. } => "gap",
            Event::Waiting { .. } => "waiting",
            Event::Mail(_) => "mail",
            Event::Subscribed { .. } => "subscribed",
            Event::Missed { .. } => "missed",
            Event::Change(_) => "change",
        }
    }

    /// The JSON Schema of each event's `data`.
    pub fn schemas() -> Vec<(&'static str, schemars::Schema)> {
        vec![
            ("started", written_schema::<StartedEvent>()),
            ("queued", written_schema::<QueuedEvent>()),
            ("stdout", written_schema::<OutputEvent<'_>>()),
            ("stderr", written_schema::<OutputEvent<'_>>()),
            ("gap", written_schema::<GapEvent>()),
            ("waiting", written_schema::<WaitingEvent<'_>>()),
            ("mail", written_schema::<MailEvent>()),
            ("subscribed", written_schema::<SubscribedEvent>()),
            ("missed", written_schema::<MissedEvent>()),
            ("change", written_schema::<ChangeEvent>()),
        ]
    }
}

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Event::Started { exec_id, pid } => StartedEvent { exec_id, pid }.serialize(serializer),
            Event::Queued { exec_id } => QueuedEvent { exec_id }.serialize(serializer),
            Event::Text { offset, text, .. } => {
                OutputEvent { text: Some(Cow::Borrowed(text)), base64: None, offset }.serialize(serializer)
            }
            Event::Bytes { offset, bytes, .. } => {
                let base64 = Some(Base64(Cow::Borrowed(bytes)));
                OutputEvent { text: None, base64, offset }.serialize(serializer)
            }
            Event::Gap { stream, from, to } => GapEvent { stream, from, to }.serialize(serializer),
            Event::Waiting { exec_id, prompt } => {
                WaitingEvent { exec_id, prompt: Cow::Borrowed(prompt) }.serialize(serializer)
            }
            Event::Mail(mail) => mail.serialize(serializer),
            Event::Subscribed { next } => SubscribedEvent { next }.serialize(serializer),
            Event::Missed { from, to } => MissedEvent { from, to }.serialize(serializer),
            Event::Change(change) => change.serialize(serializer),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueuedEvent {
    pub exec_id: ExecId,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartedEvent {
    pub exec_id: ExecId,
    /// Process that runs it: the shell's for a foreground command. Missing while it is queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
}

/// `text` or `base64`, as asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputEvent<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub base64: Option<Base64<'a>>,
    pub offset: u64,
}

/// Bytes that are base64 on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base64<'a>(pub Cow<'a, [u8]>);

impl Serialize for Base64<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Written piece by piece: the whole text never exists in memory.
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl<'de> Deserialize<'de> for Base64<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text.as_bytes()).map_err(serde::de::Error::custom)?;
        Ok(Base64(Cow::Owned(bytes)))
    }
}

/// Bytes between the two offsets are no longer kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GapEvent {
    pub stream: Stream,
    pub from: u64,
    pub to: u64,
}

/// The command reads from its terminal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitingEvent<'a> {
    pub exec_id: ExecId,
    #[serde(default)]
    pub prompt: Cow<'a, str>,
}
