//! Taking packets from the relay: known? else open, store, mark as seen, in one transaction.

use rusqlite::{OptionalExtension, params};
use trl_protocol::mail::{FailReason, State, is_safe_id};

use crate::config::millis;
use crate::engine::identity::contacts::ContactWord;
use crate::engine::sending::rates::Direction;
use crate::engine::sending::sealing::{CONTACT, MAIL, RECEIPTS, REKEY, UID_BYTES, Unreadable};
use crate::engine::{Tx, Wake, hex, random};
use crate::envelope::{Decoded, decode_bytes};
use crate::error::MailError;
use crate::identity::Address;
use crate::relay::Incoming;
use crate::seal::{OpenError, Packet};
use crate::steps::Step;

/// Words to one peer about packets that seem to be repeated.
const TOLD_REPLAYS_PER_MINUTE: u32 = 10;

impl Tx<'_> {
    pub(crate) fn receive(&mut self, agent_id: i64, packets: Vec<Incoming>) -> Result<(), MailError> {
        for incoming in packets {
            self.receive_one(agent_id, incoming)?;
        }
        self.env.config.steps.reach(Step::ReceiveStored)
    }

    fn receive_one(&mut self, agent_id: i64, incoming: Incoming) -> Result<(), MailError> {
        let packet = match Packet::from_bytes(&incoming.bytes) {
            Ok(packet) => packet,
            Err(bad) => {
                let id = hex(&<sha2::Sha256 as sha2::Digest>::digest(&incoming.bytes));
                return self.quarantine(agent_id, &incoming, &id, &bad.to_string());
            }
        };
        let packet_id = packet.id();
        let seen: Option<Option<Vec<u8>>> = self
            .db
            .prepare_cached("SELECT uid FROM seen WHERE agent_id = ?1 AND packet_id = ?2")?
            .query_row(params![agent_id, packet_id.as_str()], |row| row.get(0))
            .optional()?;
        if let Some(uid) = seen {
            return match uid {
                Some(uid) => self.repeat_receipt(agent_id, incoming.from.as_str(), &uid),
                None => Ok(()),
            };
        }
        match self.open_packet(agent_id, &incoming.from, packet)? {
            Ok(plaintext) => {
                self.env.config.steps.reach(Step::ReceiveOpened)?;
                let uid = self.take_plaintext(agent_id, &incoming.from, &plaintext)?;
                self.db
                    .prepare_cached(
                        "INSERT INTO seen (agent_id, packet_id, uid, at) VALUES (?1, ?2, ?3, ?4)",
                    )?
                    .execute(params![agent_id, packet_id.as_str(), uid, self.now])?;
                Ok(())
            }
            Err(error) => {
                self.quarantine(agent_id, &incoming, packet_id.as_str(), &error.to_string())?;
                match error {
                    OpenError::LostKey | OpenError::Undecryptable(_) => {
                        self.ask_for_new_keys(agent_id, &incoming.from)
                    }
                    OpenError::Replayed => self.tell_of_replay(agent_id, &incoming.from, packet_id.as_str()),
                    OpenError::Card(_) => Ok(()),
                }
            }
        }
    }

    /// Kept as it came: a later version, or a person, may still make sense of it.
    fn quarantine(
        &self,
        agent_id: i64,
        incoming: &Incoming,
        id: &str,
        reason: &str,
    ) -> Result<(), MailError> {
        tracing::warn!(agent_id, from = %incoming.from, packet = %id, reason, "a packet was quarantined");
        self.db
            .prepare_cached(
                "INSERT OR IGNORE INTO quarantine (agent_id, peer, packet_id, bytes, reason, at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![agent_id, incoming.from.as_str(), id, incoming.bytes, reason, self.now])?;
        Ok(())
    }

    /// Unwedging: a new key exchange with a known peer, naming what could not be opened.
    fn ask_for_new_keys(&mut self, agent_id: i64, from: &Address) -> Result<(), MailError> {
        if self.refusal_of_sender(agent_id, from.as_str())?.is_some() {
            return Ok(());
        }
        if let Some(wait_ms) = self.begin_rekey(agent_id, from.as_str())? {
            self.due_at(self.now + wait_ms);
            return Ok(());
        }
        self.name_unreadable(agent_id, from.as_str())
    }

    /// Either somebody repeats an old packet, whose id was forgotten, or its sender was restored from a copy and seals
    /// again from an old place of its ratchet. Only the sender knows which, so it is told, under the keys that are in
    /// use: whoever can repeat a packet causes no exchange of keys.
    fn tell_of_replay(&mut self, agent_id: i64, from: &Address, packet: &str) -> Result<(), MailError> {
        let peer = from.as_str();
        if self.refusal_of_sender(agent_id, peer)?.is_some() {
            return Ok(());
        }
        // What is not told now comes again, if its sender still waits for a receipt.
        if !self.env.rates.take(agent_id, peer, Direction::AboutReplays, TOLD_REPLAYS_PER_MINUTE, self.now) {
            return Ok(());
        }
        let word = Unreadable { packets: vec![packet.to_owned()], replayed: true };
        self.say_unreadable(agent_id, peer, &word, false)
    }

    /// One control message that names everything in quarantine which its sender may seal again.
    pub(crate) fn name_unreadable(&mut self, agent_id: i64, peer: &str) -> Result<(), MailError> {
        let packets: Vec<String> = {
            let mut query = self.db.prepare_cached(
                "SELECT packet_id FROM quarantine WHERE agent_id = ?1 AND peer = ?2 ORDER BY at DESC LIMIT 500",
            )?;
            let rows = query.query_map(params![agent_id, peer], |row| row.get(0))?;
            rows.collect::<Result<_, _>>()?
        };
        self.say_unreadable(agent_id, peer, &Unreadable { packets, replayed: false }, true)
    }

    fn say_unreadable(
        &mut self,
        agent_id: i64,
        peer: &str,
        word: &Unreadable,
        under_new_keys: bool,
    ) -> Result<(), MailError> {
        let payload = serde_json::to_vec(word).map_err(|_| MailError::Corrupt { what: "list of packets" })?;
        self.db.execute(
            "INSERT INTO controls (agent_id, peer, kind, payload, fresh) VALUES (?1, ?2, 'rekey', ?3, ?4)",
            params![agent_id, peer, payload, under_new_keys],
        )?;
        self.wakes.push(Wake::Pump);
        Ok(())
    }

    /// The uid of the message, if it was one.
    fn take_plaintext(
        &mut self,
        agent_id: i64,
        from: &Address,
        plaintext: &[u8],
    ) -> Result<Option<Vec<u8>>, MailError> {
        let Some((kind, rest)) = plaintext.split_first() else { return Ok(None) };
        match *kind {
            MAIL => {
                let Some((uid, body)) = rest.split_first_chunk::<UID_BYTES>() else { return Ok(None) };
                self.take_mail(agent_id, from, uid, body)?;
                Ok(Some(uid.to_vec()))
            }
            RECEIPTS => {
                if let Ok(receipts) = serde_json::from_slice(rest) {
                    self.hear_receipts(agent_id, from, receipts)?;
                }
                Ok(None)
            }
            CONTACT => {
                if let Ok(word) = serde_json::from_slice::<ContactWord>(rest) {
                    self.hear_contact(agent_id, from, word)?;
                }
                Ok(None)
            }
            REKEY => {
                if let Ok(unreadable) = serde_json::from_slice::<Unreadable>(rest) {
                    if unreadable.replayed {
                        self.leave_old_ratchets(agent_id, from.as_str(), &unreadable.packets)?;
                    }
                    self.seal_again(agent_id, from.as_str(), &unreadable.packets)?;
                }
                Ok(None)
            }
            other => {
                tracing::warn!(agent_id, %from, kind = other, "a word of an unknown kind was ignored");
                Ok(None)
            }
        }
    }

    fn take_mail(&mut self, agent_id: i64, from: &Address, uid: &[u8], body: &[u8]) -> Result<(), MailError> {
        let known = self
            .db
            .prepare_cached("SELECT 1 FROM mail WHERE agent_id = ?1 AND sender = ?2 AND uid = ?3")?
            .exists(params![agent_id, from.as_str(), uid])?;
        if known {
            return self.repeat_receipt(agent_id, from.as_str(), uid);
        }
        let (decoded, dropped) = decode_bytes(body).with_safe_fields();
        if !dropped.is_empty() {
            tracing::warn!(agent_id, %from, ?dropped, "a message had unsafe fields; they were dropped");
        }
        let own = decoded.own.clone().unwrap_or_default();
        let expires_at = own.expires_at.unwrap_or(self.now + millis(self.env.config.expiry));
        if let Some(reason) = self.refusal(agent_id, from, expires_at, body.len())? {
            return self.owe_receipt(agent_id, from.as_str(), uid, State::Failed, Some(reason));
        }
        let mut decoded = decoded;
        if let Some(word) = own.runtime {
            decoded.text = self.take_runtime_word(agent_id, from, word)?;
        }
        let mail_id = self.store_mail(agent_id, from, uid, body, &decoded, expires_at)?;
        self.note_dropped(mail_id, &dropped)?;
        self.db
            .prepare_cached("UPDATE unread SET count = count + 1 WHERE agent_id = ?1")?
            .execute([agent_id])?;
        self.owe_receipt(agent_id, from.as_str(), uid, State::Delivered, None)?;
        self.due_at(expires_at);
        self.note_reply(agent_id, from, &decoded)?;
        self.route_mail(mail_id)
    }

    fn refusal(
        &self,
        agent_id: i64,
        from: &Address,
        expires_at: i64,
        size: usize,
    ) -> Result<Option<FailReason>, MailError> {
        if let Some(reason) = self.refusal_of_sender(agent_id, from.as_str())? {
            return Ok(Some(reason));
        }
        if expires_at <= self.now {
            return Ok(Some(FailReason::Expired));
        }
        // A body is JSON around the text: escapes may make it several times as long.
        if size > self.env.config.max_text_bytes.saturating_mul(6).saturating_add(4096) {
            return Ok(Some(FailReason::TooLarge));
        }
        let unread: u64 = self
            .db
            .prepare_cached("SELECT count FROM unread WHERE agent_id = ?1")?
            .query_row([agent_id], |row| row.get(0))?;
        if unread >= self.env.config.mailbox_messages {
            return Ok(Some(FailReason::MailboxFull));
        }
        // Agents of this daemon were counted when they sent, by the limit for such mail.
        if self.is_own(from.as_str())? {
            return Ok(None);
        }
        let limit = self.env.config.rate_per_minute;
        let allowed = self.env.rates.take(agent_id, from.as_str(), Direction::Incoming, limit, self.now);
        Ok((!allowed).then_some(FailReason::RateLimited))
    }

    fn store_mail(
        &self,
        agent_id: i64,
        from: &Address,
        uid: &[u8],
        body: &[u8],
        decoded: &Decoded,
        expires_at: i64,
    ) -> Result<i64, MailError> {
        let own = decoded.own.clone().unwrap_or_default();
        let wire_id = decoded.message_id.clone().unwrap_or_default();
        let chain = serde_json::to_string(&own.chain).map_err(|_| MailError::Corrupt { what: "chain" })?;
        // Text that is no UTF-8 is shown with replacement marks, so its bytes are kept beside it.
        let raw = std::str::from_utf8(body).is_err().then_some(body);
        self.db
            .prepare_cached(
                "INSERT INTO mail (agent_id, sender, uid, wire_id, local_id, from_session, from_uuid, to_session,
                                   role, text, raw, in_reply_to, auto, hops, chain, sent_at, arrived_at,
                                   expires_at, route)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?18, ?16, ?17, 'new')",
            )?
            .execute(params![
                agent_id,
                from.as_str(),
                uid,
                wire_id,
                self.local_id(agent_id, &wire_id)?,
                decoded.from_session.as_ref().map(|label| label.as_str()),
                own.session,
                decoded.to_session.as_ref().map(|label| label.as_str()),
                decoded.role.map(|role| role.as_str()),
                decoded.text,
                raw,
                decoded.in_reply_to,
                decoded.auto,
                own.hops,
                chain,
                self.now,
                expires_at,
                // A clock that is ahead, or a lie, does not put it into the future.
                decoded.written_at.unwrap_or(self.now).clamp(0, self.now.max(0)),
            ])?;
        Ok(self.db.last_insert_rowid())
    }

    fn note_dropped(&self, mail_id: i64, dropped: &[&str]) -> Result<(), MailError> {
        if !dropped.is_empty() {
            self.db
                .execute("UPDATE mail SET dropped = ?2 WHERE id = ?1", params![mail_id, dropped.join(" ")])?;
        }
        Ok(())
    }

    /// The sender's own id if it is safe and nobody's yet, else one of ours.
    fn local_id(&self, agent_id: i64, wire_id: &str) -> Result<String, MailError> {
        let taken = !is_safe_id(wire_id)
            || self
                .db
                .prepare_cached("SELECT 1 FROM mail WHERE agent_id = ?1 AND local_id = ?2")?
                .exists(params![agent_id, wire_id])?;
        if taken { Ok(crate::envelope::message_id(random()?)) } else { Ok(wire_id.to_owned()) }
    }

    /// A reply to something we sent to this very peer ends the wait for it.
    fn note_reply(&mut self, agent_id: i64, from: &Address, decoded: &Decoded) -> Result<(), MailError> {
        let Some(in_reply_to) = &decoded.in_reply_to else { return Ok(()) };
        let asked: Option<(i64, Option<String>)> = self
            .db
            .prepare_cached(
                "SELECT id, to_session FROM outbox WHERE agent_id = ?1 AND message_id = ?2 AND peer = ?3",
            )?
            .query_row(params![agent_id, in_reply_to, from.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((outbox_id, to_session)) = asked else { return Ok(()) };
        let from_session = decoded.from_session.as_ref().map(|label| label.as_str());
        if to_session.is_none() || to_session.as_deref() == from_session {
            self.move_outbox(outbox_id, State::Replied, None, self.now)?;
            self.wakes.push(Wake::Reply(outbox_id));
        }
        Ok(())
    }
}
