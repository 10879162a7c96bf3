//! Sessions of agents: claiming a label, proving who asks, being live.

use rusqlite::{OptionalExtension, params};
use sha2::{Digest, Sha256};
use trl_protocol::agent::{Beat, Released, SessionRow, Sessions, SessionsParams, Whoami};
use trl_protocol::{Code, Fault};

use crate::config::millis;
use crate::engine::dispatch::Caller;
use crate::engine::{Engine, Tx, hex};
use crate::envelope::rfc3339;
use crate::error::MailError;
use crate::label::natural_order;
use crate::presence::{SignOfLife, is_live};
use crate::routing::LiveSession;

/// A session that has proved itself, or a row of the registry.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) uuid: String,
    pub(crate) agent_id: i64,
    pub(crate) label: String,
    pub(crate) harness: String,
    pub(crate) harness_id: String,
    pub(crate) cwd: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) pid_start: Option<u64>,
    started_at: i64,
    heartbeat: i64,
    last_seen: i64,
    holds_label: bool,
    /// The terminal session of ours that it runs in.
    pub(crate) terminal: Option<String>,
}

impl Session {
    /// The auto-responder writes in its agent's name, as no session that could be written to.
    pub(crate) fn machine(agent_id: i64) -> Session {
        Session {
            uuid: format!("auto-{agent_id}"),
            agent_id,
            label: "auto".to_owned(),
            harness: "auto".to_owned(),
            harness_id: format!("auto-{agent_id}"),
            cwd: None,
            pid: None,
            pid_start: None,
            started_at: 0,
            heartbeat: 0,
            last_seen: 0,
            holds_label: false,
            terminal: None,
        }
    }

    pub(crate) fn is_machine(&self) -> bool {
        self.uuid.starts_with("auto-")
    }
}

const COLUMNS: &str = "uuid, agent_id, label, harness, harness_id, cwd, pid, pid_start, started_at, heartbeat, \
                       last_seen, holds_label, terminal";

fn read_session(row: &rusqlite::Row<'_>) -> rusqlite::Result<Session> {
    Ok(Session {
        uuid: row.get(0)?,
        agent_id: row.get(1)?,
        label: row.get(2)?,
        harness: row.get(3)?,
        harness_id: row.get(4)?,
        cwd: row.get(5)?,
        pid: row.get(6)?,
        pid_start: row.get::<_, Option<i64>>(7)?.map(|start| start as u64),
        started_at: row.get(8)?,
        heartbeat: row.get(9)?,
        last_seen: row.get(10)?,
        holds_label: row.get(11)?,
        terminal: row.get(12)?,
    })
}

pub(crate) fn token_hash(token: &str) -> String {
    hex(&Sha256::digest(token.as_bytes()))
}

impl Engine {
    pub(crate) async fn sessions(
        &self,
        params: SessionsParams,
        caller: Caller,
    ) -> Result<Sessions, MailError> {
        self.tx(move |tx| {
            let own = tx.caller(caller, params.as_token.as_deref());
            match params.agent {
                Some(agent) => {
                    let agent = tx.known_agent(&agent)?;
                    tx.list_sessions(agent.id, own.ok().as_ref())
                }
                None => {
                    let own = own?;
                    tx.list_sessions(own.agent_id, Some(&own))
                }
            }
        })
        .await
    }
}

