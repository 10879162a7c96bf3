//! Carrying out what routing decides, now and whenever someone appears or disappears.

use rusqlite::{OptionalExtension, params};
use trl_protocol::mail::{FailReason, Held, HeldRow, State};

use crate::config::millis;
use crate::engine::identity::sessions::Session;
use crate::engine::{Tx, Wake};
use crate::envelope::rfc3339;
use crate::error::MailError;
use crate::routing::{Asker, Destination, HeldFor, Route, route};

/// What routing needs to know about one message.
struct MessageToRoute {
    agent_id: i64,
    sender: String,
    from_session: Option<String>,
    to_session: Option<String>,
    in_reply_to: Option<String>,
    bounce_at: Option<i64>,
    /// It answers what the auto-responder wrote, which is no session: it is for whoever comes.
    answers_machine: bool,
}

impl Tx<'_> {
    pub(crate) fn bind_conversation(
        &self,
        session: &Session,
        peer: &str,
        label: &str,
    ) -> Result<(), MailError> {
        self.db
            .prepare_cached(
                "INSERT INTO conversations (agent_id, peer, peer_label, uuid) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET uuid = ?4 WHERE uuid != ?4",
            )?
            .execute(params![session.agent_id, peer, label, session.uuid])?;
        Ok(())
    }

    pub(crate) fn route_mail(&mut self, mail_id: i64) -> Result<(), MailError> {
        let mail = self.waiting_mail(mail_id)?;
        let agent = self.agent_by_id(mail.agent_id)?;
        let live = self.live_sessions(mail.agent_id)?;
        let asker = self.asker(&mail)?;
        let conversation = self.conversation(&mail)?;
        let wanted = Destination {
            to_session: mail.to_session.as_deref().filter(|_| !mail.answers_machine),
            asker: asker.as_ref().map(|(uuid, label)| Asker { uuid, label }),
            conversation: conversation.as_deref(),
        };
        match route(wanted, agent.policy, agent.pinned.as_deref(), &live) {
            Route::Deliver(uuids) => self.deliver(mail_id, uuids),
            Route::HoldFor(HeldFor::Session { uuid }) => self.hold_for(mail_id, &mail, Some(uuid)),
            Route::HoldFor(HeldFor::Label) => self.hold_for(mail_id, &mail, None),
            Route::HoldOpen => {
                self.set_route(mail_id, "held")?;
                self.stir();
                self.owe_for_mail(mail_id, State::Held, None)?;
                self.consider_answer(mail_id)
            }
            Route::Drop => {
                self.set_route(mail_id, "dropped")?;
                self.owe_for_mail(mail_id, State::Failed, Some(FailReason::Dropped))?;
                self.finish_unread(mail.agent_id)
            }
        }
    }

    fn deliver(&mut self, mail_id: i64, uuids: Vec<String>) -> Result<(), MailError> {
        self.set_route(mail_id, "routed")?;
        for uuid in uuids {
            self.db
                .prepare_cached(
                    "INSERT OR IGNORE INTO deliveries (mail_id, uuid, state) VALUES (?1, ?2, 'waiting')",
                )?
                .execute(params![mail_id, uuid])?;
            if !self.env.connections.is_connected(&uuid) {
                self.judge_absence();
            }
            self.wakes.push(Wake::Inbox(uuid));
        }
        self.stir();
        self.owe_for_mail(mail_id, State::Routed, None)
    }

    fn hold_for(
        &mut self,
        mail_id: i64,
        mail: &MessageToRoute,
        uuid: Option<String>,
    ) -> Result<(), MailError> {
        // Judged again, it keeps the deadline it had.
        let bounce_at = mail.bounce_at.unwrap_or(self.now + millis(self.env.config.grace));
        self.db
            .prepare_cached("UPDATE mail SET route = 'held', bound_uuid = ?2, bounce_at = ?3 WHERE id = ?1")?
            .execute(params![mail_id, uuid, bounce_at])?;
        self.due_at(bounce_at);
        self.stir();
        if mail.bounce_at.is_none() { self.owe_for_mail(mail_id, State::Held, None) } else { Ok(()) }
    }

    pub(crate) fn set_route(&self, mail_id: i64, route: &str) -> Result<(), MailError> {
        self.db
            .prepare_cached("UPDATE mail SET route = ?2, bounce_at = NULL WHERE id = ?1")?
            .execute(params![mail_id, route])?;
        Ok(())
    }

    pub(crate) fn finish_unread(&self, agent_id: i64) -> Result<(), MailError> {
        self.db
            .prepare_cached("UPDATE unread SET count = max(count - 1, 0) WHERE agent_id = ?1")?
            .execute([agent_id])?;
        Ok(())
    }

    fn waiting_mail(&self, mail_id: i64) -> Result<MessageToRoute, MailError> {
        Ok(self
            .db
            .prepare_cached(
                "SELECT agent_id, sender, from_session, to_session, in_reply_to, bounce_at,
                   EXISTS (SELECT 1 FROM outbox o WHERE o.agent_id = mail.agent_id
                     AND o.message_id = mail.in_reply_to AND o.peer = mail.sender AND o.from_uuid LIKE 'auto-%')
                 FROM mail WHERE id = ?1",
            )?
            .query_row([mail_id], |row| {
                Ok(MessageToRoute {
                    agent_id: row.get(0)?,
                    sender: row.get(1)?,
                    from_session: row.get(2)?,
                    to_session: row.get(3)?,
                    in_reply_to: row.get(4)?,
                    bounce_at: row.get(5)?,
                    answers_machine: row.get(6)?,
                })
            })?)
    }

    /// The session that sent what this answers, with the label it had then.
    fn asker(&self, mail: &MessageToRoute) -> Result<Option<(String, String)>, MailError> {
        let Some(in_reply_to) = mail.in_reply_to.as_ref().filter(|_| !mail.answers_machine) else {
            return Ok(None);
        };
        let row: Option<(String, Vec<u8>)> = self
            .db
            .prepare_cached(
                "SELECT from_uuid, body FROM outbox WHERE agent_id = ?1 AND message_id = ?2 AND peer = ?3",
            )?
            .query_row(params![mail.agent_id, in_reply_to, mail.sender], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        Ok(row.map(|(uuid, body)| {
            let label = crate::envelope::decode_bytes(&body).from_session.map(String::from);
            (uuid, label.unwrap_or_default())
        }))
    }

    fn conversation(&self, mail: &MessageToRoute) -> Result<Option<String>, MailError> {
        let bound = |label: &str| {
            self.db
                .prepare_cached(
                    "SELECT uuid FROM conversations WHERE agent_id = ?1 AND peer = ?2 AND peer_label = ?3",
                )?
                .query_row(params![mail.agent_id, mail.sender, label], |row| row.get(0))
                .optional()
        };
        let with_session = match &mail.from_session {
            Some(label) => bound(label)?,
            None => None,
        };
        Ok(match with_session {
            Some(uuid) => Some(uuid),
            None => bound("")?,
        })
    }

    /// Someone appeared: everything that is held is judged again, oldest first.
    pub(crate) fn reroute_held(&mut self, agent_id: i64) -> Result<(), MailError> {
        let ids: Vec<i64> = {
            let mut query = self
                .db
                .prepare_cached("SELECT id FROM mail WHERE agent_id = ?1 AND route = 'held' ORDER BY id")?;
            let rows = query.query_map([agent_id], |row| row.get(0))?;
            rows.collect::<Result<_, _>>()?
        };
        for id in ids {
            self.route_mail(id)?;
        }
        Ok(())
    }

    /// A session is not live any more: what anyone may read is judged again. What names it, answers it
    /// or went to several waits for it, until it is gone for good.
    pub(crate) fn pass_on(&mut self, uuid: &str) -> Result<(), MailError> {
        let ids: Vec<i64> = {
            let mut query = self.db.prepare_cached(
                "SELECT d.mail_id FROM deliveries d JOIN mail m ON m.id = d.mail_id
                 WHERE d.uuid = ?1 AND d.state != 'read' AND d.state = 'waiting' AND m.to_session IS NULL
                   AND NOT EXISTS (SELECT 1 FROM deliveries o WHERE o.mail_id = d.mail_id AND o.uuid != ?1)
                 ORDER BY d.mail_id",
            )?;
            let rows = query.query_map([uuid], |row| row.get(0))?;
            rows.collect::<Result<_, _>>()?
        };
        for id in ids {
            let mail = self.waiting_mail(id)?;
            if self.asker(&mail)?.is_none() {
                self.db
                    .prepare_cached("DELETE FROM deliveries WHERE mail_id = ?1 AND uuid = ?2")?
                    .execute(params![id, uuid])?;
                self.route_mail(id)?;
            }
        }
        Ok(())
    }

    /// A session is gone for good: what it has not read is judged again.
    pub(crate) fn reclaim(&mut self, agent_id: i64, uuid: &str) -> Result<(), MailError> {
        let ids: Vec<i64> = {
            let mut query = self.db.prepare_cached(
                "DELETE FROM deliveries WHERE uuid = ?1 AND state != 'read' RETURNING mail_id",
            )?;
            let rows = query.query_map([uuid], |row| row.get(0))?;
            rows.collect::<Result<_, _>>()?
        };
        let mut ids = ids;
        ids.sort_unstable();
        for id in ids {
            let others =
                self.db.prepare_cached("SELECT 1 FROM deliveries WHERE mail_id = ?1")?.exists([id])?;
            if others {
                self.finish_if_all_read(id)?;
            } else {
                self.route_mail(id)?;
            }
        }
        tracing::debug!(agent_id, "unread mail of a session that is gone was routed again");
        Ok(())
    }

    pub(crate) fn held(&self, agent_id: i64) -> Result<Held, MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT local_id, sender, to_session, arrived_at, bounce_at FROM mail
             WHERE agent_id = ?1 AND route = 'held' ORDER BY id LIMIT 1000",
        )?;
        let rows = query.query_map([agent_id], |row| {
            Ok((
                row.get(0)?,
                row.get::<_, String>(1)?,
                row.get(2)?,
                row.get::<_, i64>(3)?,
                row.get::<_, Option<i64>>(4)?,
            ))
        })?;
        let mut messages = Vec::new();
        for row in rows {
            let (message_id, sender, to_session, since, bounce_at) = row?;
            messages.push(HeldRow {
                message_id,
                from: self.shown(agent_id, &sender)?,
                to_session,
                since: rfc3339(since),
                bounces_at: bounce_at.map(rfc3339),
            });
        }
        Ok(Held { messages })
    }
}
