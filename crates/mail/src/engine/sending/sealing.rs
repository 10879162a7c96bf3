//! From stored words to stored ciphertext, with the advanced ratchet, in one transaction.

use std::sync::atomic::Ordering;

use rusqlite::params;
use serde::{Deserialize, Serialize};
use trl_protocol::mail::State;

use crate::engine::identity::agents::AgentKeys;
use crate::engine::sending::outbox::DuePacket;
use crate::engine::{Tx, Wake};
use crate::error::MailError;
use crate::identity::Address;
use crate::relay::{Claim, Outgoing};
use crate::seal::{DeviceCard, Packet, Ratchet};
use crate::steps::Step;
use crate::store::SEAL_BLOCK;

/// First byte of what is sealed.
pub(crate) const MAIL: u8 = b'M';
pub(crate) const RECEIPTS: u8 = b'R';
pub(crate) const CONTACT: u8 = b'C';
pub(crate) const REKEY: u8 = b'K';
pub(crate) const UID_BYTES: usize = 16;

/// "I could not open these; seal them again."
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unreadable {
    pub(crate) packets: Vec<String>,
    /// The keys are known, but something else was opened with them before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) replayed: bool,
}

/// One pair that has something to say.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Pair {
    pub(crate) agent_id: i64,
    pub(crate) peer: String,
}

/// What is sealed in one go for one pair.
struct Sealer<'a> {
    agent_id: i64,
    peer: &'a str,
    from: Address,
    to: Address,
    card: DeviceCard,
    ratchet: Ratchet,
    /// Seals before this go; the packets' numbers follow it.
    seals: u64,
    count: u64,
}

