//! Keeping the directory supplied with keys that start sessions with us.

use rusqlite::params;

use crate::config::millis;
use crate::engine::identity::agents::{Agent, AgentKeys};
use crate::engine::{Engine, Tx};
use crate::error::MailError;
use crate::seal::{Bundle, SignedKey};

impl Tx<'_> {
    /// The bundle to announce, and new one-time keys; the secrets are stored before anyone sees them.
    fn make_keys(&mut self, agent_id: i64, count: usize) -> Result<(Bundle, Vec<SignedKey>), MailError> {
        let AgentKeys { identity, mut device, epoch } = self.agent_keys(agent_id)?;
        let (bundle, fallback_at): (String, i64) = self
            .db
            .prepare_cached("SELECT bundle, fallback_at FROM agents WHERE id = ?1")?
            .query_row([agent_id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut bundle: Bundle =
            serde_json::from_str(&bundle).map_err(|_| MailError::Corrupt { what: "bundle" })?;
        let keys = device.one_time_keys(&identity, epoch, count);
        let rotate = self.now - fallback_at >= millis(self.env.config.fallback_rotation);
        if rotate && let Some(fallback) = device.fallback_key(&identity, epoch) {
            bundle.fallback = fallback;
        }
        bundle.card = device.card(&identity, epoch);
        self.store_device(agent_id, &device)?;
        self.db.execute(
            "UPDATE agents SET bundle = ?2, fallback_at = CASE WHEN ?3 THEN ?4 ELSE fallback_at END WHERE id = ?1",
            params![
                agent_id,
                serde_json::to_string(&bundle).map_err(|_| MailError::Corrupt { what: "bundle" })?,
                rotate,
                self.now
            ],
        )?;
        Ok((bundle, keys))
    }

    fn fallback_is_old(&self, agent_id: i64) -> Result<bool, MailError> {
        let since: i64 = self
            .db
            .prepare_cached("SELECT fallback_at FROM agents WHERE id = ?1")?
            .query_row([agent_id], |row| row.get(0))?;
        Ok(self.now - since >= millis(self.env.config.fallback_rotation))
    }
}

impl Engine {
    /// Announces an agent if the directory lacks keys of it, or has an old card or fallback key.
    pub(crate) async fn supply_keys(&self, agent: &Agent, always: bool) -> Result<(), MailError> {
        let wanted = self.env.config.one_time_keys;
        let there = self.relay.unclaimed_keys(&agent.address).await?;
        let id = agent.id;
        let old = self.tx(move |tx| tx.fallback_is_old(id)).await?;
        if !always && !old && there * 2 > wanted {
            return Ok(());
        }
        let missing = wanted.saturating_sub(there);
        let (bundle, keys) = self.tx(move |tx| tx.make_keys(id, missing)).await?;
        self.relay.announce(&agent.address, bundle, keys).await?;
        Ok(())
    }
}
