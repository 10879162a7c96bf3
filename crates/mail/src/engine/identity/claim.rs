//! Claiming an agent for a session: which label, which uuid, which token.

use std::sync::atomic::Ordering;

use rusqlite::{OptionalExtension, params};
use trl_protocol::agent::{Token, UseParams, Used};
use trl_protocol::{Code, Fault};

use crate::engine::dispatch::Caller;
use crate::engine::identity::agents::Agent;
use crate::engine::identity::sessions::token_hash;
use crate::engine::{Tx, Wake, hex, random};
use crate::error::MailError;
use crate::label::Label;
use crate::registry::{Claim, Grant, allocate};

/// What was asked for, read and checked.
struct ClaimRequest {
    requested: Option<Label>,
    harness: String,
    harness_id: Option<String>,
    cwd: Option<String>,
    pid: Option<u32>,
    pid_start: Option<u64>,
    terminal: Option<String>,
}

/// Who the claimant is, by what its harness session left behind.
struct PreviousSession {
    uuid: String,
    remembered: Option<Label>,
    /// The same harness session is live elsewhere; this one starts afresh.
    fenced: bool,
}

impl Tx<'_> {
    pub(crate) fn use_agent(&mut self, params: UseParams, caller: Caller) -> Result<Used, MailError> {
        let agent = self.agent_meant(&params)?;
        let (pin, usual) = (params.primary == Some(true), params.usual == Some(true));
        let asked = self.read_claim(params)?;
        let known = self.recognize(&agent, &asked, caller)?;
        let grant = self.grant(&agent, &asked, &known)?;
        let token = hex(&random::<16>()?);
        self.store_session(&agent, &asked, &known.uuid, &grant.label, &token)?;
        if let (Some(id), false) = (&asked.harness_id, known.fenced) {
            self.remember(agent.id, id, grant.label.as_str(), &known.uuid)?;
        }
        if let (Some(id), true) = (&asked.harness_id, usual) {
            self.assign_session(id, agent.id)?;
        }
        if let Some(id) = &asked.harness_id {
            self.wakes.push(Wake::HarnessSession(id.clone()));
        }
        if pin {
            self.db.execute(
                "UPDATE agents SET primary_label = ?2 WHERE id = ?1",
                params![agent.id, grant.label.as_str()],
            )?;
        }
        self.rebind(caller, &known.uuid)?;
        for former in self.nameless_with_label(agent.id, grant.label.as_str(), &known.uuid)? {
            self.reclaim(agent.id, &former)?;
        }
        self.reroute_held(agent.id)?;
        Ok(Used {
            live_sessions: self.live_labels(agent.id)?,
            agent: agent.name,
            address: agent.address.to_string(),
            label: grant.label.to_string(),
            requested: asked.requested.map(String::from),
            reason: Some(grant.reason.told()),
            mode: self.env.config.mode,
            token: Token(token),
        })
    }

    /// The agent that is named, else the one that is assigned, else the only one.
    fn agent_meant(&self, params: &UseParams) -> Result<Agent, MailError> {
        if let Some(name) = &params.agent {
            return self.known_agent(name);
        }
        let harness_id = params.harness_session_id.as_deref().filter(|id| !id.is_empty());
        let project = params.project.as_deref().or(params.cwd.as_deref());
        if let Some(agent_id) = self.assigned(harness_id, project)? {
            return self.agent_by_id(agent_id);
        }
        if harness_id.is_none() {
            return Err(lacks_agent(&[]).into());
        }
        let mut agents = self.all_agents()?;
        match (agents.pop(), agents.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => {
                Err(Fault::new(Code::AgentNotFound, "there is no agent here yet; agent.create makes one")
                    .into())
            }
            (Some(last), false) => {
                agents.push(last);
                let names: Vec<String> = agents.into_iter().map(|agent| agent.name).collect();
                Err(lacks_agent(&names).into())
            }
        }
    }

    fn read_claim(&self, params: UseParams) -> Result<ClaimRequest, MailError> {
        let requested = params
            .label
            .as_deref()
            .map(Label::new)
            .transpose()
            .map_err(|error| Fault::invalid(format!("param `label` of agent.use: {error}")))?;
        let harness_id = params.harness_session_id.filter(|id| !id.is_empty());
        if harness_id.as_ref().is_some_and(|id| id.len() > 256) {
            return Err(Fault::invalid("param `harness_session_id` is longer than 256 bytes").into());
        }
        let pid_start = params.pid.and_then(|pid| self.env.processes.start_of(pid));
        if let (Some(pid), None) = (params.pid, pid_start) {
            return Err(Fault::invalid(format!("param `pid`: there is no process {pid}")).into());
        }
        let wished = params.harness.unwrap_or_else(|| "claude".to_owned());
        let harness = Label::numbered(&wished, 1).as_str().trim_end_matches(":1").to_owned();
        let terminal = params.terminal.map(|id| id.to_string());
        Ok(ClaimRequest {
            requested,
            harness,
            harness_id,
            cwd: params.cwd,
            pid: params.pid,
            pid_start,
            terminal,
        })
    }

    fn recognize(
        &self,
        agent: &Agent,
        asked: &ClaimRequest,
        caller: Caller,
    ) -> Result<PreviousSession, MailError> {
        let memory = match &asked.harness_id {
            Some(id) => self.remembered(agent.id, id)?,
            None => None,
        };
        let Some((label, uuid)) = memory else {
            return Ok(PreviousSession { uuid: hex(&random::<16>()?), remembered: None, fenced: false });
        };
        let remembered = Label::new(&label).ok();
        let fenced = self.session_by_uuid(&uuid)?.is_some_and(|former| {
            let same_process =
                former.pid.is_some() && (former.pid, former.pid_start) == (asked.pid, asked.pid_start);
            let speaks_for = caller.connection.and_then(|id| self.env.connections.session_of(id));
            self.is_session_live(&former) && !same_process && speaks_for.as_ref() != Some(&former.uuid)
        });
        let uuid = if fenced { hex(&random::<16>()?) } else { uuid };
        Ok(PreviousSession { uuid, remembered, fenced })
    }

    fn grant(
        &self,
        agent: &Agent,
        asked: &ClaimRequest,
        known: &PreviousSession,
    ) -> Result<Grant, MailError> {
        let holders = self.label_holders(agent.id)?;
        let taken: Vec<&str> = holders
            .iter()
            .filter(|holder| holder.uuid != known.uuid && self.is_session_live(holder))
            .map(|holder| holder.label.as_str())
            .collect();
        let claim = Claim {
            requested: asked.requested.clone(),
            harness: &asked.harness,
            remembered: known.remembered.clone(),
            fenced: known.fenced,
        };
        Ok(allocate(claim, |label| !taken.contains(&label.as_str())))
    }

    /// The connection now speaks for this session; the one it spoke for before lets go of its label.
    fn rebind(&mut self, caller: Caller, uuid: &str) -> Result<(), MailError> {
        let Some(connection) = caller.connection else { return Ok(()) };
        if let Some(former) = self.env.connections.session_of(connection).filter(|former| former != uuid) {
            self.let_go(&former)?;
        }
        self.env.connections.bind(connection, uuid);
        Ok(())
    }

    /// Earlier holders of a label that never come back, since they had no harness session id by which they would be
    /// known again, and that left unread mail.
    fn nameless_with_label(
        &self,
        agent_id: i64,
        label: &str,
        except: &str,
    ) -> Result<Vec<String>, MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT uuid FROM sessions WHERE agent_id = ?1 AND label = ?2 AND uuid != ?3
               AND harness_id = uuid AND holds_label = 0 AND EXISTS
               (SELECT 1 FROM deliveries d WHERE d.uuid = sessions.uuid AND d.state != 'read')",
        )?;
        let rows = query.query_map(params![agent_id, label, except], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn remembered(&self, agent_id: i64, harness_id: &str) -> Result<Option<(String, String)>, MailError> {
        Ok(self
            .db
            .prepare_cached("SELECT label, uuid FROM label_memory WHERE agent_id = ?1 AND harness_id = ?2")?
            .query_row(params![agent_id, harness_id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?)
    }

    fn remember(&self, agent_id: i64, harness_id: &str, label: &str, uuid: &str) -> Result<(), MailError> {
        self.db
            .prepare_cached(
                "INSERT INTO label_memory (agent_id, harness_id, label, uuid) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET label = ?3, uuid = ?4",
            )?
            .execute(params![agent_id, harness_id, label, uuid])?;
        Ok(())
    }

    /// A holder that is no longer live lets go of the label in the same transaction.
    fn store_session(
        &self,
        agent: &Agent,
        asked: &ClaimRequest,
        uuid: &str,
        label: &Label,
        token: &str,
    ) -> Result<(), MailError> {
        if asked.terminal.is_some() {
            self.env.has_terminals.store(true, Ordering::Relaxed);
        }
        let label = label.as_str();
        self.db
            .prepare_cached(
                "UPDATE sessions SET holds_label = 0 WHERE agent_id = ?1 AND label = ?2 AND uuid != ?3",
            )?
            .execute(params![agent.id, label, uuid])?;
        self.db
            .prepare_cached(
                "INSERT INTO sessions (uuid, agent_id, label, harness, harness_id, pid, pid_start, cwd, host,
                                       token_hash, started_at, heartbeat, last_seen, holds_label, terminal)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?11, 1, ?12)
                 ON CONFLICT (uuid) DO UPDATE SET label = ?3, harness = ?4, harness_id = ?5, pid = ?6, pid_start = ?7, cwd = ?8,
                   host = ?9, token_hash = ?10, started_at = ?11, heartbeat = ?11, last_seen = ?11,
                   holds_label = 1, terminal = ?12",
            )?
            .execute(params![
                uuid,
                agent.id,
                label,
                asked.harness,
                asked.harness_id.as_deref().unwrap_or(uuid),
                asked.pid,
                asked.pid_start.map(|start| start as i64),
                asked.cwd,
                self.env.config.host,
                token_hash(token),
                self.now,
                asked.terminal,
            ])?;
        Ok(())
    }
}

fn lacks_agent(names: &[String]) -> Fault {
    let choice = if names.is_empty() { String::new() } else { format!(", one of: {}", names.join(", ")) };
    Fault::invalid(format!("agent.use needs the param `agent`{choice}"))
        .with_details(serde_json::json!({ "field": "agent", "agents": names }))
}