impl Tx<'_> {
    pub(crate) fn is_session_live(&self, session: &Session) -> bool {
        let sign =
            SignOfLife { heartbeat_ms: session.heartbeat, pid: session.pid, pid_start: session.pid_start };
        session.holds_label
            && is_live(
                &sign,
                self.env.connections.is_connected(&session.uuid),
                self.now,
                millis(self.env.config.heartbeat_fresh),
                self.env.processes.as_ref(),
            )
    }

    /// Live sessions by natural order of their labels.
    pub(crate) fn live_sessions(&self, agent_id: i64) -> Result<Vec<LiveSession>, MailError> {
        let mut live: Vec<_> = self
            .label_holders(agent_id)?
            .into_iter()
            .filter(|session| self.is_session_live(session))
            .map(|session| LiveSession { uuid: session.uuid, label: session.label })
            .collect();
        live.sort_by(|a, b| natural_order(&a.label, &b.label));
        Ok(live)
    }

    pub(crate) fn live_labels(&self, agent_id: i64) -> Result<Vec<String>, MailError> {
        Ok(self.live_sessions(agent_id)?.into_iter().map(|session| session.label).collect())
    }

    pub(crate) fn label_holders(&self, agent_id: i64) -> Result<Vec<Session>, MailError> {
        let mut query = self.db.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM sessions WHERE agent_id = ?1 AND holds_label = 1"
        ))?;
        let rows = query.query_map([agent_id], read_session)?;
        rows.map(|row| row.map_err(MailError::from)).collect()
    }

    pub(crate) fn session_by_uuid(&self, uuid: &str) -> Result<Option<Session>, MailError> {
        Ok(self
            .db
            .prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE uuid = ?1"))?
            .query_row([uuid], read_session)
            .optional()?)
    }

    /// Who asks: by the token, else by the connection.
    pub(crate) fn caller(&self, caller: Caller, token: Option<&str>) -> Result<Session, MailError> {
        let found = match token {
            Some(token) => self
                .db
                .prepare_cached(&format!("SELECT {COLUMNS} FROM sessions WHERE token_hash = ?1"))?
                .query_row([token_hash(token)], read_session)
                .optional()?,
            None => match caller.connection.and_then(|id| self.env.connections.session_of(id)) {
                Some(uuid) => self.session_by_uuid(&uuid)?,
                None => None,
            },
        };
        let Some(session) = found else {
            let why = match token {
                Some(_) => "this token belongs to no session any more; call agent.use again",
                None => "this connection speaks for no agent; call agent.use, or give its token as `as`",
            };
            return Err(Fault::new(Code::AuthFailed, why).into());
        };
        if !session.holds_label {
            let why = format!(
                "this session was not live and its label {} went to another; call agent.use again",
                session.label
            );
            return Err(Fault::new(Code::LabelTaken, why).into());
        }
        Ok(session)
    }

    pub(crate) fn whoami(&self, session: &Session) -> Result<Whoami, MailError> {
        let agent = self.agent_by_id(session.agent_id)?;
        Ok(Whoami {
            agent: agent.name,
            address: agent.address.to_string(),
            label: session.label.clone(),
            mode: self.env.config.mode,
            live_sessions: self.live_labels(session.agent_id)?,
        })
    }

    pub(crate) fn list_sessions(&self, agent_id: i64, own: Option<&Session>) -> Result<Sessions, MailError> {
        let mut live: Vec<Session> = self
            .label_holders(agent_id)?
            .into_iter()
            .filter(|session| self.is_session_live(session))
            .collect();
        live.sort_by(|a, b| natural_order(&a.label, &b.label));
        let sessions = live
            .into_iter()
            .map(|session| SessionRow {
                own: own.is_some_and(|own| own.uuid == session.uuid),
                last_seen: rfc3339(if self.env.connections.is_connected(&session.uuid) {
                    self.now
                } else {
                    session.last_seen
                }),
                started_at: rfc3339(session.started_at),
                label: session.label,
                pid: session.pid,
                cwd: session.cwd,
            })
            .collect();
        Ok(Sessions { sessions })
    }

    pub(crate) fn heartbeat(&mut self, session: &Session) -> Result<Beat, MailError> {
        let was_live = self.is_session_live(session);
        self.db
            .prepare_cached("UPDATE sessions SET heartbeat = ?2, last_seen = ?2 WHERE uuid = ?1")?
            .execute(params![session.uuid, self.now])?;
        if !was_live {
            self.reroute_held(session.agent_id)?;
        }
        Ok(Beat { label: session.label.clone(), waiting: self.waiting_for(&session.uuid)? })
    }

    pub(crate) fn release(&mut self, session: &Session, caller: Caller) -> Result<Released, MailError> {
        // A call like any other: what the last one handed out has been seen.
        self.acknowledge(session, caller, None)?;
        self.let_go(&session.uuid)?;
        self.env.connections.drop_session(&session.uuid);
        self.reclaim(session.agent_id, &session.uuid)?;
        Ok(Released { label: session.label.clone() })
    }

    pub(crate) fn let_go(&mut self, uuid: &str) -> Result<(), MailError> {
        self.db
            .prepare_cached("UPDATE sessions SET holds_label = 0, last_seen = ?2 WHERE uuid = ?1")?
            .execute(params![uuid, self.now])?;
        self.judge_absence();
        Ok(())
    }

    /// The connection is gone: a session without a process of its own is gone with it.
    pub(crate) fn connection_lost(&mut self, uuid: &str) -> Result<(), MailError> {
        self.db
            .prepare_cached(
                "UPDATE sessions SET last_seen = ?2, heartbeat = CASE WHEN pid IS NULL THEN 0 ELSE heartbeat END
                 WHERE uuid = ?1",
            )?
            .execute(params![uuid, self.now])?;
        self.withdraw_offers(uuid)?;
        self.judge_absence();
        Ok(())
    }

    /// By then, a session that no connection holds has given a sign of life, or counts as gone.
    pub(crate) fn judge_absence(&mut self) {
        self.due_at(self.now + millis(self.env.config.heartbeat_fresh));
    }

    /// Sessions with unread mail that gave no sign of life for as long as one counts. Not at once:
    /// a connection that breaks is often back in a moment, and so is everyone after a restart.
    pub(crate) fn gone(&self) -> Result<Vec<String>, MailError> {
        let cutoff = self.now - millis(self.env.config.heartbeat_fresh);
        if self.env.opened_at > cutoff {
            return Ok(Vec::new());
        }
        Ok(self.gone_since(cutoff)?.into_iter().map(|(_, uuid)| uuid).collect())
    }

    /// When the next one may be among them.
    pub(crate) fn next_gone(&self) -> Result<Option<i64>, MailError> {
        let fresh = millis(self.env.config.heartbeat_fresh);
        let mut query = self.db.prepare_cached(
            "SELECT uuid, last_seen FROM sessions WHERE EXISTS
               (SELECT 1 FROM deliveries d WHERE d.uuid = sessions.uuid AND d.state != 'read')",
        )?;
        let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let mut next = None;
        for row in rows {
            let (uuid, last_seen) = row?;
            let at = last_seen.max(self.env.opened_at) + fresh;
            if at > self.now && !self.env.connections.is_connected(&uuid) {
                next = Some(next.map_or(at, |next: i64| next.min(at)));
            }
        }
        Ok(next)
    }

    /// Sessions that have been gone for longer than the grace time and still have unread mail.
    pub(crate) fn long_gone(&self) -> Result<Vec<(i64, String)>, MailError> {
        self.gone_since(self.now - millis(self.env.config.grace))
    }

    fn gone_since(&self, cutoff: i64) -> Result<Vec<(i64, String)>, MailError> {
        let mut query = self.db.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM sessions WHERE last_seen <= ?1
               AND EXISTS (SELECT 1 FROM deliveries d WHERE d.uuid = sessions.uuid AND d.state != 'read')"
        ))?;
        let rows = query.query_map([cutoff], read_session)?;
        let mut gone = Vec::new();
        for row in rows {
            let session = row?;
            if !self.is_session_live(&session) {
                gone.push((session.agent_id, session.uuid));
            }
        }
        Ok(gone)
    }
}
