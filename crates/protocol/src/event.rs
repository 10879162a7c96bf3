//! What a streaming request says before its one response.
//!
//! Borrowed, because output goes from the host's receive buffer into the client's
//! send buffer without a stop in between.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::{ChangeEvent, MissedEvent, SubscribedEvent};
use crate::exec::Stream;
use crate::mail::MailEvent;
use crate::{ExecId, written_schema};

/// An event of `exec.stream`, `exec.attach`, `mail.subscribe` or `events.subscribe`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    Started {
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
    /// Mail has come: how many messages wait, and the names of the new ones.
    Mail {
        count: u64,
        ids: &'a [String],
    },
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
            Event::Text { stream, .. } | Event::Bytes { stream, .. } => stream.name(),
            Event::Gap { .. } => "gap",
            Event::Waiting { .. } => "waiting",
            Event::Mail { .. } => "mail",
            Event::Subscribed { .. } => "subscribed",
            Event::Missed { .. } => "missed",
            Event::Change(_) => "change",
        }
    }

    /// The JSON Schema of each event's `data`.
    pub fn schemas() -> Vec<(&'static str, schemars::Schema)> {
        vec![
            ("started", written_schema::<StartedEvent>()),
            ("stdout", written_schema::<OutputEvent>()),
            ("stderr", written_schema::<OutputEvent>()),
            ("gap", written_schema::<GapEvent>()),
            ("waiting", written_schema::<WaitingEvent>()),
            ("mail", written_schema::<MailEvent>()),
            ("subscribed", written_schema::<SubscribedEvent>()),
            ("missed", written_schema::<MissedEvent>()),
            ("change", written_schema::<ChangeEvent>()),
        ]
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StartedEvent {
    pub exec_id: ExecId,
}

/// `text` or `base64`, as asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputEvent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    pub offset: u64,
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
pub struct WaitingEvent {
    pub exec_id: ExecId,
    #[serde(default)]
    pub prompt: String,
}
