//! The body format that agents of other makers read and write: `SessionEnvelopeV1`.
//!
//! Pure functions: text in, facts out, and back. Decoding never fails: whatever is
//! not an envelope or the older marked text is plain text, byte for byte. What we
//! add travels in a block of our own (`trl`) that others ignore.

mod decode;
mod encode;
mod legacy;

use serde::{Deserialize, Serialize};
use trl_protocol::agent::Token;

use crate::label::Label;

pub use decode::{Decoded, decode, decode_bytes};
pub use encode::{BadEnvelope, Defaults, EncodeInput, Stamp, encode, message_id, rfc3339};
pub use legacy::encode_auto_reply;

pub const ENVELOPE_VERSION: &str = "tinyplace.harness.session.v1";
/// What an older peer sends, as the whole text, to ask for new keys.
pub const RESET_MARK: &str = "\u{1}tp-rehandshake\u{1}";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    User,
    #[default]
    Agent,
}

impl Role {
    /// Everything but `user` is an agent's word.
    pub fn read(text: Option<&str>) -> Role {
        if text == Some("user") { Role::User } else { Role::Agent }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Agent => "agent",
        }
    }
}

/// Our own block: what the loop guards and the conversation binding need.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct OwnBlock {
    pub v: u32,
    /// The uuid behind `from_session`; a label may be reused, this may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How many automatic answers led to this message.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hops: u32,
    /// Addresses of the agents whose automatic answers led here, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<String>,
    /// Milliseconds since 1970 after which nobody should read this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// About a runtime, for the daemon that receives it. A word that it does not know is ignored.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "if_known")]
    pub runtime: Option<RuntimeWord>,
}

/// What one daemon tells another about access to its sessions. Nobody reads this but the daemon: the token in it is in
/// no inbox, and `Debug` does not tell it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum RuntimeWord {
    Granted {
        grant_id: String,
        url: String,
        token: Token,
        /// Certificates (PEM) that the server is to be known by.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ca: Option<String>,
        /// The name of the machine.
        host: String,
        profile: String,
        /// Milliseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<i64>,
    },
    Revoked {
        grant_id: String,
    },
}

fn if_known<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<RuntimeWord>, D::Error> {
    let said = Option::<serde_json::Value>::deserialize(from)?;
    Ok(said.and_then(|said| serde_json::from_value(said).ok()))
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

fn safe_label(text: Option<&str>) -> Option<Label> {
    text.and_then(|text| Label::new(text).ok())
}
