//! Whether a message was sent before: under the same id, or with the same words a moment ago.

use rusqlite::{OptionalExtension as _, Row, params};
use sha2::{Digest as _, Sha256};
use trl_protocol::Fault;
use trl_protocol::mail::{SendParams, Sent, is_safe_id};

use crate::engine::Tx;
use crate::engine::identity::sessions::Session;
use crate::error::MailError;

/// The same words are looked for among so many messages, the newest.
const LOOKED_AT: i64 = 1024;

struct SentRow {
    outbox_id: i64,
    message_id: String,
    to_session: Option<String>,
    digest: Option<Vec<u8>>,
    label: Option<String>,
}

impl SentRow {
    fn read(row: &Row<'_>) -> rusqlite::Result<SentRow> {
        Ok(SentRow {
            outbox_id: row.get(0)?,
            message_id: row.get(1)?,
            to_session: row.get(2)?,
            digest: row.get(3)?,
            label: row.get(4)?,
        })
    }
}

impl Tx<'_> {
    /// The message that this agent already sent, as it stands now.
    pub(super) fn sent_before(
        &self,
        session: &Session,
        params: &SendParams,
    ) -> Result<Option<(Sent, i64)>, MailError> {
        let same_request = self.sent_under_id(session, params)?;
        let duplicate = same_request.is_none();
        let same_words = || self.sent_lately(session, params);
        let Some(found) = same_request.map_or_else(same_words, |found| Ok(Some(found)))? else {
            return Ok(None);
        };
        let sent = Sent {
            state: self.status(session.agent_id, &found.message_id)?.state,
            message_id: found.message_id,
            via: self.env.relay_name.to_owned(),
            from_session: found.label.unwrap_or_else(|| session.label.clone()),
            to_session: found.to_session,
            duplicate,
        };
        Ok(Some((sent, found.outbox_id)))
    }

    fn sent_under_id(&self, session: &Session, params: &SendParams) -> Result<Option<SentRow>, MailError> {
        let Some(send_id) = params.send_id.as_deref() else { return Ok(None) };
        let refuse = |why: &str| {
            Fault::invalid(format!("param `send_id`: {why}"))
                .with_details(serde_json::json!({ "field": "send_id" }))
        };
        if !is_safe_id(send_id) {
            return Err(refuse("1 to 64 of A-Z a-z 0-9 . _ : - are expected").into());
        }
        let found = self
            .db
            .prepare_cached(
                "SELECT o.id, o.message_id, o.to_session, o.send_digest, s.label
                 FROM outbox o LEFT JOIN sessions s ON s.uuid = o.from_uuid
                 WHERE o.agent_id = ?1 AND o.send_id = ?2",
            )?
            .query_row(params![session.agent_id, send_id], SentRow::read)
            .optional()?;
        match found {
            Some(found) if found.digest.as_deref() != Some(&digest(params)) => {
                Err(refuse("another message was sent under it; choose a new one for a new message").into())
            }
            found => Ok(found),
        }
    }

    /// The same words of the same session, within the time that the caller names.
    fn sent_lately(&self, session: &Session, params: &SendParams) -> Result<Option<SentRow>, MailError> {
        let Some(within_s) = params.unless_sent_within_s else { return Ok(None) };
        if !(0.0..=86_400.0).contains(&within_s) {
            let why = "param `unless_sent_within_s`: seconds from 0 to 86400";
            return Err(Fault::invalid(why)
                .with_details(serde_json::json!({ "field": "unless_sent_within_s" }))
                .into());
        }
        let since = self.now - (within_s * 1000.0) as i64;
        let found = self
            .db
            .prepare_cached(
                "SELECT o.id, o.message_id, o.to_session, o.send_digest, s.label
                 FROM outbox o LEFT JOIN sessions s ON s.uuid = o.from_uuid
                 WHERE o.id > (SELECT max(id) FROM outbox) - ?1 AND o.agent_id = ?2 AND o.from_uuid = ?3
                       AND o.created_at > ?4 AND o.send_digest = ?5 AND o.state <> 'failed'
                 ORDER BY o.id DESC LIMIT 1",
            )?
            .query_row(
                params![LOOKED_AT, session.agent_id, session.uuid, since, digest(params)],
                SentRow::read,
            )
            .optional()?;
        Ok(found)
    }
}

/// Of all that makes a message what it is; who asks, and for how long it may live, does not.
pub(super) fn digest(params: &SendParams) -> Vec<u8> {
    let SendParams {
        to,
        text,
        to_session,
        role,
        in_reply_to,
        auto,
        expires_s: _,
        send_id: _,
        unless_sent_within_s: _,
        as_token: _,
    } = params;
    let fields = [
        Some(to.as_str()),
        Some(text),
        to_session.as_deref(),
        role.as_deref(),
        in_reply_to.as_deref(),
        auto.filter(|auto| *auto).map(|_| "auto"),
    ];
    let mut hash = Sha256::new();
    for field in fields {
        // Lengths keep one field from passing for the end of another.
        hash.update(field.map_or(u64::MAX, |field| field.len() as u64).to_be_bytes());
        hash.update(field.unwrap_or_default());
    }
    hash.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_passes_for_the_end_of_another() {
        let of = |params: serde_json::Value| digest(&serde_json::from_value(params).unwrap());
        let one = of(serde_json::json!({"to": "bob", "text": "by the way"}));
        assert_ne!(one, of(serde_json::json!({"to": "bobby", "text": " the way"})));
        assert_ne!(one, of(serde_json::json!({"to": "bob", "text": "by the ", "to_session": "way"})));
        assert_eq!(one, of(serde_json::json!({"to": "bob", "text": "by the way", "expires_s": 9.0})));
    }
}
