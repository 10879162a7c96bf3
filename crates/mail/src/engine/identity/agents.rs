//! Agents of this daemon.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};
use trl_protocol::agent::{AgentList, AgentRow, CreateParams, Created, Policy};
use trl_protocol::{Code, Fault};
use zeroize::Zeroizing;

use crate::engine::{Engine, Tx, Wake};
use crate::error::MailError;
use crate::identity::{Address, Identity};
use crate::seal::{Bundle, Device};

#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) id: i64,
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) policy: Policy,
    pub(crate) pinned: Option<String>,
}

/// Secrets of an agent, for as long as a transaction needs them.
#[derive(Debug)]
pub(crate) struct AgentKeys {
    pub(crate) identity: Identity,
    pub(crate) device: Device,
    pub(crate) epoch: u64,
}

fn policy_name(policy: Policy) -> &'static str {
    match policy {
        Policy::Primary => "primary",
        Policy::Broadcast => "broadcast",
        Policy::Drop => "drop",
    }
}

fn policy_named(text: &str) -> Policy {
    match text {
        "broadcast" => Policy::Broadcast,
        "drop" => Policy::Drop,
        _ => Policy::Primary,
    }
}

/// `[A-Za-z0-9._-]{1,32}`, not only dots, and nothing that could be taken for an address.
fn problem_of_name(name: &str) -> Option<&'static str> {
    let is_plain = (1..=32).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if !is_plain {
        Some("1 to 32 of A-Z a-z 0-9 . _ - are expected")
    } else if name.bytes().all(|b| b == b'.') {
        Some("it has only dots")
    } else if Address::looks_like(name) {
        Some("it looks like an address; choose a shorter one")
    } else {
        None
    }
}

/// How long the maker of an agent waits for the relay to know it.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(2);

impl Engine {
    pub(crate) async fn create_agent(&self, params: CreateParams) -> Result<Created, MailError> {
        let created = self.tx(move |tx| tx.create_agent(params)).await?;
        let name = created.agent.clone();
        let agent = self.tx(move |tx| tx.known_agent(&name)).await?;
        // A relay that is away, or does not know the agent yet, is told by the loop that keeps keys.
        match tokio::time::timeout(ANNOUNCED_WITHIN, self.supply_keys(&agent, true)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the new agent could not be announced yet"),
            Err(_) => tracing::warn!("the new agent could not be announced yet"),
        }
        Ok(created)
    }
}

