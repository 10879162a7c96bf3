//! How long what is over is kept. Nothing that still waits for somebody is ever forgotten here.
//!
//! A look goes once a day through the oldest rows and stops at the first that is young; when
//! much is old, it goes on a second later with the next few, so that nobody waits for it.

use std::sync::atomic::Ordering;

use rusqlite::params;

use crate::config::millis;
use crate::engine::Tx;
use crate::error::MailError;

const DAY_MS: i64 = 86_400_000;
/// Rows of one kind that one look forgets.
const AT_ONCE: i64 = 500;
const NEXT_FEW_MS: i64 = 1000;

/// Each ends with `LIMIT ?2`; `?1` is the youngest moment that is old.
const OLD: &[&str] = &[
    "DELETE FROM seen WHERE (agent_id, packet_id) IN
       (SELECT agent_id, packet_id FROM seen WHERE at < ?1 LIMIT ?2)",
    // The label and the uuid of a harness session are remembered elsewhere, for ever.
    "DELETE FROM sessions WHERE uuid IN
       (SELECT uuid FROM sessions WHERE holds_label = 0 AND last_seen < ?1 AND NOT EXISTS
          (SELECT 1 FROM deliveries d WHERE d.uuid = sessions.uuid AND d.state != 'read') LIMIT ?2)",
    "DELETE FROM quarantine WHERE (agent_id, peer, packet_id) IN
       (SELECT agent_id, peer, packet_id FROM quarantine WHERE at < ?1 LIMIT ?2)",
    "DELETE FROM dead_letters WHERE id IN (SELECT id FROM dead_letters WHERE at < ?1 LIMIT ?2)",
    "DELETE FROM answers WHERE mail_id IN (SELECT mail_id FROM answers WHERE at < ?1 LIMIT ?2)",
];

impl Tx<'_> {
    pub(crate) fn forget_old(&mut self) -> Result<(), MailError> {
        let last = self.env.forgot_at.load(Ordering::SeqCst);
        if self.now < last {
            return Ok(());
        }
        let old = self.now - millis(self.env.config.keep);
        let mut most = self.forget_mail(old)?.max(self.forget_sent(old)?);
        for sql in OLD {
            most = most.max(self.db.prepare_cached(sql)?.execute(params![old, AT_ONCE])? as i64);
        }
        self.forget_surplus()?;
        let next = self.now + if most < AT_ONCE { DAY_MS } else { NEXT_FEW_MS };
        self.env.forgot_at.store(next, Ordering::SeqCst);
        self.due_at(next);
        Ok(())
    }

    /// Mail that was read, or that came to another end.
    fn forget_mail(&self, old: i64) -> Result<i64, MailError> {
        let ids = self.old_ids(
            "SELECT id FROM mail WHERE id < ifnull((SELECT id FROM mail WHERE arrived_at >= ?1 ORDER BY id LIMIT 1),
                                                   9223372036854775807)
               AND route NOT IN ('new', 'held', 'routed') ORDER BY id LIMIT ?2",
            old,
        )?;
        for id in &ids {
            self.db.prepare_cached("DELETE FROM deliveries WHERE mail_id = ?1")?.execute([id])?;
            self.db.prepare_cached("DELETE FROM mail WHERE id = ?1")?.execute([id])?;
        }
        Ok(ids.len() as i64)
    }

    /// What was sent and is read, answered, failed, or past the time in which it could still be.
    fn forget_sent(&self, old: i64) -> Result<i64, MailError> {
        let ids = self.old_ids(
            "SELECT id FROM outbox WHERE id < ifnull((SELECT id FROM outbox WHERE created_at >= ?1 ORDER BY id LIMIT 1),
                                                     9223372036854775807)
               AND pending = 0 AND (state IN ('read', 'replied', 'failed') OR expires_at < ?1)
             ORDER BY id LIMIT ?2",
            old,
        )?;
        for id in &ids {
            self.db.prepare_cached("DELETE FROM packets WHERE outbox_id = ?1")?.execute([id])?;
            self.db.prepare_cached("DELETE FROM history WHERE outbox_id = ?1")?.execute([id])?;
            self.db.prepare_cached("DELETE FROM outbox WHERE id = ?1")?.execute([id])?;
        }
        Ok(ids.len() as i64)
    }

    fn old_ids(&self, sql: &str, old: i64) -> Result<Vec<i64>, MailError> {
        let mut query = self.db.prepare_cached(sql)?;
        let rows = query.query_map(params![old, AT_ONCE], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// What strangers can cause to be kept is bounded by number as well.
    fn forget_surplus(&self) -> Result<(), MailError> {
        let most = self.env.config.keep_unreadable as i64;
        for agent in self.all_agents()? {
            self.db
                .prepare_cached(
                    "DELETE FROM quarantine WHERE agent_id = ?1 AND at < ifnull((SELECT at FROM quarantine
                       WHERE agent_id = ?1 ORDER BY at DESC LIMIT 1 OFFSET ?2), 0)",
                )?
                .execute([agent.id, most - 1])?;
            self.db
                .prepare_cached(
                    "DELETE FROM dead_letters WHERE agent_id = ?1 AND id < ifnull((SELECT id FROM dead_letters
                       WHERE agent_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2), 0)",
                )?
                .execute([agent.id, most - 1])?;
        }
        Ok(())
    }
}
