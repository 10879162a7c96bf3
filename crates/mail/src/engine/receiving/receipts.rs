//! What a recipient's daemon tells a sender's: the truth about each message, in batches.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};
use trl_protocol::mail::{FailReason, State};

use crate::config::millis;
use crate::engine::{Tx, Wake, hex, unhex};
use crate::error::MailError;
use crate::identity::Address;
use crate::state::{reason_name, reason_named, state_name, state_named};
use crate::steps::Step;

/// A relay has written down what is older than this.
pub(crate) const LATELY: Duration = Duration::from_secs(3600);

/// One word about one message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    uid: String,
    state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<FailReason>,
    at: i64,
}

impl Tx<'_> {
    pub(crate) fn owe_receipt(
        &mut self,
        agent_id: i64,
        peer: &str,
        uid: &[u8],
        state: State,
        reason: Option<FailReason>,
    ) -> Result<(), MailError> {
        self.db
            .prepare_cached(
                "INSERT INTO receipts (agent_id, peer, uid, state, reason, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![agent_id, peer, uid, state_name(state), reason.map(reason_name), self.now])?;
        self.wakes.push(Wake::Receipts);
        Ok(())
    }

    /// A receipt for a message that is stored here.
    pub(crate) fn owe_for_mail(
        &mut self,
        mail_id: i64,
        state: State,
        reason: Option<FailReason>,
    ) -> Result<(), MailError> {
        let (agent_id, sender, uid): (i64, String, Vec<u8>) = self
            .db
            .prepare_cached("SELECT agent_id, sender, uid FROM mail WHERE id = ?1")?
            .query_row([mail_id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        self.owe_receipt(agent_id, &sender, &uid, state, reason)
    }

    /// A packet came again: its sender may have missed our word, so it gets it again.
    pub(crate) fn repeat_receipt(&mut self, agent_id: i64, peer: &str, uid: &[u8]) -> Result<(), MailError> {
        let found: Option<(i64, String)> = self
            .db
            .prepare_cached("SELECT id, route FROM mail WHERE agent_id = ?1 AND sender = ?2 AND uid = ?3")?
            .query_row(params![agent_id, peer, uid], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((mail_id, route)) = found else { return Ok(()) };
        let (state, reason) = match route.as_str() {
            "held" => (State::Held, None),
            "bounced" => (State::Failed, Some(FailReason::SessionClosed)),
            "expired" => (State::Failed, Some(FailReason::Expired)),
            "dropped" => (State::Failed, Some(FailReason::Dropped)),
            _ => {
                let read = self
                    .db
                    .prepare_cached("SELECT 1 FROM deliveries WHERE mail_id = ?1 AND state = 'read'")?
                    .exists([mail_id])?;
                (if read { State::Read } else { State::Routed }, None)
            }
        };
        self.owe_receipt(agent_id, peer, uid, state, reason)
    }

    /// A relay may have lost our newest words about mail that it no longer has itself.
    pub(crate) fn repeat_receipts(&mut self) -> Result<(), MailError> {
        let newest: Vec<(i64, String, Vec<u8>)> = {
            let mut query = self.db.prepare_cached(
                "SELECT agent_id, sender, uid FROM (SELECT * FROM mail ORDER BY id DESC LIMIT 1000)
                 WHERE arrived_at > ?1 ORDER BY id",
            )?;
            let rows = query
                .query_map([self.now - millis(LATELY)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        for (agent_id, peer, uid) in newest {
            self.repeat_receipt(agent_id, &peer, &uid)?;
        }
        Ok(())
    }

    pub(crate) fn take_receipts(&self, agent_id: i64, peer: &str) -> Result<Vec<Receipt>, MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT uid, state, reason, at FROM receipts WHERE agent_id = ?1 AND peer = ?2 ORDER BY id",
        )?;
        let rows = query.query_map(params![agent_id, peer], |row| {
            Ok((
                row.get::<_, Vec<u8>>(0)?,
                row.get::<_, String>(1)?,
                row.get::<_, Option<String>>(2)?,
                row.get::<_, i64>(3)?,
            ))
        })?;
        let mut receipts = Vec::new();
        for row in rows {
            let (uid, state, reason, at) = row?;
            let state = state_named(&state).ok_or(MailError::Corrupt { what: "receipt" })?;
            let reason = reason.as_deref().and_then(reason_named);
            receipts.push(Receipt { uid: hex(&uid), state, reason, at });
        }
        if !receipts.is_empty() {
            self.db
                .prepare_cached("DELETE FROM receipts WHERE agent_id = ?1 AND peer = ?2")?
                .execute(params![agent_id, peer])?;
        }
        Ok(receipts)
    }

    /// Only the one a message was sent to can say what became of it.
    pub(crate) fn hear_receipts(
        &mut self,
        agent_id: i64,
        from: &Address,
        receipts: Vec<Receipt>,
    ) -> Result<(), MailError> {
        for receipt in receipts {
            let Some(uid) = unhex(&receipt.uid) else { continue };
            let outbox_id: Option<i64> = self
                .db
                .prepare_cached("SELECT id FROM outbox WHERE uid = ?1 AND agent_id = ?2 AND peer = ?3")?
                .query_row(params![uid, agent_id, from.as_str()], |row| row.get(0))
                .optional()?;
            let Some(outbox_id) = outbox_id else { continue };
            // Below delivery, a peer can know nothing about our message.
            if receipt.state >= State::Delivered {
                self.move_outbox(outbox_id, receipt.state, receipt.reason, receipt.at)?;
                self.db.prepare_cached("DELETE FROM packets WHERE outbox_id = ?1")?.execute([outbox_id])?;
                self.forget_runtime_word(outbox_id)?;
            }
        }
        self.env.config.steps.reach(Step::ReceiptApplied)
    }
}
