//! Telling a session that it has mail: who wrote and how much, never what.
//!
//! Everything that can tell a session asks here: the waiter and the hooks of a harness, a channel, `trl inbox --follow`.
//! A message that one of them has announced is announced by nobody else. A message that a waiting call takes is not
//! announced at all.
//!
//! Two agents whose answers wake each other would go on for ever. So a session is woken only so many times
//! until its user has said something; later mail waits for the user.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{OptionalExtension, params};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use trl_protocol::agent::Released;
use trl_protocol::mail::{Notice, Notices, NoticesParams};
use trl_protocol::{Code, Fault};

use crate::engine::dispatch::Caller;
use crate::engine::identity::sessions::Session;
use crate::engine::inbox::replies::deadline;
use crate::engine::wakeups::WakeupListener;
use crate::engine::{Engine, Env, Tx, Wake};
use crate::error::MailError;

/// Wakes in a row until the user has said something.
const MOST_WAKES: u32 = 12;
/// Of one answer.
const MOST: usize = 100;

/// Who waits to wake a harness session, and how often each session was woken.
#[derive(Debug, Default)]
pub(crate) struct Waiters(Mutex<WaiterState>);

#[derive(Debug, Default)]
struct WaiterState {
    /// By harness session: how its waiter learns that it is over.
    waiting: HashMap<String, Arc<Notify>>,
    /// By session uuid.
    woken: HashMap<String, u32>,
}

impl Waiters {
    fn lock(&self) -> MutexGuard<'_, WaiterState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new waiter ends the one before.
    fn enter(&self, harness_id: &str) -> WaiterPlace<'_> {
        let over = Arc::new(Notify::new());
        if let Some(before) = self.lock().waiting.insert(harness_id.to_owned(), Arc::clone(&over)) {
            before.notify_one();
        }
        WaiterPlace { waiters: self, harness_id: harness_id.to_owned(), over }
    }

    fn leave(&self, harness_id: &str, own: &Arc<Notify>) {
        let mut state = self.lock();
        if state.waiting.get(harness_id).is_some_and(|waiting| Arc::ptr_eq(waiting, own)) {
            state.waiting.remove(harness_id);
        }
    }

    /// The harness session has ended, and with it the waiting.
    fn end(&self, harness_id: &str) {
        if let Some(waiting) = self.lock().waiting.remove(harness_id) {
            waiting.notify_one();
        }
    }

    fn has(&self, harness_id: &str) -> bool {
        self.lock().waiting.contains_key(harness_id)
    }

    fn may_wake(&self, uuid: &str) -> bool {
        self.lock().woken.get(uuid).is_none_or(|count| *count < MOST_WAKES)
    }

    fn note_wake(&self, uuid: &str) {
        *self.lock().woken.entry(uuid.to_owned()).or_default() += 1;
    }

    fn forget_wakes(&self, uuid: &str) {
        self.lock().woken.remove(uuid);
    }
}

/// Given up when the waiter leaves.
struct WaiterPlace<'a> {
    waiters: &'a Waiters,
    harness_id: String,
    over: Arc<Notify>,
}

impl Drop for WaiterPlace<'_> {
    fn drop(&mut self) {
        self.waiters.leave(&self.harness_id, &self.over);
    }
}

