//! What was sent: its state, its history, and the ciphertext until the receipt comes.

use rusqlite::{OptionalExtension, params};
use trl_protocol::mail::{FailReason, HistoryRow, State, Status};
use trl_protocol::{Code, Fault};

use crate::engine::identity::contacts::parsed;
use crate::engine::{Tx, Wake};
use crate::envelope::rfc3339;
use crate::error::MailError;
use crate::relay::{Outgoing, Published, Refusal};
use crate::state::{Advance, advance, reason_name, reason_named, state_name, state_named};
use crate::steps::Step;

/// A packet that is due, and the row it came from.
#[derive(Debug, Clone)]
pub(crate) struct DuePacket {
    pub(crate) row: i64,
    pub(crate) outbox_id: Option<i64>,
    pub(crate) packet: Outgoing,
}

/// What the relay said about one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) row: i64,
    pub(crate) outbox_id: Option<i64>,
    pub(crate) outcome: Published,
    pub(crate) at: i64,
}

/// A sent message, as far as replies and waiting need it.
#[derive(Debug, Clone)]
pub(crate) struct SentMessage {
    pub(crate) id: i64,
    pub(crate) message_id: String,
    pub(crate) peer: String,
    pub(crate) to_session: Option<String>,
    pub(crate) state: State,
    pub(crate) reason: Option<FailReason>,
}

