//! Ratchets in the store: choosing one to seal with, opening what arrives.
//!
//! A peer may have several at once (both sides wrote first, one side started anew).
//! All of them open; the one that last opened something seals. The id of a ratchet is
//! kept for ever, so a replayed first message can never start it a second time.
//!
//! An agent that writes to itself has both ends of a ratchet in one store, under one id.
//! The end that seals is kept under its address, the end that opens under a name beside it.

use rusqlite::{OptionalExtension, params};
use vodozemac::olm::OlmMessage;
use zeroize::Zeroizing;

use crate::engine::{Tx, Wake};
use crate::error::MailError;
use crate::identity::Address;
use crate::seal::{OpenError, Packet, Ratchet};

/// Ratchets with one peer that still open; older ones are forgotten, their ids are not.
const KEPT: i64 = 8;

impl Tx<'_> {
    pub(crate) fn sealing_ratchet(&self, agent_id: i64, peer: &str) -> Result<Option<Ratchet>, MailError> {
        let stored: Option<Vec<u8>> = self
            .db
            .prepare_cached(
                "SELECT pickle FROM ratchets WHERE agent_id = ?1 AND peer = ?2 AND may_seal = 1
                   AND pickle IS NOT NULL ORDER BY used DESC LIMIT 1",
            )?
            .query_row(params![agent_id, peer], |row| row.get(0))
            .optional()?;
        Ok(stored.map(|bytes| Ratchet::restore(&Zeroizing::new(bytes))).transpose()?)
    }

    pub(crate) fn add_ratchet(
        &self,
        agent_id: i64,
        peer: &str,
        ratchet: &Ratchet,
        may_seal: bool,
        peer_epoch: u64,
    ) -> Result<(), MailError> {
        self.db
            .prepare_cached(
                "INSERT INTO ratchets (agent_id, peer, id, pickle, may_seal, peer_epoch, used)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6,
                   (SELECT ifnull(max(used), 0) + 1 FROM ratchets WHERE agent_id = ?1 AND peer = ?2))",
            )?
            .execute(params![
                agent_id,
                peer,
                ratchet.id(),
                ratchet.store()?.as_slice(),
                may_seal,
                peer_epoch as i64,
            ])?;
        self.db
            .prepare_cached(
                "UPDATE ratchets SET pickle = NULL, may_seal = 0
                 WHERE agent_id = ?1 AND peer = ?2 AND pickle IS NOT NULL AND id NOT IN
                   (SELECT id FROM ratchets WHERE agent_id = ?1 AND peer = ?2 AND pickle IS NOT NULL
                    ORDER BY used DESC LIMIT ?3)",
            )?
            .execute(params![agent_id, peer, KEPT])?;
        Ok(())
    }

    /// After sealing: the advanced ratchet replaces the one it came from.
    pub(crate) fn update_ratchet(
        &self,
        agent_id: i64,
        peer: &str,
        ratchet: &Ratchet,
    ) -> Result<(), MailError> {
        self.db
            .prepare_cached("UPDATE ratchets SET pickle = ?4 WHERE agent_id = ?1 AND peer = ?2 AND id = ?3")?
            .execute(params![agent_id, peer, ratchet.id(), ratchet.store()?.as_slice()])?;
        Ok(())
    }

    fn ratchet_opened(&self, agent_id: i64, peer: &str, ratchet: &Ratchet) -> Result<(), MailError> {
        self.db
            .prepare_cached(
                "UPDATE ratchets SET pickle = ?4, used =
                   (SELECT ifnull(max(used), 0) + 1 FROM ratchets WHERE agent_id = ?1 AND peer = ?2)
                 WHERE agent_id = ?1 AND peer = ?2 AND id = ?3",
            )?
            .execute(params![agent_id, peer, ratchet.id(), ratchet.store()?.as_slice()])?;
        Ok(())
    }

    /// What a packet says; the ratchet that opened it is advanced in this transaction.
    pub(crate) fn open_packet(
        &mut self,
        agent_id: i64,
        from: &Address,
        packet: Packet,
    ) -> Result<Result<Zeroizing<Vec<u8>>, OpenError>, MailError> {
        let peer = self.opening_peer(agent_id, from)?;
        match packet {
            Packet::Later(message) => self.open_with_known(agent_id, &peer, &OlmMessage::Normal(message)),
            Packet::First { card, message } => {
                let card = match card.verify(from) {
                    Ok(card) => card,
                    Err(bad) => return Ok(Err(bad.into())),
                };
                let known = self.ratchet_with_id(agent_id, &peer, &message.session_id())?;
                match known {
                    Some(Some(mut ratchet)) => {
                        let opened = ratchet.open(&OlmMessage::PreKey(message));
                        if opened.is_ok() {
                            self.ratchet_opened(agent_id, &peer, &ratchet)?;
                        }
                        Ok(opened)
                    }
                    Some(None) => Ok(Err(OpenError::Replayed)),
                    None => self.open_first(agent_id, &peer, card, &message),
                }
            }
        }
    }

    /// Under which peer the ratchets are kept that open what comes from this one.
    fn opening_peer(&self, agent_id: i64, from: &Address) -> Result<String, MailError> {
        let to_itself = self.agent_by_id(agent_id)?.address == *from;
        Ok(if to_itself { format!("{from} itself") } else { from.to_string() })
    }

    fn open_first(
        &mut self,
        agent_id: i64,
        peer: &str,
        card: crate::seal::VerifiedCard,
        message: &vodozemac::olm::PreKeyMessage,
    ) -> Result<Result<Zeroizing<Vec<u8>>, OpenError>, MailError> {
        let mut keys = self.agent_keys(agent_id)?;
        let (ratchet, plaintext) = match keys.device.accept(&card.device, message) {
            Ok(accepted) => accepted,
            Err(refused) => return Ok(Err(refused)),
        };
        self.store_device(agent_id, &keys.device)?;
        let known_epoch: u64 = self
            .db
            .prepare_cached(
                "SELECT ifnull(max(peer_epoch), 0) FROM ratchets WHERE agent_id = ?1 AND peer = ?2",
            )?
            .query_row(params![agent_id, peer], |row| row.get(0))?;
        if card.epoch > known_epoch {
            // The peer came back from a backup: it cannot be trusted to still have the old ratchets.
            self.db.execute(
                "UPDATE ratchets SET may_seal = 0 WHERE agent_id = ?1 AND peer = ?2",
                params![agent_id, peer],
            )?;
        }
        self.add_ratchet(agent_id, peer, &ratchet, card.epoch >= known_epoch, card.epoch)?;
        self.wakes.push(Wake::Keys);
        Ok(Ok(plaintext))
    }

    #[expect(clippy::option_option, reason = "unknown, known and forgotten, known and usable")]
    fn ratchet_with_id(
        &self,
        agent_id: i64,
        peer: &str,
        id: &str,
    ) -> Result<Option<Option<Ratchet>>, MailError> {
        let row: Option<Option<Vec<u8>>> = self
            .db
            .prepare_cached("SELECT pickle FROM ratchets WHERE agent_id = ?1 AND peer = ?2 AND id = ?3")?
            .query_row(params![agent_id, peer, id], |row| row.get(0))
            .optional()?;
        match row {
            None => Ok(None),
            Some(None) => Ok(Some(None)),
            Some(Some(bytes)) => Ok(Some(Some(Ratchet::restore(&Zeroizing::new(bytes))?))),
        }
    }

    fn open_with_known(
        &mut self,
        agent_id: i64,
        peer: &str,
        message: &OlmMessage,
    ) -> Result<Result<Zeroizing<Vec<u8>>, OpenError>, MailError> {
        let pickles: Vec<Zeroizing<Vec<u8>>> = {
            let mut query = self.db.prepare_cached(
                "SELECT pickle FROM ratchets WHERE agent_id = ?1 AND peer = ?2 AND pickle IS NOT NULL
                 ORDER BY used DESC",
            )?;
            let rows = query.query_map(params![agent_id, peer], |row| row.get(0).map(Zeroizing::new))?;
            rows.collect::<Result<_, _>>()?
        };
        let mut failure = None;
        for pickle in pickles {
            let mut ratchet = Ratchet::restore(&pickle)?;
            match ratchet.open(message) {
                Ok(plaintext) => {
                    self.ratchet_opened(agent_id, peer, &ratchet)?;
                    return Ok(Ok(plaintext));
                }
                // It belongs to this ratchet, so no other one opens it.
                Err(OpenError::Replayed) => return Ok(Err(OpenError::Replayed)),
                Err(other) => failure = Some(other),
            }
        }
        let none = || OpenError::Undecryptable("there is no ratchet with this peer".to_owned());
        Ok(Err(failure.unwrap_or_else(none)))
    }

    /// The store came from a backup: its ratchets may open what is on its way, but never seal again.
    pub(crate) fn retire_ratchets(&self) -> Result<(), MailError> {
        self.db.execute_batch("UPDATE ratchets SET may_seal = 0; UPDATE agents SET epoch = epoch + 1;")?;
        Ok(())
    }
}