/// A call that waits for mail of a session and will take what comes. When it leaves without having taken
/// something, others are to look again.
pub(crate) struct Reader<'a> {
    env: &'a Env,
    uuid: String,
    listener: Option<WakeupListener<'a>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn of_inbox(env: &'a Env, uuid: &str) -> Reader<'a> {
        Reader::waiting_for(env, uuid, Wake::Reader(uuid.to_owned()))
    }

    pub(crate) fn of_reply(env: &'a Env, uuid: &str, outbox_id: i64) -> Reader<'a> {
        Reader::waiting_for(env, uuid, Wake::Reply(outbox_id))
    }

    fn waiting_for(env: &'a Env, uuid: &str, wake: Wake) -> Reader<'a> {
        Reader { env, uuid: uuid.to_owned(), listener: Some(env.wakeups.listen(wake)) }
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        drop(self.listener.take());
        self.env.wakeups.notify_all(&[Wake::Inbox(std::mem::take(&mut self.uuid))]);
    }
}

impl Engine {
    pub(crate) async fn notices(&self, params: NoticesParams, caller: Caller) -> Result<Notices, MailError> {
        let until = deadline(params.wait_s.unwrap_or(0.0))?;
        let harness_id = params.harness_session_id.clone().filter(|id| !id.is_empty());
        let place = harness_id.as_ref().filter(|_| params.waiter).map(|id| self.env.waiters.enter(id));
        let silent = Arc::new(Notify::new());
        let appears = harness_id.map(|id| self.env.wakeups.listen(Wake::HarnessSession(id)));
        let appears = appears.as_ref().map_or(&silent, |listener| &listener.notify);
        let over = place.as_ref().map_or(&silent, |place| &place.over);
        let params = Arc::new(params);
        let mut first = true;
        let mut inbox: Option<(String, WakeupListener<'_>)> = None;
        loop {
            let meant = {
                let arrives = inbox.as_ref().map_or(&silent, |(_, listener)| &listener.notify);
                let (mut arrived, mut appeared) =
                    (std::pin::pin!(arrives.notified()), std::pin::pin!(appears.notified()));
                // What comes during the look is not missed.
                arrived.as_mut().enable();
                appeared.as_mut().enable();
                let asked = Arc::clone(&params);
                let (found, meant) = self.tx(move |tx| tx.take_notices(&asked, caller, first)).await?;
                first = false;
                if !found.new.is_empty() || Instant::now() >= until {
                    return Ok(found);
                }
                if meant.as_ref() == inbox.as_ref().map(|(uuid, _)| uuid) {
                    tokio::select! {
                        () = arrived => {}
                        () = appeared => {}
                        () = over.notified() => return Ok(Notices { over: true, ..found }),
                        () = sleep_until(until) => return Ok(found),
                    }
                    continue;
                }
                meant
            };
            inbox = meant.map(|uuid| (uuid.clone(), self.env.wakeups.listen(Wake::Inbox(uuid))));
        }
    }
}

impl Tx<'_> {
    /// Whose mail is meant: the caller's own session, or that of the harness session.
    fn noticed_session(&self, params: &NoticesParams, caller: Caller) -> Result<Option<Session>, MailError> {
        match params.harness_session_id.as_deref().filter(|id| !id.is_empty()) {
            Some(harness_id) => self.session_of_harness(harness_id),
            None => self.caller(caller, params.as_token.as_deref()).map(Some),
        }
    }

    fn session_of_harness(&self, harness_id: &str) -> Result<Option<Session>, MailError> {
        let uuid: Option<String> = self
            .db
            .prepare_cached(
                "SELECT uuid FROM sessions WHERE harness_id = ?1 ORDER BY holds_label DESC, last_seen DESC LIMIT 1",
            )?
            .query_row([harness_id], |row| row.get(0))
            .optional()?;
        uuid.map_or(Ok(None), |uuid| self.session_by_uuid(&uuid))
    }

    /// Claude Code goes on under another id after `/clear`, and its servers keep running. So an id of no live session
    /// means the session whose server has one of these processes as its parent, and that session has this id from then on.
    fn follow_harness(&mut self, harness_id: &str, pids: &[u32]) -> Result<(), MailError> {
        let is_live = |found: Option<Session>| found.is_some_and(|session| self.is_session_live(&session));
        if pids.is_empty() || is_live(self.session_of_harness(harness_id)?) {
            return Ok(());
        }
        let Some(session) = self.session_served_below(pids)? else { return Ok(()) };
        self.db
            .prepare_cached("UPDATE sessions SET harness_id = ?2 WHERE uuid = ?1")?
            .execute(params![session.uuid, harness_id])?;
        // One that had a label of its own before gets that back when it is resumed.
        self.db
            .prepare_cached(
                "INSERT INTO label_memory (agent_id, harness_id, label, uuid) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![session.agent_id, harness_id, session.label, session.uuid])?;
        self.env.waiters.end(&session.harness_id);
        Ok(())
    }

    /// The live session whose server was started by the nearest of these processes. What people start at a terminal
    /// is no server.
    fn session_served_below(&self, pids: &[u32]) -> Result<Option<Session>, MailError> {
        let uuids: Vec<String> = {
            let mut query = self.db.prepare_cached(
                "SELECT uuid FROM sessions WHERE holds_label = 1 AND pid IS NOT NULL AND harness != 'cli'",
            )?;
            let rows = query.query_map([], |row| row.get(0))?;
            rows.collect::<Result<_, _>>()?
        };
        let mut nearest: Option<(usize, Session)> = None;
        for uuid in uuids {
            let Some(session) = self.session_by_uuid(&uuid)?.filter(|found| self.is_session_live(found))
            else {
                continue;
            };
            let parent = session.pid.and_then(|pid| self.env.processes.parent_of(pid));
            let Some(at) = pids.iter().position(|pid| Some(*pid) == parent) else { continue };
            if nearest.as_ref().is_none_or(|(best, _)| at < *best) {
                nearest = Some((at, session));
            }
        }
        Ok(nearest.map(|(_, session)| session))
    }

    /// What is to be told, and the session that it is for.
    fn take_notices(
        &mut self,
        params: &NoticesParams,
        caller: Caller,
        first: bool,
    ) -> Result<(Notices, Option<String>), MailError> {
        if let Some(harness_id) = params.harness_session_id.as_deref().filter(|id| !id.is_empty()) {
            self.follow_harness(harness_id, &params.harness_pids)?;
        }
        let Some(session) = self.noticed_session(params, caller)? else {
            return Ok((self.before_its_first_session(params)?, None));
        };
        if first {
            if params.prompted {
                self.env.waiters.forget_wakes(&session.uuid);
            }
            for message_id in &params.announced {
                if let Some(mail_id) = self.delivery_of(&session, message_id)? {
                    self.announce(mail_id, &session.uuid)?;
                }
            }
        }
        let held_back = params.wake && !self.env.waiters.may_wake(&session.uuid);
        let new = if held_back { Vec::new() } else { self.unannounced(&session, &params.known)? };
        let new = if params.respond { self.hand_to_responder(&session, new)? } else { new };
        if params.claim {
            for (mail_id, _) in &new {
                self.announce(*mail_id, &session.uuid)?;
            }
            if params.wake && !new.is_empty() {
                self.env.waiters.note_wake(&session.uuid);
            }
        }
        let found = Notices {
            agent: Some(self.agent_by_id(session.agent_id)?.name),
            label: Some(session.label.clone()),
            unread: self.waiting_for(&session.uuid)? + self.held_for(&session)?,
            has_waiter: self.env.waiters.has(&session.harness_id),
            new: new.into_iter().map(|(_, notice)| notice).collect(),
            over: false,
        };
        Ok((found, Some(session.uuid)))
    }

    /// The harness session has had no session of an agent yet; what waits for the agent that it will speak for is told.
    fn before_its_first_session(&self, params: &NoticesParams) -> Result<Notices, MailError> {
        let agent = match &params.agent {
            Some(name) => self.agent_named(name)?,
            None => match self.assigned(params.harness_session_id.as_deref(), params.project.as_deref())? {
                Some(id) => Some(self.agent_by_id(id)?),
                None => None,
            },
        };
        let Some(agent) = agent else { return Ok(Notices::default()) };
        let unread = self
            .db
            .prepare_cached(
                "SELECT count(*) FROM mail WHERE agent_id = ?1 AND route = 'held' AND to_session IS NULL
                   AND bound_uuid IS NULL",
            )?
            .query_row([agent.id], |row| row.get(0))?;
        Ok(Notices { agent: Some(agent.name), unread, ..Notices::default() })
    }

    fn held_for(&self, session: &Session) -> Result<u64, MailError> {
        Ok(self
            .db
            .prepare_cached(
                "SELECT count(*) FROM mail WHERE agent_id = ?1 AND route = 'held'
                   AND (to_session IS NULL OR to_session = ?2) AND (bound_uuid IS NULL OR bound_uuid = ?3)",
            )?
            .query_row(params![session.agent_id, session.label, session.uuid], |row| row.get(0))?)
    }

    pub(crate) fn announce(&self, mail_id: i64, uuid: &str) -> Result<(), MailError> {
        self.db
            .prepare_cached("UPDATE deliveries SET announced = 1 WHERE mail_id = ?1 AND uuid = ?2")?
            .execute(params![mail_id, uuid])?;
        Ok(())
    }

    /// What waits in the session's inbox, was not announced, and is not about to be taken by a waiting call.
    fn unannounced(&self, session: &Session, known: &[String]) -> Result<Vec<(i64, Notice)>, MailError> {
        if self.env.wakeups.is_listened_to(&Wake::Reader(session.uuid.clone())) {
            return Ok(Vec::new());
        }
        let mut query = self.db.prepare_cached(
            "SELECT m.id, m.local_id, m.sender, m.from_session, m.in_reply_to FROM deliveries d
             JOIN mail m ON m.id = d.mail_id
             WHERE d.uuid = ?1 AND d.state != 'read' AND d.state = 'waiting' AND d.announced = 0
               AND m.expires_at > ?2
             ORDER BY d.mail_id",
        )?;
        let mut rows = query.query(params![session.uuid, self.now])?;
        let mut found = Vec::new();
        while found.len() < MOST
            && let Some(row) = rows.next()?
        {
            let (mail_id, sender): (i64, String) = (row.get(0)?, row.get(2)?);
            let in_reply_to: Option<String> = row.get(4)?;
            let message_id: String = row.get(1)?;
            let taken = known.contains(&message_id)
                || self.env.unwritten_leases.has(&session.uuid, mail_id)
                || self.is_awaited(session.agent_id, in_reply_to.as_deref())?;
            if !taken {
                let from = self.shown(session.agent_id, &sender)?;
                let notice = Notice { message_id, from, from_session: row.get(3)? };
                found.push((mail_id, notice));
            }
        }
        Ok(found)
    }

    /// What the auto-responder may not answer stays; so does everything if it is off.
    fn hand_to_responder(
        &mut self,
        session: &Session,
        new: Vec<(i64, Notice)>,
    ) -> Result<Vec<(i64, Notice)>, MailError> {
        let mut left = Vec::new();
        for (mail_id, notice) in new {
            if !self.may_respond(mail_id, session.agent_id)? {
                left.push((mail_id, notice));
                continue;
            }
            // Held, as mail is that nobody takes: if the answer fails, the next session that appears gets it.
            self.db
                .prepare_cached("DELETE FROM deliveries WHERE mail_id = ?1 AND uuid = ?2")?
                .execute(params![mail_id, session.uuid])?;
            self.set_route(mail_id, "held")?;
            self.consider_answer(mail_id)?;
        }
        Ok(left)
    }

    /// Whether a call waits for the reply to this message.
    fn is_awaited(&self, agent_id: i64, in_reply_to: Option<&str>) -> Result<bool, MailError> {
        let Some(message_id) = in_reply_to else { return Ok(false) };
        let outbox: Option<i64> = self
            .db
            .prepare_cached("SELECT id FROM outbox WHERE agent_id = ?1 AND message_id = ?2")?
            .query_row(params![agent_id, message_id], |row| row.get(0))
            .optional()?;
        Ok(outbox.is_some_and(|id| self.env.wakeups.is_listened_to(&Wake::Reply(id))))
    }

    /// The harness has ended its session: the label is free, and nobody waits to wake it any more.
    pub(crate) fn release_harness(&mut self, harness_id: &str) -> Result<Released, MailError> {
        self.env.waiters.end(harness_id);
        let Some(session) = self.session_of_harness(harness_id)? else {
            let shown: String = harness_id.chars().take(64).collect();
            let why = format!("the harness session {shown:?} speaks for no agent");
            return Err(Fault::new(Code::AgentNotFound, why).into());
        };
        self.env.waiters.forget_wakes(&session.uuid);
        self.let_go(&session.uuid)?;
        self.env.connections.drop_session(&session.uuid);
        // Its mail waits for it for a while: a harness may resume the session.
        self.withdraw_offers(&session.uuid)?;
        Ok(Released { label: session.label })
    }
}