impl Tx<'_> {
    pub(crate) fn sent_message(&self, agent_id: i64, message_id: &str) -> Result<SentMessage, MailError> {
        let row = self
            .db
            .prepare_cached(
                "SELECT id, message_id, peer, to_session, state, reason FROM outbox
                 WHERE agent_id = ?1 AND message_id = ?2",
            )?
            .query_row(params![agent_id, message_id], |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get::<_, String>(4)?,
                    row.get::<_, Option<String>>(5)?,
                ))
            })
            .optional()?;
        let Some((id, message_id, peer, to_session, state, reason)) = row else {
            let shown: String = message_id.chars().take(64).collect();
            let why = format!("this agent has sent no message {shown:?}");
            return Err(Fault::new(Code::MessageNotFound, why).into());
        };
        let state = state_named(&state).ok_or(MailError::Corrupt { what: "state" })?;
        let reason = reason.as_deref().and_then(reason_named);
        Ok(SentMessage { id, message_id, peer, to_session, state, reason })
    }

    pub(crate) fn status(&self, agent_id: i64, message_id: &str) -> Result<Status, MailError> {
        let sent = self.sent_message(agent_id, message_id)?;
        let mut query = self
            .db
            .prepare_cached("SELECT state, reason, at FROM history WHERE outbox_id = ?1 ORDER BY at, n")?;
        let rows = query.query_map([sent.id], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?, row.get::<_, i64>(2)?))
        })?;
        let mut history = Vec::new();
        for row in rows {
            let (state, reason, at) = row?;
            let state = state_named(&state).ok_or(MailError::Corrupt { what: "state" })?;
            let reason = reason.as_deref().and_then(reason_named);
            history.push((at, state, reason));
        }
        let row = |(at, state, reason)| HistoryRow { state, reason, at: rfc3339(at) };
        let history = history.into_iter().map(row).collect();
        Ok(Status { message_id: sent.message_id, state: sent.state, reason: sent.reason, history })
    }

    /// One step of a message's way, and its line in the history.
    pub(crate) fn move_outbox(
        &mut self,
        id: i64,
        next: State,
        reason: Option<FailReason>,
        at: i64,
    ) -> Result<(), MailError> {
        let (current, failed): (String, Option<String>) = self
            .db
            .prepare_cached("SELECT state, reason FROM outbox WHERE id = ?1")?
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let current = state_named(&current).ok_or(MailError::Corrupt { what: "state" })?;
        match advance(current, failed.as_deref().and_then(reason_named), next) {
            Advance::Refused => return Ok(()),
            Advance::Late => {
                let told = self
                    .db
                    .prepare_cached("SELECT 1 FROM history WHERE outbox_id = ?1 AND state = ?2")?
                    .exists(params![id, state_name(next)])?;
                if told {
                    return Ok(());
                }
            }
            Advance::Moves => {
                self.db
                    .prepare_cached("UPDATE outbox SET state = ?2, reason = ?3 WHERE id = ?1")?
                    .execute(params![id, state_name(next), reason.map(reason_name)])?;
                if next == State::Failed {
                    self.wakes.push(Wake::Reply(id));
                }
            }
        }
        self.tell_history(id, next, reason, at)
    }

    pub(crate) fn tell_history(
        &self,
        id: i64,
        state: State,
        reason: Option<FailReason>,
        at: i64,
    ) -> Result<(), MailError> {
        self.db
            .prepare_cached(
                "INSERT INTO history (outbox_id, n, state, reason, at) VALUES (?1,
                   (SELECT ifnull(max(n), 0) + 1 FROM history WHERE outbox_id = ?1), ?2, ?3, ?4)",
            )?
            .execute(params![id, state_name(state), reason.map(reason_name), at])?;
        Ok(())
    }

    /// An end that is not a delivery: nothing of it goes out any more.
    pub(crate) fn fail_outbox(&mut self, id: i64, reason: FailReason) -> Result<(), MailError> {
        self.move_outbox(id, State::Failed, Some(reason), self.now)?;
        self.db.prepare_cached("UPDATE outbox SET pending = 0 WHERE id = ?1")?.execute([id])?;
        self.db.prepare_cached("DELETE FROM packets WHERE outbox_id = ?1")?.execute([id])?;
        Ok(())
    }

    /// Nobody has this address: everything that waits for it fails, and says so.
    pub(crate) fn fail_pair(
        &mut self,
        pair: &crate::engine::sending::sealing::Pair,
        reason: FailReason,
    ) -> Result<(), MailError> {
        let ids: Vec<i64> = {
            let mut query = self
                .db
                .prepare_cached("SELECT id FROM outbox WHERE agent_id = ?1 AND peer = ?2 AND pending = 1")?;
            let rows = query.query_map(params![pair.agent_id, pair.peer], |row| row.get(0))?;
            rows.collect::<Result<_, _>>()?
        };
        for id in ids {
            self.fail_outbox(id, reason)?;
        }
        for table in ["controls", "receipts"] {
            self.db.execute(
                &format!("DELETE FROM {table} WHERE agent_id = ?1 AND peer = ?2"),
                params![pair.agent_id, pair.peer],
            )?;
        }
        Ok(())
    }

    /// Packets that were never published, in the order they were sealed.
    pub(crate) fn unpublished(&self, after: i64, limit: i64) -> Result<Vec<DuePacket>, MailError> {
        self.due("next_at = 0 AND p.id > ?1 ORDER BY p.id LIMIT ?2", after, limit)
    }

    /// Packets whose receipt is overdue: the same bytes go out again.
    pub(crate) fn overdue(&self, limit: i64) -> Result<Vec<DuePacket>, MailError> {
        self.due("next_at > 0 AND next_at <= ?1 ORDER BY next_at, p.id LIMIT ?2", self.now, limit)
    }

    /// Everything that was published and has no receipt counts as unpublished, and what nobody
    /// gives a receipt for is said again.
    pub(crate) fn publish_again(&mut self) -> Result<usize, MailError> {
        self.wakes.extend([Wake::Pump, Wake::Keys]);
        self.repeat_contact_words()?;
        self.repeat_receipts()?;
        Ok(self.db.execute("UPDATE packets SET next_at = 0 WHERE next_at > 0", [])?)
    }

    fn due(&self, which: &str, first: i64, limit: i64) -> Result<Vec<DuePacket>, MailError> {
        let mut query = self.db.prepare_cached(&format!(
            "SELECT p.id, p.outbox_id, a.address, p.peer, p.packet_id, p.bytes
             FROM packets p JOIN agents a ON a.id = p.agent_id WHERE {which}"
        ))?;
        let rows = query.query_map([first, limit], |row| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get::<_, String>(2)?,
                row.get::<_, String>(3)?,
                row.get(4)?,
                row.get(5)?,
            ))
        })?;
        let mut due = Vec::new();
        for row in rows {
            let (row, outbox_id, from, to, id, bytes) = row?;
            let packet = Outgoing { from: parsed(&from)?, to: parsed(&to)?, id, bytes };
            due.push(DuePacket { row, outbox_id, packet });
        }
        Ok(due)
    }

    pub(crate) fn mark_published(&mut self, marks: &[Mark]) -> Result<(), MailError> {
        for mark in marks {
            match (mark.outcome, mark.outbox_id) {
                (Published::Stored, None) => self.drop_packet(mark.row)?,
                (Published::Stored, Some(outbox_id)) => {
                    self.publish_later(mark.row)?;
                    self.move_outbox(outbox_id, State::Relayed, None, mark.at)?;
                }
                (Published::Refused(refusal), None) => self.refused_word(mark.row, refusal)?,
                (Published::Refused(refusal), Some(outbox_id)) => {
                    self.drop_packet(mark.row)?;
                    let reason = match refusal {
                        Refusal::UnknownMailbox => FailReason::UnknownRecipient,
                        Refusal::MailboxFull => FailReason::MailboxFull,
                        Refusal::TooLarge => FailReason::TooLarge,
                    };
                    self.fail_outbox(outbox_id, reason)?;
                }
            }
        }
        self.due_at(self.now + crate::config::millis(self.env.config.republish_after));
        self.env.config.steps.reach(Step::PublishMarked)
    }

    /// The same bytes go out again, each time after twice as long.
    fn publish_later(&self, row: i64) -> Result<(), MailError> {
        let base = crate::config::millis(self.env.config.republish_after);
        self.db
            .prepare_cached(
                "UPDATE packets SET attempts = attempts + 1, next_at = ?2 + (?3 << min(attempts, 6))
                 WHERE id = ?1",
            )?
            .execute(params![row, self.now, base])?;
        Ok(())
    }

    /// Nobody waits for a contact word, a receipt or new keys, and nobody would send it again.
    fn refused_word(&self, row: i64, refusal: Refusal) -> Result<(), MailError> {
        let attempts = self
            .db
            .prepare_cached("SELECT attempts FROM packets WHERE id = ?1")?
            .query_row([row], |row| row.get(0))
            .optional()?;
        if attempts.is_some_and(|attempts| is_repeated(refusal, attempts)) {
            return self.publish_later(row);
        }
        tracing::warn!(row, ?refusal, "the relay refused a word to another daemon");
        self.drop_packet(row)
    }

    fn drop_packet(&self, row: i64) -> Result<(), MailError> {
        self.db.prepare_cached("DELETE FROM packets WHERE id = ?1")?.execute([row])?;
        Ok(())
    }

    /// The peer could not open these: they are sealed again, a few times at most.
    pub(crate) fn seal_again(
        &mut self,
        agent_id: i64,
        peer: &str,
        packets: &[String],
    ) -> Result<(), MailError> {
        const TRIES: i64 = 3;
        for packet in packets.iter().take(1000) {
            let Some(outbox_id) = self.unconfirmed_packet(agent_id, peer, packet)? else { continue };
            let tries: i64 = self
                .db
                .prepare_cached("SELECT count(*) FROM history WHERE outbox_id = ?1 AND state = 'queued'")?
                .query_row([outbox_id], |row| row.get(0))?;
            if tries > TRIES {
                self.fail_outbox(outbox_id, FailReason::Undecryptable)?;
                continue;
            }
            self.queue_again(outbox_id)?;
        }
        self.wakes.push(Wake::Pump);
        Ok(())
    }

    /// The message in a packet that has no receipt yet.
    pub(crate) fn unconfirmed_packet(
        &self,
        agent_id: i64,
        peer: &str,
        packet: &str,
    ) -> Result<Option<i64>, MailError> {
        let found: Option<Option<i64>> = self
            .db
            .prepare_cached(
                "SELECT outbox_id FROM packets WHERE agent_id = ?1 AND packet_id = ?2 AND peer = ?3",
            )?
            .query_row(params![agent_id, packet, peer], |row| row.get(0))
            .optional()?;
        Ok(found.flatten())
    }

    /// The ciphertext is forgotten; the message is sealed anew, and known at the other end by its uid.
    pub(crate) fn queue_again(&self, outbox_id: i64) -> Result<(), MailError> {
        self.db.prepare_cached("DELETE FROM packets WHERE outbox_id = ?1")?.execute([outbox_id])?;
        self.db
            .prepare_cached("UPDATE outbox SET pending = 1, state = 'queued' WHERE id = ?1")?
            .execute([outbox_id])?;
        self.tell_history(outbox_id, State::Queued, None, self.now)
    }
}

/// Whether a word that was refused goes out again. A mailbox that is full for some days is read by nobody.
fn is_repeated(refusal: Refusal, attempts: i64) -> bool {
    const TRIES: i64 = 100;
    refusal == Refusal::MailboxFull && attempts < TRIES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_mailbox_is_tried_again_and_not_for_ever() {
        for (refusal, attempts, expected) in [
            (Refusal::MailboxFull, 0, true),
            (Refusal::MailboxFull, 99, true),
            (Refusal::MailboxFull, 100, false),
            (Refusal::UnknownMailbox, 0, false),
            (Refusal::TooLarge, 0, false),
        ] {
            assert_eq!(is_repeated(refusal, attempts), expected, "{refusal:?} {attempts}");
        }
    }
}
