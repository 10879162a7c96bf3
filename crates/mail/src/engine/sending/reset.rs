//! New keys with a peer because somebody asks: the way out of a session that is wedged.

use rusqlite::params;
use trl_protocol::mail::Reset;
use trl_protocol::{Code, Fault};

use crate::config::millis;
use crate::engine::Tx;
use crate::error::MailError;

impl Tx<'_> {
    /// No ratchet with this peer seals any more; what it has not confirmed goes out again under new
    /// keys, and it is told what could not be opened here.
    pub(crate) fn reset(&mut self, agent_id: i64, who: &str) -> Result<Reset, MailError> {
        let peer = self.peer(agent_id, who)?;
        self.gate(agent_id, &peer)?;
        let address = peer.address.as_str();
        if let Some(wait_ms) = self.begin_rekey(agent_id, address)? {
            let why = format!(
                "new keys were exchanged with {} a moment ago; try again in {} s",
                peer.shown,
                wait_ms.div_euclid(1000) + 1
            );
            return Err(Fault::new(Code::ResourcePressure, why).into());
        }
        self.seal_no_more(agent_id, address)?;
        let unconfirmed = self.unconfirmed(agent_id, address)?;
        for (outbox_id, _) in &unconfirmed {
            self.queue_again(*outbox_id)?;
        }
        self.name_unreadable(agent_id, address)?;
        Ok(Reset { who: peer.shown, address: address.to_owned(), resent: unconfirmed.len() as u64 })
    }

    /// Notes a key exchange that begins now; `Some` is how long the next one must still wait.
    pub(crate) fn begin_rekey(&self, agent_id: i64, peer: &str) -> Result<Option<i64>, MailError> {
        let gap = millis(self.env.config.rekey_gap);
        let begun = self
            .db
            .prepare_cached(
                "INSERT INTO rekeys (agent_id, peer, at) VALUES (?1, ?2, ?3)
                 ON CONFLICT DO UPDATE SET at = ?3 WHERE at <= ?3 - ?4",
            )?
            .execute(params![agent_id, peer, self.now, gap])?;
        if begun > 0 {
            return Ok(None);
        }
        let last: i64 = self
            .db
            .prepare_cached("SELECT at FROM rekeys WHERE agent_id = ?1 AND peer = ?2")?
            .query_row(params![agent_id, peer], |row| row.get(0))?;
        Ok(Some((last + gap - self.now).max(0)))
    }

    /// The peer has opened something else at the place where we sealed these: this store was restored from a copy, and
    /// its ratchets are behind. All that has no receipt is sealed again with new keys. Packets that are confirmed or not
    /// ours change nothing, so a repeated packet does not come to this.
    pub(crate) fn leave_old_ratchets(
        &mut self,
        agent_id: i64,
        peer: &str,
        packets: &[String],
    ) -> Result<(), MailError> {
        let mut behind = false;
        for packet in packets.iter().take(1000) {
            behind = behind || self.unconfirmed_packet(agent_id, peer, packet)?.is_some();
        }
        if !behind {
            return Ok(());
        }
        tracing::warn!(agent_id, %peer, "our ratchet is behind its peer's: new keys are used from here on");
        self.seal_no_more(agent_id, peer)?;
        // All of it, in order: the named ones are only those that came first.
        let unconfirmed = self.unconfirmed(agent_id, peer)?.into_iter();
        self.seal_again(agent_id, peer, &unconfirmed.map(|(_, packet)| packet).collect::<Vec<_>>())
    }

    /// What is sealed next for this peer is sealed with new keys.
    fn seal_no_more(&self, agent_id: i64, peer: &str) -> Result<(), MailError> {
        self.db.execute(
            "UPDATE ratchets SET may_seal = 0 WHERE agent_id = ?1 AND peer = ?2",
            params![agent_id, peer],
        )?;
        Ok(())
    }

    /// The numbers in the outbox and the packets of what was sealed for this peer and has no receipt, in order.
    fn unconfirmed(&self, agent_id: i64, peer: &str) -> Result<Vec<(i64, String)>, MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT outbox_id, packet_id FROM packets
             WHERE agent_id = ?1 AND peer = ?2 AND outbox_id IS NOT NULL ORDER BY outbox_id",
        )?;
        let rows = query.query_map(params![agent_id, peer], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
