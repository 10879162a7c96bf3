//! Sessions that have mail, do not ask for it, and sit at a terminal by which they can be told.
//!
//! Whoever last spoke from its terminal some time ago is no longer live, and mail for it is
//! held; as long as its process lives it can be told all the same, and its next call is
//! what it takes to be live again.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use trl_protocol::{Fault, SessionId};

use crate::engine::identity::sessions::Session;
use crate::engine::wakeups::Wake;
use crate::engine::{Engine, Tx};
use crate::error::MailError;
use crate::label::natural_order;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdleAgent {
    /// Unlike any other session's, also a later one's of the same label.
    pub uuid: String,
    pub terminal: SessionId,
    /// Grows with each message; one that was told of this need not be told again.
    pub newest: i64,
}

/// Keeps what it needs of the mail; the mail itself can be closed meanwhile.
#[derive(Debug)]
pub struct IdleAgents {
    engine: Arc<Engine>,
}

impl IdleAgents {
    pub(crate) fn new(engine: Arc<Engine>) -> IdleAgents {
        IdleAgents { engine }
    }

    /// Waits until there is one that is not known yet. `Err`: the mail is closed.
    pub async fn beyond(&self, known: &[IdleAgent]) -> Result<Vec<IdleAgent>, Fault> {
        let wakeup = self.engine.env.wakeups.listen(Wake::Terminal);
        loop {
            let now = self.now().await?;
            if now.iter().any(|idle_agent| !known.contains(idle_agent)) {
                return Ok(now);
            }
            wakeup.notify.notified().await;
        }
    }

    /// It was told of its mail up to now; nobody else is to tell it of that.
    pub async fn told(&self, idle_agent: &IdleAgent) -> Result<(), Fault> {
        let IdleAgent { uuid, newest, .. } = idle_agent.clone();
        Ok(self.engine.tx(move |tx| tx.announce_up_to(newest, &uuid)).await?)
    }

    pub async fn now(&self) -> Result<Vec<IdleAgent>, Fault> {
        Ok(self.engine.tx(|tx| tx.idle_agents()).await?)
    }
}

/// Mail that is held, as far as it matters for whom.
struct HeldMail {
    id: i64,
    agent_id: i64,
    to_session: Option<String>,
    bound: Option<String>,
}

impl Tx<'_> {
    /// Somebody may have to be told of what was just routed or held.
    pub(crate) fn stir(&mut self) {
        if self.env.has_terminals.load(Ordering::Relaxed) {
            self.wakes.push(Wake::Terminal);
        }
    }

    fn idle_agents(&self) -> Result<Vec<IdleAgent>, MailError> {
        let mut newest = self.newest_waiting()?;
        let mut known: HashMap<i64, Vec<Session>> = HashMap::new();
        for mail in self.held_mail()? {
            let sessions = match known.entry(mail.agent_id) {
                Entry::Occupied(there) => there.into_mut(),
                Entry::Vacant(new) => new.insert(self.at_terminals(mail.agent_id)?),
            };
            let pinned = self.agent_by_id(mail.agent_id)?.pinned;
            if let Some(session) = whom(&mail, sessions, pinned.as_deref()) {
                let number = newest.entry(session.uuid.clone()).or_default();
                *number = mail.id.max(*number);
            }
        }
        let mut found = Vec::new();
        for (uuid, newest) in newest {
            let Some(session) = self.session_by_uuid(&uuid)? else { continue };
            if self.is_reachable(&session)
                && let Some(Ok(terminal)) = session.terminal.map(|id| id.parse())
            {
                found.push(IdleAgent { uuid, terminal, newest });
            }
        }
        found.sort_by(|a, b| a.uuid.cmp(&b.uuid));
        Ok(found)
    }

    fn announce_up_to(&self, newest: i64, uuid: &str) -> Result<(), MailError> {
        self.db
            .prepare_cached(
                "UPDATE deliveries SET announced = 1 WHERE uuid = ?1 AND mail_id <= ?2 AND state != 'read'",
            )?
            .execute(rusqlite::params![uuid, newest])?;
        Ok(())
    }

    /// By session: the newest message in its inbox that was neither handed out nor announced.
    fn newest_waiting(&self) -> Result<HashMap<String, i64>, MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT s.uuid, max(d.mail_id) FROM sessions s JOIN deliveries d ON d.uuid = s.uuid
             WHERE s.holds_label = 1 AND s.terminal IS NOT NULL AND d.state != 'read' AND d.state = 'waiting'
               AND d.announced = 0
             GROUP BY s.uuid",
        )?;
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.map(|row| row.map_err(MailError::from)).collect()
    }

    fn held_mail(&self) -> Result<Vec<HeldMail>, MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT id, agent_id, to_session, bound_uuid FROM mail
             WHERE route = 'held' AND agent_id IN
               (SELECT agent_id FROM sessions WHERE holds_label = 1 AND terminal IS NOT NULL)
             ORDER BY id DESC LIMIT 1000",
        )?;
        let rows = query.query_map([], |row| {
            Ok(HeldMail {
                id: row.get(0)?,
                agent_id: row.get(1)?,
                to_session: row.get(2)?,
                bound: row.get(3)?,
            })
        })?;
        rows.map(|row| row.map_err(MailError::from)).collect()
    }

    /// Sessions of an agent that can be told, by natural order of their labels.
    fn at_terminals(&self, agent_id: i64) -> Result<Vec<Session>, MailError> {
        let mut sessions = self.label_holders(agent_id)?;
        sessions.retain(|session| session.terminal.is_some() && self.is_reachable(session));
        sessions.sort_by(|a, b| natural_order(&a.label, &b.label));
        Ok(sessions)
    }

    fn is_reachable(&self, session: &Session) -> bool {
        let same_process = session.pid.is_some_and(|pid| {
            self.env.processes.start_of(pid).is_some_and(|start| Some(start) == session.pid_start)
        });
        same_process || self.is_session_live(session)
    }
}

/// Who gets this once it speaks again: the session that it waits for, else the primary one.
fn whom<'s>(mail: &HeldMail, sessions: &'s [Session], pinned: Option<&str>) -> Option<&'s Session> {
    let by = |wanted: &dyn Fn(&&Session) -> bool| sessions.iter().find(wanted);
    match (&mail.bound, &mail.to_session) {
        (Some(uuid), _) => by(&|session| session.uuid == *uuid),
        (None, Some(label)) => by(&|session| session.label == *label),
        (None, None) => by(&|session| Some(session.label.as_str()) == pinned).or_else(|| sessions.first()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_mail_wakes_whom_it_is_for() {
        let session = |uuid: &str, label: &str| {
            let mut session = Session::machine(1);
            (session.uuid, session.label) = (uuid.to_owned(), label.to_owned());
            session
        };
        let sessions = [session("a", "cli:1"), session("b", "cli:2")];
        let cases = [
            (None, None, None, Some("a")),
            (None, None, Some("cli:2"), Some("b")),
            (None, None, Some("gone"), Some("a")),
            (None, Some("cli:2"), None, Some("b")),
            (None, Some("cli:3"), None, None),
            (Some("b"), Some("cli:1"), None, Some("b")),
            (Some("c"), Some("cli:1"), None, None),
        ];
        for (bound, to_session, pinned, expected) in cases {
            let mail = HeldMail {
                id: 1,
                agent_id: 1,
                to_session: to_session.map(str::to_owned),
                bound: bound.map(str::to_owned),
            };
            let found = whom(&mail, &sessions, pinned).map(|session| session.uuid.as_str());
            assert_eq!(found, expected, "{bound:?} {to_session:?} {pinned:?}");
        }
    }
}