impl Tx<'_> {
    /// Pairs with words that are not sealed yet. Receipts alone may wait for company.
    pub(crate) fn pairs_to_seal(&self, with_receipts: bool) -> Result<Vec<Pair>, MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT agent_id, peer FROM outbox WHERE pending = 1
             UNION SELECT agent_id, peer FROM controls
             UNION SELECT agent_id, peer FROM receipts WHERE ?1",
        )?;
        let rows =
            query.query_map([with_receipts], |row| Ok(Pair { agent_id: row.get(0)?, peer: row.get(1)? }))?;
        rows.map(|row| row.map_err(MailError::from)).collect()
    }

    /// Seals what this pair has to say with the ratchet it has; `false` if it needs new keys.
    pub(crate) fn seal_pair(&mut self, pair: &Pair) -> Result<bool, MailError> {
        let fresh = self
            .db
            .prepare_cached("SELECT 1 FROM controls WHERE agent_id = ?1 AND peer = ?2 AND fresh = 1")?
            .exists(params![pair.agent_id, pair.peer])?;
        if fresh {
            return Ok(false);
        }
        let Some(ratchet) = self.sealing_ratchet(pair.agent_id, &pair.peer)? else { return Ok(false) };
        let card = self.stored_card(pair.agent_id)?;
        self.seal_all(pair, card, ratchet)?;
        Ok(true)
    }

    /// Seals what this pair has to say with a new ratchet from keys that were claimed for it.
    pub(crate) fn seal_with_claim(&mut self, pair: &Pair, claim: &Claim) -> Result<(), MailError> {
        let peer = crate::engine::identity::contacts::parsed(&pair.peer)?;
        let verified = claim.bundle.card.verify(&peer).map_err(crate::seal::SealError::from)?;
        let key = claim.one_time_key.as_ref().unwrap_or(&claim.bundle.fallback);
        let AgentKeys { identity, device, epoch } = self.agent_keys(pair.agent_id)?;
        let ratchet = device.start(&verified, key)?;
        self.add_ratchet(pair.agent_id, &pair.peer, &ratchet, true, verified.epoch)?;
        let card = device.card(&identity, epoch);
        self.seal_all(pair, card, ratchet)
    }

    fn stored_card(&self, agent_id: i64) -> Result<DeviceCard, MailError> {
        let bundle: String = self
            .db
            .prepare_cached("SELECT bundle FROM agents WHERE id = ?1")?
            .query_row([agent_id], |row| row.get(0))?;
        let bundle: crate::seal::Bundle =
            serde_json::from_str(&bundle).map_err(|_| MailError::Corrupt { what: "bundle" })?;
        Ok(bundle.card)
    }

    fn seal_all(&mut self, pair: &Pair, card: DeviceCard, ratchet: Ratchet) -> Result<(), MailError> {
        let seals = self
            .db
            .prepare_cached("SELECT value FROM meta WHERE key = 'seals'")?
            .query_row([], |row| row.get(0))?;
        let mut sealer = Sealer {
            agent_id: pair.agent_id,
            peer: &pair.peer,
            from: self.agent_by_id(pair.agent_id)?.address,
            to: crate::engine::identity::contacts::parsed(&pair.peer)?,
            card,
            ratchet,
            seals,
            count: 0,
        };
        self.seal_controls(&mut sealer)?;
        self.seal_outbox(&mut sealer)?;
        self.seal_receipts(&mut sealer)?;
        if sealer.count > 0 {
            self.update_ratchet(pair.agent_id, &pair.peer, &sealer.ratchet)?;
            self.count_seals(sealer.seals + sealer.count)?;
            self.wakes.push(Wake::PublishQueue);
        }
        Ok(())
    }

    fn seal_controls(&mut self, sealer: &mut Sealer<'_>) -> Result<(), MailError> {
        let rows: Vec<(i64, String, Vec<u8>)> = {
            let mut query = self.db.prepare_cached(
                "SELECT id, kind, payload FROM controls WHERE agent_id = ?1 AND peer = ?2 ORDER BY id",
            )?;
            let rows = query.query_map(params![sealer.agent_id, sealer.peer], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            rows.collect::<Result<_, _>>()?
        };
        for (id, kind, payload) in rows {
            self.db.prepare_cached("DELETE FROM controls WHERE id = ?1")?.execute([id])?;
            let mut plaintext = vec![if kind == "rekey" { REKEY } else { CONTACT }];
            plaintext.extend_from_slice(&payload);
            self.seal_one(sealer, &plaintext, None)?;
        }
        Ok(())
    }

    fn seal_outbox(&mut self, sealer: &mut Sealer<'_>) -> Result<(), MailError> {
        let rows: Vec<(i64, Vec<u8>, Vec<u8>)> = {
            let mut query = self.db.prepare_cached(
                "SELECT id, uid, body FROM outbox WHERE agent_id = ?1 AND peer = ?2 AND pending = 1 ORDER BY id",
            )?;
            let rows = query.query_map(params![sealer.agent_id, sealer.peer], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
            rows.collect::<Result<_, _>>()?
        };
        for (id, uid, body) in rows {
            let mut plaintext = zeroize::Zeroizing::new(Vec::with_capacity(1 + UID_BYTES + body.len()));
            plaintext.push(MAIL);
            plaintext.extend_from_slice(&uid);
            plaintext.extend_from_slice(&body);
            self.seal_one(sealer, &plaintext, Some(id))?;
            self.db.prepare_cached("UPDATE outbox SET pending = 0 WHERE id = ?1")?.execute([id])?;
            self.move_outbox(id, State::Sealed, None, self.now)?;
        }
        Ok(())
    }

    fn seal_receipts(&mut self, sealer: &mut Sealer<'_>) -> Result<(), MailError> {
        let receipts = self.take_receipts(sealer.agent_id, sealer.peer)?;
        if receipts.is_empty() {
            return Ok(());
        }
        let mut plaintext = vec![RECEIPTS];
        serde_json::to_writer(&mut plaintext, &receipts)
            .map_err(|_| MailError::Corrupt { what: "receipt" })?;
        self.seal_one(sealer, &plaintext, None)?;
        self.env.config.steps.reach(Step::ReceiptSealed)
    }

    fn seal_one(
        &mut self,
        sealer: &mut Sealer<'_>,
        plaintext: &[u8],
        outbox_id: Option<i64>,
    ) -> Result<(), MailError> {
        sealer.count += 1;
        let number = sealer.seals + sealer.count;
        let packet = Packet::new(sealer.ratchet.seal(plaintext)?, &sealer.card);
        let bytes = packet.to_bytes().map_err(|_| MailError::Corrupt { what: "packet" })?;
        let id = packet.id().as_str().to_owned();
        self.db
            .prepare_cached(
                "INSERT INTO packets (id, agent_id, peer, packet_id, bytes, outbox_id, next_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0)",
            )?
            .execute(params![number, sealer.agent_id, sealer.peer, id, bytes, outbox_id])?;
        let packet = Outgoing { from: sealer.from.clone(), to: sealer.to.clone(), id, bytes };
        self.sealed.push(DuePacket { row: number as i64, outbox_id, packet });
        Ok(())
    }

    /// Seals count even if the message fails later: the ratchet has moved all the same.
    fn count_seals(&mut self, seals: u64) -> Result<(), MailError> {
        self.db.prepare_cached("UPDATE meta SET value = ?1 WHERE key = 'seals'")?.execute([seals as i64])?;
        if seals >= self.env.witnessed.load(Ordering::SeqCst) + SEAL_BLOCK {
            self.wakes.push(Wake::Sealed(seals));
        }
        Ok(())
    }
}
