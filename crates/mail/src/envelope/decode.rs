//! From a body to what it says. Precedence: envelope, older marks, plain text.
//!
//! JSON that our parser refuses (lone surrogates, numbers beyond a double, nesting
//! without end, a byte order mark) is plain text: read less well, but never lost.

use serde::Serialize;
use serde_json::Value;
use trl_protocol::mail::is_safe_id;

use super::{ENVELOPE_VERSION, OwnBlock, Role, legacy, safe_label};
use crate::identity::Address;
use crate::label::Label;

/// Longest chain of automatic answers that is looked at; the guards end one long before.
const MAX_CHAIN: usize = 64;

/// What `trl envelope decode` prints, and a little more for ourselves.
#[derive(Clone, PartialEq, Serialize)]
pub struct Decoded {
    pub auto: bool,
    pub in_reply_to: Option<String>,
    pub text: String,
    pub message_id: Option<String>,
    pub from_session: Option<Label>,
    pub to_session: Option<Label>,
    pub role: Option<Role>,
    pub envelope: bool,
    /// When it was written, in milliseconds since 1970, as its sender says.
    #[serde(skip)]
    pub written_at: Option<i64>,
    #[serde(skip)]
    pub own: Option<OwnBlock>,
}

/// Tells how long the text is, not what it says.
impl std::fmt::Debug for Decoded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Decoded {
            auto,
            in_reply_to,
            text,
            message_id,
            from_session,
            to_session,
            role,
            envelope,
            written_at,
            own,
        } = self;
        f.debug_struct("Decoded")
            .field("auto", auto)
            .field("in_reply_to", in_reply_to)
            .field("text", &format_args!("[{} bytes]", text.len()))
            .field("message_id", message_id)
            .field("from_session", from_session)
            .field("to_session", to_session)
            .field("role", role)
            .field("envelope", envelope)
            .field("written_at", written_at)
            .field("own", own)
            .finish()
    }
}

impl Decoded {
    /// Without what its sender filled with something unsafe; the names of what was dropped. Only the text may
    /// be anything, and whoever shows it quotes it.
    #[must_use]
    pub fn with_safe_fields(mut self) -> (Decoded, Vec<&'static str>) {
        let mut dropped = Vec::new();
        // An empty id is none, in the words of other makers.
        self.in_reply_to.take_if(|id| id.is_empty());
        self.message_id.take_if(|id| id.is_empty());
        if self.in_reply_to.take_if(|id| !is_safe_id(id)).is_some() {
            dropped.push("in_reply_to");
        }
        if self.message_id.take_if(|id| !is_safe_id(id)).is_some() {
            dropped.push("message_id");
        }
        if let Some(own) = &mut self.own {
            if own.session.take_if(|uuid| !is_safe_id(uuid)).is_some() {
                dropped.push("session");
            }
            let whole = own.chain.len();
            own.chain.retain(|address| Address::looks_like(address));
            own.chain.truncate(MAX_CHAIN);
            if own.chain.len() < whole {
                dropped.push("chain");
            }
        }
        (self, dropped)
    }

    pub(super) fn plain(text: &str) -> Decoded {
        Decoded {
            auto: false,
            in_reply_to: None,
            text: text.to_owned(),
            message_id: None,
            from_session: None,
            to_session: None,
            role: None,
            envelope: false,
            written_at: None,
            own: None,
        }
    }
}

pub fn decode(body: &str) -> Decoded {
    envelope(body).or_else(|| legacy::decode(body)).unwrap_or_else(|| Decoded::plain(body))
}

/// A body that is no UTF-8 is no envelope; its text is shown with U+FFFD.
pub fn decode_bytes(body: &[u8]) -> Decoded {
    match std::str::from_utf8(body) {
        Ok(text) => decode(text),
        Err(_) => Decoded::plain(&String::from_utf8_lossy(body)),
    }
}

fn envelope(body: &str) -> Option<Decoded> {
    // Reading every long plain text as JSON would cost more than it says.
    if !body.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
        return None;
    }
    let value: Value = serde_json::from_str(body).ok()?;
    if value.get("envelope_version")?.as_str()? != ENVELOPE_VERSION {
        return None;
    }
    let text = |block: &str, field: &str| value.get(block).and_then(|b| b.get(field)).and_then(Value::as_str);
    let own = value.get("trl").filter(|own| own.is_object());
    Some(Decoded {
        auto: value.get("tp").and_then(|tp| tp.get("auto")) == Some(&Value::Bool(true)),
        in_reply_to: text("tp", "in_reply_to").map(str::to_owned),
        text: text("message", "text").unwrap_or_default().to_owned(),
        message_id: text("message", "id").map(str::to_owned),
        from_session: safe_label(text("tp", "from_session"))
            .or_else(|| safe_label(text("scope", "wrapper_session_id"))),
        to_session: safe_label(text("tp", "to_session")),
        role: Some(Role::read(text("message", "role"))),
        envelope: true,
        written_at: text("message", "timestamp")
            .and_then(|at| at.parse::<jiff::Timestamp>().ok())
            .map(jiff::Timestamp::as_millisecond),
        own: own.and_then(|own| serde_json::from_value(own.clone()).ok()),
    })
}
