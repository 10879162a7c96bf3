//! What a streaming request says before its one response.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExecId;
use crate::exec::Stream;

/// An event of `exec.stream` or `exec.attach`.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Started {
        exec_id: ExecId,
    },
    /// Bytes as the command wrote them; the gateway chooses text or base64.
    Output {
        stream: Stream,
        offset: u64,
        bytes: Vec<u8>,
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
        prompt: String,
    },
}

impl Event {
    pub fn name(&self) -> &'static str {
        match self {
            Event::Started { .. } => "started",
            Event::Output { stream, .. } => stream.name(),
            Event::Gap { .. } => "gap",
            Event::Waiting { .. } => "waiting",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OutputEvent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    pub offset: u64,
}
