//! A session's inbox: messages are handed out under a lease and acknowledged later.
//!
//! A lease lasts as long as the connection it was given on; when that is lost, what
//! was handed out is handed out again. Handing out is answered before the lease is
//! durable: a crash takes the reader's connection with it, and then the lease is void.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rusqlite::params;
use trl_protocol::mail::{FailReason, Inbox, Message, State, Text, is_safe_id};

use crate::engine::Tx;
use crate::engine::dispatch::Caller;
use crate::engine::identity::sessions::Session;
use crate::envelope::rfc3339;
use crate::error::MailError;
use crate::steps::Step;

/// What one look found, and for whom: nobody else gets it.
#[derive(Debug, Clone)]
pub(crate) struct Lease {
    pub(crate) session: Session,
    pub(crate) caller: Caller,
    pub(crate) ids: Vec<i64>,
    pub(crate) ticket: u64,
}

/// Messages that were found and whose lease is not written yet.
#[derive(Debug, Default)]
pub(crate) struct UnwrittenLeases {
    reserved: Mutex<Reserved>,
    tickets: AtomicU64,
}

#[derive(Debug, Default)]
struct Reserved {
    /// Each with the ticket of the look that found it.
    found: HashMap<(String, i64), u64>,
    /// Handed out, but the store refused to write it down.
    unwritten: Vec<Lease>,
}

