//! What happens by itself when its time has come.

use std::time::Duration;

use trl_protocol::mail::{FailReason, State};

use crate::config::millis;
use crate::engine::{Tx, Wake};
use crate::error::MailError;

/// How long a daemon that has just started fetches receipts before it gives up what was relayed earlier.
const RECEIPTS_FIRST: Duration = Duration::from_secs(5);

impl Tx<'_> {
    /// Everything that is due now; returns when something is due next.
    pub(crate) fn tick(&mut self) -> Result<i64, MailError> {
        self.fail_expired_outbox()?;
        self.end_held("expires_at", "expired", FailReason::Expired)?;
        self.end_held("bounce_at", "bounced", FailReason::SessionClosed)?;
        self.expire_unread()?;
        for uuid in self.gone()? {
            self.pass_on(&uuid)?;
        }
        for (agent_id, uuid) in self.long_gone()? {
            self.reclaim(agent_id, &uuid)?;
        }
        self.repeat_rekeys()?;
        self.forget_old()?;
        self.expire_runtimes()?;
        self.wakes.push(Wake::Pump);
        self.wakes.push(Wake::Keys);
        self.next_deadline()
    }

    fn fail_expired_outbox(&mut self) -> Result<(), MailError> {
        let receipts_at = self.env.opened_at + millis(RECEIPTS_FIRST);
        let waits_for_receipts = self.now < receipts_at;
        if waits_for_receipts {
            self.due_at(receipts_at);
        }
        // What an earlier daemon gave to the relay may have been read since: its receipts are fetched first.
        let given_before = if waits_for_receipts { self.env.opened_at } else { i64::MIN };
        let ids = self.ids(&format!(
            "SELECT id FROM outbox WHERE expires_at <= ?1 AND state IN ('queued','sealed','relayed')
               AND (state != 'relayed' OR created_at >= {given_before})"
        ))?;
        for id in ids {
            self.fail_outbox(id, FailReason::Expired)?;
        }
        Ok(())
    }

    /// Held mail whose time is over goes back to its sender, as a word about what became of it.
    fn end_held(&mut self, deadline: &str, route: &str, reason: FailReason) -> Result<(), MailError> {
        let ids = self.ids(&format!(
            "SELECT id FROM mail WHERE route = 'held' AND {deadline} IS NOT NULL AND {deadline} <= ?1"
        ))?;
        for id in ids {
            self.set_route(id, route)?;
            self.owe_for_mail(id, State::Failed, Some(reason))?;
            let agent_id = self
                .db
                .prepare_cached("SELECT agent_id FROM mail WHERE id = ?1")?
                .query_row([id], |row| row.get(0))?;
            self.finish_unread(agent_id)?;
        }
        Ok(())
    }

    fn ids(&self, sql: &str) -> Result<Vec<i64>, MailError> {
        let mut query = self.db.prepare_cached(sql)?;
        let rows = query.query_map([self.now], |row| row.get(0))?;
        let mut ids: Vec<i64> = rows.collect::<Result<_, _>>()?;
        // Sorted here: asked to sort, SQLite walks the whole table instead of the small index.
        ids.sort_unstable();
        Ok(ids)
    }

    /// Packets that came while a new key exchange was not yet allowed are named in the next one.
    fn repeat_rekeys(&mut self) -> Result<(), MailError> {
        let gap = millis(self.env.config.rekey_gap);
        let pairs: Vec<(i64, String)> = {
            let mut query = self.db.prepare_cached(
                "UPDATE rekeys SET at = ?1 WHERE at <= ?1 - ?2 AND EXISTS
                   (SELECT 1 FROM quarantine q WHERE q.agent_id = rekeys.agent_id AND q.peer = rekeys.peer
                      AND q.at > rekeys.at)
                 RETURNING agent_id, peer",
            )?;
            let rows = query.query_map([self.now, gap], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        for (agent_id, peer) in pairs {
            self.name_unreadable(agent_id, &peer)?;
        }
        Ok(())
    }

    fn next_deadline(&self) -> Result<i64, MailError> {
        let fresh = self.now + millis(self.env.config.grace);
        // Routed mail that is past its time by now is in a reader's hands.
        let next: i64 = self
            .db
            .prepare_cached(
                "SELECT min(ifnull(at, ?1)) FROM (
                   SELECT min(bounce_at) AS at FROM mail WHERE route = 'held' AND bounce_at IS NOT NULL
                   UNION ALL SELECT min(expires_at) FROM mail WHERE route = 'held'
                   UNION ALL SELECT min(expires_at) FROM mail WHERE route = 'routed' AND expires_at > ?2
                   UNION ALL SELECT min(expires_at) FROM outbox WHERE state IN ('queued','sealed','relayed')
                   UNION ALL SELECT min(next_at) FROM packets WHERE next_at > 0
                   UNION ALL SELECT min(expires_at) FROM granted_runtimes
                   UNION ALL SELECT ?1)",
            )?
            .query_row([fresh, self.now], |row| row.get(0))?;
        // Never at once again: what is overdue now waits for the relay, not for the clock.
        let next = self.next_gone()?.map_or(next, |at| at.min(next));
        Ok(next.clamp(self.now + 1000, fresh.max(self.now + 1000)))
    }
}