impl Tx<'_> {
    pub(crate) fn create_agent(&mut self, params: CreateParams) -> Result<Created, MailError> {
        let name = params.name;
        if let Some(problem) = problem_of_name(&name) {
            let shown: String = name.chars().take(64).collect();
            return Err(Fault::invalid(format!("{shown:?} cannot name an agent: {problem}")).into());
        }
        if let Some(existing) = self.agent_named(&name)? {
            let why = format!("there is an agent {name} already; its address is {}", existing.address);
            return Err(Fault::invalid(why).into());
        }
        self.take_name(&name)?;
        let identity = Identity::generate();
        let mut device = Device::generate();
        let fallback =
            device.fallback_key(&identity, 1).ok_or(MailError::Corrupt { what: "fallback key" })?;
        let bundle = Bundle { card: device.card(&identity, 1), fallback };
        self.db.execute(
            "INSERT INTO agents (name, address, identity, epoch, policy, bundle, fallback_at, created_at)
             VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?6)",
            params![
                name,
                identity.address().as_str(),
                identity.to_bytes().as_slice(),
                policy_name(params.policy.unwrap_or_default()),
                serde_json::to_string(&bundle).map_err(|_| MailError::Corrupt { what: "bundle" })?,
                self.now,
            ],
        )?;
        let agent_id = self.db.last_insert_rowid();
        self.store_device(agent_id, &device)?;
        self.db.execute("INSERT INTO unread (agent_id, count) VALUES (?1, 0)", [agent_id])?;
        self.wakes.push(Wake::Keys);
        Ok(Created { agent: name, address: identity.address().to_string() })
    }

    /// A name means one only: agents are looked for before contacts, so a contact that is written to
    /// by this name would silently be someone else. Whoever is no contact loses the name instead.
    fn take_name(&self, name: &str) -> Result<(), MailError> {
        let contact: Option<(String, String)> = self
            .db
            .prepare_cached(
                "SELECT peer, agents.name FROM contacts JOIN agents ON agents.id = agent_id
                 WHERE petname = ?1 AND state = 'accepted'",
            )?
            .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((address, agent)) = contact {
            let why = format!(
                "{name} is a contact of {agent} already, with the address {address}; \
                 take another name, or let {agent} decline that contact first"
            );
            return Err(Fault::invalid(why).into());
        }
        self.db.execute("UPDATE contacts SET petname = NULL WHERE petname = ?1", [name])?;
        Ok(())
    }

    pub(crate) fn list_agents(&mut self) -> Result<AgentList, MailError> {
        let mut agents = Vec::new();
        for agent in self.all_agents()? {
            let live_sessions = self.live_labels(agent.id)?;
            agents.push(AgentRow { agent: agent.name, address: agent.address.to_string(), live_sessions });
        }
        Ok(AgentList { agents })
    }

    pub(crate) fn all_agents(&self) -> Result<Vec<Agent>, MailError> {
        let mut query = self
            .db
            .prepare_cached("SELECT id, name, address, policy, primary_label FROM agents ORDER BY name")?;
        let rows = query.query_map([], read_agent)?;
        rows.map(|row| row.map_err(MailError::from)).collect()
    }

    pub(crate) fn agent_by_id(&self, id: i64) -> Result<Agent, MailError> {
        Ok(self
            .db
            .prepare_cached("SELECT id, name, address, policy, primary_label FROM agents WHERE id = ?1")?
            .query_row([id], read_agent)?)
    }

    /// By name or address.
    pub(crate) fn agent_named(&self, who: &str) -> Result<Option<Agent>, MailError> {
        Ok(self
            .db
            .prepare_cached(
                "SELECT id, name, address, policy, primary_label FROM agents WHERE name = ?1
                 UNION ALL
                 SELECT id, name, address, policy, primary_label FROM agents WHERE address = ?1",
            )?
            .query_row([who], read_agent)
            .optional()?)
    }

    pub(crate) fn known_agent(&self, who: &str) -> Result<Agent, MailError> {
        match self.agent_named(who)? {
            Some(agent) => Ok(agent),
            None => {
                let names: Vec<String> = self.all_agents()?.into_iter().map(|agent| agent.name).collect();
                Err(no_such_agent(who, &names).into())
            }
        }
    }

    pub(crate) fn agent_keys(&self, agent_id: i64) -> Result<AgentKeys, MailError> {
        let (identity, device, epoch) = self
            .db
            .prepare_cached(
                "SELECT identity, device, epoch FROM agents JOIN devices ON agent_id = id WHERE id = ?1",
            )?
            .query_row([agent_id], |row| {
                Ok((
                    Zeroizing::new(row.get::<_, Vec<u8>>(0)?),
                    Zeroizing::new(row.get::<_, Vec<u8>>(1)?),
                    row.get::<_, u64>(2)?,
                ))
            })?;
        let seed: &[u8; 32] =
            identity.as_slice().try_into().map_err(|_| MailError::Corrupt { what: "identity key" })?;
        Ok(AgentKeys { identity: Identity::from_bytes(seed), device: Device::restore(&device)?, epoch })
    }

    pub(crate) fn store_device(&self, agent_id: i64, device: &Device) -> Result<(), MailError> {
        self.db
            .prepare_cached("INSERT OR REPLACE INTO devices (agent_id, device) VALUES (?1, ?2)")?
            .execute(params![agent_id, device.store()?.as_slice()])?;
        Ok(())
    }
}

/// An address that is well formed, but that the directory of the relay does not have.
pub(crate) fn no_such_address(address: &str) -> Fault {
    let why =
        format!("nobody has the address {address}; compare it with what its owner's `agent.list` shows");
    Fault::new(Code::AgentNotFound, why)
        .with_details(serde_json::json!({ "reason": "unknown_recipient", "nearest": null }))
}

/// An unknown name, with the nearest known one.
pub(crate) fn no_such_agent(who: &str, names: &[String]) -> Fault {
    let shown: String = who.chars().take(64).collect();
    let near = trl_protocol::request::nearest(who, names.iter().map(String::as_str));
    let hint = match near {
        Some(near) => format!("; did you mean `{near}`?"),
        None if names.is_empty() => "; make one with agent.create".to_owned(),
        None => format!("; known: {}", names.iter().take(8).cloned().collect::<Vec<_>>().join(", ")),
    };
    Fault::new(Code::AgentNotFound, format!("there is no agent {shown:?}{hint}"))
        .with_details(serde_json::json!({ "reason": "unknown_recipient", "nearest": near }))
}

fn read_agent(row: &rusqlite::Row<'_>) -> rusqlite::Result<Agent> {
    let address: String = row.get(2)?;
    Ok(Agent {
        id: row.get(0)?,
        name: row.get(1)?,
        address: Address::parse(&address).map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, Box::new(error))
        })?,
        policy: policy_named(&row.get::<_, String>(3)?),
        pinned: row.get(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_cannot_be_used_is_refused_for_its_own_reason() {
        for (name, expected) in [
            ("alice.v2_x-1", None),
            ("", Some("1 to 32")),
            ("a b", Some("1 to 32")),
            ("..", Some("only dots")),
            ("5mzjzj45zrx6gzmuv4eqfgsmahzv2qdp", Some("looks like an address")),
        ] {
            let problem = problem_of_name(name);
            assert_eq!(problem.is_some(), expected.is_some(), "{name}: {problem:?}");
            assert!(
                problem.unwrap_or_default().contains(expected.unwrap_or_default()),
                "{name}: {problem:?}"
            );
        }
    }
}
