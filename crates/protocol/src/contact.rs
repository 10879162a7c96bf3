//! Contacts: who may write to an agent. Agents of one daemon need not ask.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Token;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContactParams {
    /// A petname or an address.
    pub who: String,
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ContactState {
    /// We asked and wait.
    Requested,
    /// They asked; accept, decline or block.
    Asking,
    Accepted,
    Declined,
    Blocked,
    /// Another agent of this daemon.
    Own,
}

impl ContactState {
    pub fn name(self) -> &'static str {
        match self {
            ContactState::Requested => "requested",
            ContactState::Asking => "asking",
            ContactState::Accepted => "accepted",
            ContactState::Declined => "declined",
            ContactState::Blocked => "blocked",
            ContactState::Own => "own",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContactRow {
    pub who: String,
    pub address: String,
    pub state: ContactState,
    pub since: String,
}

/// Whether an agent is there, as its own daemon tells through the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Whereabouts {
    /// Its daemon answers; mail reaches it now.
    Online,
    /// Nobody answers; mail waits for it.
    Away,
    /// The relay cannot be reached, or it is not ours to know.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PresenceRow {
    pub who: String,
    pub address: String,
    pub whereabouts: Whereabouts,
    /// Labels that mail can be sent to now.
    pub live_sessions: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PresenceList {
    pub contacts: Vec<PresenceRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContactList {
    pub contacts: Vec<ContactRow>,
}