impl UnwrittenLeases {
    fn with<T>(&self, look: impl FnOnce(&mut Reserved) -> T) -> T {
        look(&mut self.reserved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn has(&self, uuid: &str, mail_id: i64) -> bool {
        self.with(|reserved| {
            !reserved.found.is_empty() && reserved.found.contains_key(&(uuid.to_owned(), mail_id))
        })
    }

    fn add(&self, uuid: &str, ids: &[i64], ticket: u64) {
        self.with(|reserved| reserved.found.extend(ids.iter().map(|id| ((uuid.to_owned(), *id), ticket))));
    }

    pub(crate) fn give_back(&self, ticket: u64) {
        self.with(|reserved| {
            reserved.found.retain(|_, held| *held != ticket);
            reserved.unwritten.retain(|lease| lease.ticket != ticket);
        });
    }

    /// The reader has it all the same, so it stays reserved until its lease is written.
    pub(crate) fn keep(&self, lease: Lease) {
        self.add(&lease.session.uuid, &lease.ids, lease.ticket);
        self.with(|reserved| reserved.unwritten.push(lease));
    }

    pub(crate) fn unwritten(&self) -> Vec<Lease> {
        self.with(|reserved| reserved.unwritten.clone())
    }
}

/// What one look at the inbox found.
#[derive(Debug)]
pub(crate) struct InboxPage {
    pub(crate) inbox: Inbox,
    pub(crate) ids: Vec<i64>,
}

const MESSAGE: &str = "m.id, m.local_id, m.sender, m.from_session, m.to_session, m.role, m.text, m.in_reply_to, \
                       m.auto, m.sent_at, m.agent_id, m.dropped";

/// How a lease remembers on which connection it was given.
fn via(caller: Caller) -> String {
    match caller.connection {
        Some(id) => format!("connection {id}"),
        None => "token".to_owned(),
    }
}

impl Tx<'_> {
    /// Less those that nobody will get any more: they are few, and found by their index.
    pub(crate) fn waiting_for(&self, uuid: &str) -> Result<u64, MailError> {
        Ok(self
            .db
            .prepare_cached(
                "SELECT count(*) -
                   (SELECT count(*) FROM mail m CROSS JOIN deliveries d ON d.mail_id = m.id
                    WHERE m.route = 'routed' AND m.expires_at <= ?2 AND d.uuid = ?1 AND d.state = 'waiting')
                 FROM deliveries WHERE uuid = ?1 AND state != 'read'",
            )?
            .query_row(params![uuid, self.now], |row| row.get(0))?)
    }

    /// Acknowledges what the last call handed out on this connection, or exactly the ids given.
    pub(crate) fn acknowledge(
        &mut self,
        session: &Session,
        caller: Caller,
        ids: Option<&[String]>,
    ) -> Result<(), MailError> {
        let read: Vec<i64> = match ids {
            Some(ids) => {
                let mut read = Vec::new();
                for id in ids {
                    read.extend(self.delivery_of(session, id)?);
                }
                // What was handed out here and not named was not seen: it is handed out again.
                self.withdraw(&session.uuid, Some(via(caller)))?;
                read
            }
            None => {
                // Both conditions: the second alone does not let SQLite use the index of what is open.
                let mut query = self.db.prepare_cached(
                    "SELECT mail_id FROM deliveries WHERE uuid = ?1 AND state != 'read' AND state = 'offered' AND via = ?2",
                )?;
                let rows = query.query_map(params![session.uuid, via(caller)], |row| row.get(0))?;
                let mut read: Vec<i64> = rows.collect::<Result<_, _>>()?;
                let mut unwritten = self.env.unwritten_leases.unwritten();
                unwritten.retain(|lease| lease.session.uuid == session.uuid && lease.caller == caller);
                read.extend(unwritten.into_iter().flat_map(|lease| lease.ids));
                read
            }
        };
        for mail_id in read {
            self.mark_read(mail_id, &session.uuid)?;
        }
        self.env.config.steps.reach(Step::InboxAcked)
    }

    /// A message of this session's inbox that it has answered; other ids mean nothing here.
    pub(crate) fn acknowledge_answered(
        &mut self,
        session: &Session,
        answered: Option<&str>,
    ) -> Result<(), MailError> {
        let Some(id) = answered else { return Ok(()) };
        match self.delivery_of(session, id)? {
            Some(mail_id) => self.mark_read(mail_id, &session.uuid),
            None => Ok(()),
        }
    }

    pub(crate) fn delivery_of(&self, session: &Session, local_id: &str) -> Result<Option<i64>, MailError> {
        use rusqlite::OptionalExtension;
        Ok(self
            .db
            .prepare_cached(
                "SELECT d.mail_id FROM mail m JOIN deliveries d ON d.mail_id = m.id
                 WHERE m.agent_id = ?1 AND m.local_id = ?2 AND d.uuid = ?3 AND d.state != 'read'",
            )?
            .query_row(params![session.agent_id, local_id, session.uuid], |row| row.get(0))
            .optional()?)
    }

    pub(crate) fn withdraw_offers(&mut self, uuid: &str) -> Result<(), MailError> {
        self.withdraw(uuid, None)
    }

    /// What was handed out on a connection that has ended.
    pub(crate) fn withdraw_offers_on(&mut self, uuid: &str, connection: u64) -> Result<(), MailError> {
        self.withdraw(uuid, Some(via(Caller::on(connection))))
    }

    fn withdraw(&mut self, uuid: &str, via: Option<String>) -> Result<(), MailError> {
        let withdrawn = self
            .db
            .prepare_cached(
                "UPDATE deliveries SET state = 'waiting', via = NULL
                 WHERE uuid = ?1 AND state != 'read' AND state = 'offered' AND (?2 IS NULL OR via = ?2)",
            )?
            .execute(params![uuid, via])?;
        if withdrawn > 0 {
            self.wakes.push(crate::engine::Wake::Inbox(uuid.to_owned()));
            // Its time may have come while it was handed out.
            self.due_at(self.now);
        }
        Ok(())
    }

    pub(crate) fn mark_read(&mut self, mail_id: i64, uuid: &str) -> Result<(), MailError> {
        let changed = self
            .db
            .prepare_cached(
                "UPDATE deliveries SET state = 'read', via = NULL
                 WHERE mail_id = ?1 AND uuid = ?2 AND state != 'read'",
            )?
            .execute(params![mail_id, uuid])?;
        if changed == 0 {
            return Ok(());
        }
        self.owe_for_mail(mail_id, State::Read, None)?;
        self.finish_if_all_read(mail_id)
    }

    pub(crate) fn finish_if_all_read(&mut self, mail_id: i64) -> Result<(), MailError> {
        let open = self
            .db
            .prepare_cached("SELECT 1 FROM deliveries WHERE mail_id = ?1 AND state != 'read'")?
            .exists([mail_id])?;
        if !open {
            self.set_route(mail_id, "done")?;
            self.db
                .prepare_cached(
                    "UPDATE unread SET count = max(count - 1, 0)
                     WHERE agent_id = (SELECT agent_id FROM mail WHERE id = ?1)",
                )?
                .execute([mail_id])?;
        }
        Ok(())
    }

    /// Looks without changing anything in the store; what a taker finds is reserved for it.
    pub(crate) fn look(
        &mut self,
        session: &Session,
        limit: usize,
        ticket: Option<u64>,
    ) -> Result<InboxPage, MailError> {
        let found = self.open_messages(session, limit, ticket.is_some())?;
        let ids: Vec<i64> = found.iter().map(|(id, _)| *id).collect();
        if let Some(ticket) = ticket {
            self.env.unwritten_leases.add(&session.uuid, &ids, ticket);
        }
        let remaining = self.waiting_for(&session.uuid)?.saturating_sub(ids.len() as u64);
        let messages = found.into_iter().map(|(_, message)| message).collect();
        Ok(InboxPage { inbox: Inbox { messages, remaining }, ids })
    }

    fn open_messages(
        &self,
        session: &Session,
        limit: usize,
        take: bool,
    ) -> Result<Vec<(i64, Message)>, MailError> {
        let mut query = self.db.prepare_cached(&format!(
            "SELECT {MESSAGE} FROM deliveries d JOIN mail m ON m.id = d.mail_id
             WHERE d.uuid = ?1 AND d.state != 'read' AND (d.state = 'waiting' OR NOT ?2) AND m.expires_at > ?3
             ORDER BY d.mail_id"
        ))?;
        let mut rows = query.query(params![session.uuid, take, self.now])?;
        let mut found = Vec::new();
        while found.len() < limit {
            let Some(row) = rows.next()? else { break };
            let (id, message) = read_message(row)?;
            if !(take && self.env.unwritten_leases.has(&session.uuid, id)) {
                found.push((id, message));
            }
        }
        drop(rows);
        for (_, message) in &mut found {
            message.from = self.shown(session.agent_id, &message.from_address)?;
        }
        Ok(found)
    }

    /// Writes down what was handed out, unless the reader's connection is gone and the lease with it.
    pub(crate) fn write_lease(&mut self, lease: &Lease) -> Result<(), MailError> {
        let Lease { session, caller, ids, ticket } = lease;
        let gone = caller.connection.is_some_and(|id| !self.env.connections.is_reader(id, &session.uuid));
        if gone {
            self.wakes.push(crate::engine::Wake::Inbox(session.uuid.clone()));
        } else {
            self.offer(session, *caller, ids)?;
        }
        // Not yet: a commit that fails leaves it to be written again, and nobody else may get it until then.
        self.leased.push(*ticket);
        Ok(())
    }

    fn offer(&mut self, session: &Session, caller: Caller, ids: &[i64]) -> Result<(), MailError> {
        for mail_id in ids {
            let offered = self
                .db
                .prepare_cached(
                    "UPDATE deliveries SET state = 'offered', via = ?3
                     WHERE mail_id = ?1 AND uuid = ?2 AND state = 'waiting'",
                )?
                .execute(params![mail_id, session.uuid, via(caller)])?;
            if offered > 0 {
                self.owe_for_mail(*mail_id, State::Offered, None)?;
            }
        }
        self.env.config.steps.reach(Step::InboxOffered)
    }

    /// Nobody should read what is past its time.
    pub(crate) fn expire_unread(&mut self) -> Result<(), MailError> {
        let expired: Vec<i64> = {
            let mut query = self.db.prepare_cached(
                "SELECT id FROM mail WHERE route = 'routed' AND expires_at <= ?1 AND EXISTS
                   (SELECT 1 FROM deliveries d WHERE d.mail_id = mail.id AND d.state = 'waiting')",
            )?;
            let rows = query.query_map([self.now], |row| row.get(0))?;
            rows.collect::<Result<_, _>>()?
        };
        for mail_id in expired {
            self.db
                .prepare_cached("DELETE FROM deliveries WHERE mail_id = ?1 AND state = 'waiting'")?
                .execute([mail_id])?;
            let left =
                self.db.prepare_cached("SELECT 1 FROM deliveries WHERE mail_id = ?1")?.exists([mail_id])?;
            // Also if others have read it: then it is over.
            self.finish_if_all_read(mail_id)?;
            if !left {
                self.set_route(mail_id, "expired")?;
                self.owe_for_mail(mail_id, State::Failed, Some(FailReason::Expired))?;
            }
        }
        Ok(())
    }

    /// One message of the agent, by the id its readers know.
    pub(crate) fn message_named(&self, agent_id: i64, local_id: &str) -> Result<(i64, Message), MailError> {
        use rusqlite::OptionalExtension;
        let found = self
            .db
            .prepare_cached(&format!(
                "SELECT {MESSAGE} FROM mail m WHERE m.agent_id = ?1 AND m.local_id = ?2"
            ))?
            .query_row(params![agent_id, local_id], read_message)
            .optional()?;
        match found {
            Some((id, mut message)) => {
                message.from = self.shown(agent_id, &message.from_address)?;
                Ok((id, message))
            }
            None => {
                let shown: String = local_id.chars().take(64).collect();
                let why = format!("this agent has received no message {shown:?}");
                Err(trl_protocol::Fault::new(trl_protocol::Code::MessageNotFound, why).into())
            }
        }
    }

    /// The first reply to a message of ours that came from where we sent it.
    pub(crate) fn reply_to(
        &self,
        agent_id: i64,
        sent: &crate::engine::sending::outbox::SentMessage,
    ) -> Result<Option<(i64, Message)>, MailError> {
        use rusqlite::OptionalExtension;
        let found = self
            .db
            .prepare_cached(&format!(
                "SELECT {MESSAGE} FROM mail m WHERE m.agent_id = ?1 AND m.sender = ?2 AND m.in_reply_to = ?3
                   AND (?4 IS NULL OR m.from_session = ?4) ORDER BY m.id LIMIT 1"
            ))?
            .query_row(params![agent_id, sent.peer, sent.message_id, sent.to_session], read_message)
            .optional()?;
        found
            .map(|(id, mut message)| {
                message.from = self.shown(agent_id, &message.from_address)?;
                Ok((id, message))
            })
            .transpose()
    }
}

/// The sender's name is filled in by the caller, who knows whose contacts to look at.
fn read_message(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, Message)> {
    let sender: String = row.get(2)?;
    let message = Message {
        message_id: row.get(1)?,
        from: sender.clone(),
        from_address: sender,
        from_session: row.get(3)?,
        to_session: row.get(4)?,
        role: row.get(5)?,
        text: Text(row.get(6)?),
        // Also here: what an older version stored was not looked at when it came.
        in_reply_to: row.get::<_, Option<String>>(7)?.filter(|id| is_safe_id(id)),
        auto: row.get(8)?,
        timestamp: rfc3339(row.get(9)?),
        dropped: row.get::<_, String>(11)?.split_whitespace().map(str::to_owned).collect(),
    };
    Ok((row.get(0)?, message))
}
