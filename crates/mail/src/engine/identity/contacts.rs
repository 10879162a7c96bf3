//! Who may write to whom. Agents of one daemon know each other; everyone else asks.

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};
use trl_protocol::contact::{ContactList, ContactParams, ContactRow, ContactState};
use trl_protocol::mail::FailReason;
use trl_protocol::{Code, Fault};

use crate::config::millis;
use crate::engine::dispatch::{Caller, Contacting};
use crate::engine::identity::agents::no_such_agent;
use crate::engine::receiving::receipts::LATELY;
use crate::engine::{Engine, Tx, Wake};
use crate::envelope::rfc3339;
use crate::error::MailError;
use crate::identity::Address;

/// Someone an agent can write to, or ask whether it may.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) address: Address,
    pub(crate) shown: String,
    /// An agent of this daemon.
    pub(crate) own: bool,
}

/// What daemons tell each other about contacts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub(crate) enum ContactWord {
    Request { name: String },
    Accepted { name: String },
    Declined,
}

/// Those that are stored; the agents of one daemon need no row.
fn state_named(text: &str) -> Option<ContactState> {
    use ContactState::{Accepted, Asking, Blocked, Declined, Requested};
    [Requested, Asking, Accepted, Declined, Blocked].into_iter().find(|state| state.name() == text)
}

impl Engine {
    pub(crate) async fn contact(
        &self,
        params: ContactParams,
        caller: Caller,
        what: Contacting,
    ) -> Result<ContactRow, MailError> {
        self.check_exists(&params.who, params.as_token.clone(), caller).await?;
        self.tx(move |tx| {
            let agent_id = tx.caller(caller, params.as_token.as_deref())?.agent_id;
            match what {
                Contacting::Request => tx.request_contact(agent_id, &params.who),
                Contacting::Accept => tx.accept_contact(agent_id, &params.who),
                Contacting::Decline => tx.decline_contact(agent_id, &params.who),
                Contacting::Block => tx.block_contact(agent_id, &params.who),
            }
        })
        .await
    }
}

impl Tx<'_> {
    pub(crate) fn peer(&self, agent_id: i64, who: &str) -> Result<Peer, MailError> {
        if let Some(agent) = self.agent_named(who)? {
            return Ok(Peer { address: agent.address, shown: agent.name, own: true });
        }
        let contact: Option<(String, Option<String>)> = self
            .db
            .prepare_cached(
                "SELECT peer, petname FROM contacts WHERE agent_id = ?1 AND (petname = ?2 OR peer = ?2)",
            )?
            .query_row(params![agent_id, who], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((peer, petname)) = contact {
            let address = parsed(&peer)?;
            return Ok(Peer { shown: petname.unwrap_or(peer), address, own: false });
        }
        match Address::parse(who) {
            Ok(address) => Ok(Peer { shown: address.to_string(), address, own: false }),
            Err(_) => {
                let mut names: Vec<String> = self.all_agents()?.into_iter().map(|agent| agent.name).collect();
                names.extend(self.contact_rows(agent_id)?.into_iter().filter_map(|(_, name, ..)| name));
                Err(no_such_agent(who, &names).into())
            }
        }
    }

    /// The name a reader sees for an address.
    pub(crate) fn shown(&self, agent_id: i64, address: &str) -> Result<String, MailError> {
        let name: Option<String> = self
            .db
            .prepare_cached(
                "SELECT name FROM agents WHERE address = ?2
                 UNION ALL
                 SELECT petname FROM contacts WHERE agent_id = ?1 AND peer = ?2 AND petname IS NOT NULL",
            )?
            .query_row(params![agent_id, address], |row| row.get(0))
            .optional()?;
        Ok(name.unwrap_or_else(|| address.to_owned()))
    }

    pub(crate) fn is_own(&self, address: &str) -> Result<bool, MailError> {
        Ok(self.db.prepare_cached("SELECT 1 FROM agents WHERE address = ?1")?.exists([address])?)
    }

    pub(crate) fn contact_state(&self, agent_id: i64, peer: &str) -> Result<Option<ContactState>, MailError> {
        let stored: Option<String> = self
            .db
            .prepare_cached("SELECT state FROM contacts WHERE agent_id = ?1 AND peer = ?2")?
            .query_row(params![agent_id, peer], |row| row.get(0))
            .optional()?;
        match stored.as_deref().and_then(state_named) {
            Some(state) => Ok(Some(state)),
            None if self.is_own(peer)? => Ok(Some(ContactState::Own)),
            None => Ok(None),
        }
    }

    /// Whether mail from this sender is taken, and if not, what its sender is told.
    pub(crate) fn refusal_of_sender(
        &self,
        agent_id: i64,
        sender: &str,
    ) -> Result<Option<FailReason>, MailError> {
        Ok(match self.contact_state(agent_id, sender)? {
            Some(ContactState::Own | ContactState::Accepted) => None,
            Some(ContactState::Blocked) => Some(FailReason::Blocked),
            Some(ContactState::Requested | ContactState::Asking | ContactState::Declined) | None => {
                Some(FailReason::NotContact)
            }
        })
    }

    /// Whether we may write to this peer.
    pub(crate) fn gate(&self, agent_id: i64, peer: &Peer) -> Result<(), MailError> {
        let refuse = |reason: &str, why: String| {
            let details = serde_json::json!({ "reason": reason, "address": peer.address });
            Err(Fault::new(Code::ContactRequired, why).with_details(details).into())
        };
        let shown = &peer.shown;
        match self.contact_state(agent_id, peer.address.as_str())? {
            Some(ContactState::Own | ContactState::Accepted) => Ok(()),
            Some(ContactState::Blocked) => {
                refuse("blocked", format!("you blocked {shown}; contact.accept lifts it"))
            }
            Some(ContactState::Asking) => {
                refuse("not_contact", format!("{shown} asks to be a contact; contact.accept first"))
            }
            Some(ContactState::Requested) => {
                refuse("not_contact", format!("{shown} has not yet answered your contact request"))
            }
            Some(ContactState::Declined) | None => {
                refuse("not_contact", format!("{shown} is not a contact; send contact.request first"))
            }
        }
    }

    fn set_contact(&self, agent_id: i64, peer: &Address, state: ContactState) -> Result<(), MailError> {
        self.db
            .prepare_cached(
                "INSERT INTO contacts (agent_id, peer, state, at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET state = ?3, at = ?4",
            )?
            .execute(params![agent_id, peer.as_str(), state.name(), self.now])?;
        Ok(())
    }

    /// Takes the name a peer gives itself, unless this user already uses it for someone else: an agent of this
    /// daemon, or a contact of any of them. Upper and lower case do not make a difference to a reader.
    fn suggest_name(&self, agent_id: i64, peer: &Address, name: &str) -> Result<(), MailError> {
        let usable = (1..=32).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
            && !Address::looks_like(name);
        if usable {
            self.db.execute(
                "UPDATE contacts SET petname = ?3 WHERE agent_id = ?1 AND peer = ?2 AND petname IS NULL
                   AND NOT EXISTS (SELECT 1 FROM agents WHERE name = ?3 COLLATE NOCASE)
                   AND NOT EXISTS (SELECT 1 FROM contacts WHERE petname = ?3 COLLATE NOCASE AND peer != ?2)",
                params![agent_id, peer.as_str(), name],
            )?;
        }
        Ok(())
    }

    fn say(&mut self, agent_id: i64, peer: &Address, word: &ContactWord) -> Result<(), MailError> {
        let payload = serde_json::to_vec(word).map_err(|_| MailError::Corrupt { what: "contact word" })?;
        self.db.execute(
            "INSERT INTO controls (agent_id, peer, kind, payload, fresh) VALUES (?1, ?2, 'contact', ?3, 0)",
            params![agent_id, peer.as_str(), payload],
        )?;
        self.wakes.push(Wake::Pump);
        Ok(())
    }

    /// What was said lately may be lost with a relay; to hear it twice changes nothing.
    pub(crate) fn repeat_contact_words(&mut self) -> Result<(), MailError> {
        let said: Vec<(i64, String, String)> = {
            let mut query = self.db.prepare_cached(
                "SELECT agent_id, peer, state FROM contacts
                 WHERE at > ?1 AND state IN ('requested', 'accepted', 'declined')",
            )?;
            let rows = query
                .query_map([self.now - millis(LATELY)], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        for (agent_id, peer, state) in said {
            let name = self.agent_by_id(agent_id)?.name;
            let word = match state.as_str() {
                "requested" => ContactWord::Request { name },
                "accepted" => ContactWord::Accepted { name },
                _ => ContactWord::Declined,
            };
            self.say(agent_id, &parsed(&peer)?, &word)?;
        }
        Ok(())
    }

    pub(crate) fn request_contact(&mut self, agent_id: i64, who: &str) -> Result<ContactRow, MailError> {
        let peer = self.peer(agent_id, who)?;
        let name = self.agent_by_id(agent_id)?.name;
        match self.contact_state(agent_id, peer.address.as_str())? {
            Some(ContactState::Own) => {}
            // They may have declined us and their word was lost; who accepted us hears nothing new.
            Some(ContactState::Accepted) => {
                self.say(agent_id, &peer.address, &ContactWord::Request { name })?;
            }
            Some(ContactState::Asking) => {
                self.set_contact(agent_id, &peer.address, ContactState::Accepted)?;
                self.say(agent_id, &peer.address, &ContactWord::Accepted { name })?;
            }
            Some(ContactState::Requested | ContactState::Declined) | None => {
                self.ask_peer(agent_id, &peer.address)?;
            }
            Some(ContactState::Blocked) => self.gate(agent_id, &peer)?,
        }
        self.contact_row(agent_id, &peer)
    }

    fn ask_peer(&mut self, agent_id: i64, peer: &Address) -> Result<(), MailError> {
        let name = self.agent_by_id(agent_id)?.name;
        self.set_contact(agent_id, peer, ContactState::Requested)?;
        self.say(agent_id, peer, &ContactWord::Request { name })
    }

    pub(crate) fn accept_contact(&mut self, agent_id: i64, who: &str) -> Result<ContactRow, MailError> {
        let peer = self.peer(agent_id, who)?;
        match self.contact_state(agent_id, peer.address.as_str())? {
            Some(ContactState::Blocked) if peer.own => {
                self.db.execute(
                    "DELETE FROM contacts WHERE agent_id = ?1 AND peer = ?2",
                    params![agent_id, peer.address.as_str()],
                )?;
            }
            Some(ContactState::Own) => self.nobody_else_meant(agent_id, &peer)?,
            Some(ContactState::Accepted) => {}
            // A block is ours alone, and so is lifting it.
            Some(ContactState::Asking | ContactState::Blocked) => {
                let name = self.agent_by_id(agent_id)?.name;
                self.set_contact(agent_id, &peer.address, ContactState::Accepted)?;
                self.say(agent_id, &peer.address, &ContactWord::Accepted { name })?;
            }
            // Nobody asks at this moment, so there is nothing to accept but to ask them: one who
            // still counts us as a contact, or waits for our word, answers at once.
            Some(ContactState::Requested | ContactState::Declined) | None => {
                self.ask_peer(agent_id, &peer.address)?;
            }
        }
        self.contact_row(agent_id, &peer)
    }

    /// Who asks under the name of an agent of ours is known by address only.
    fn nobody_else_meant(&self, agent_id: i64, own: &Peer) -> Result<(), MailError> {
        let asking: Vec<String> = self
            .contact_rows(agent_id)?
            .into_iter()
            .filter(|(_, name, state, _)| name.is_none() && state == ContactState::Asking.name())
            .map(|(address, ..)| address)
            .collect();
        if asking.is_empty() {
            return Ok(());
        }
        let why = format!(
            "{} is an agent of this daemon and needs no leave; to accept someone else who asks, give the address: {}",
            own.shown,
            asking.join(", ")
        );
        Err(Fault::invalid(why).into())
    }

    pub(crate) fn decline_contact(&mut self, agent_id: i64, who: &str) -> Result<ContactRow, MailError> {
        let peer = self.peer(agent_id, who)?;
        match self.contact_state(agent_id, peer.address.as_str())? {
            Some(ContactState::Asking | ContactState::Accepted | ContactState::Requested) => {
                self.set_contact(agent_id, &peer.address, ContactState::Declined)?;
                self.say(agent_id, &peer.address, &ContactWord::Declined)?;
            }
            Some(ContactState::Declined | ContactState::Blocked) => {}
            Some(ContactState::Own) | None => {
                let why = format!("{} has not asked; contact.block refuses its mail", peer.shown);
                return Err(Fault::invalid(why).into());
            }
        }
        self.contact_row(agent_id, &peer)
    }

    pub(crate) fn block_contact(&mut self, agent_id: i64, who: &str) -> Result<ContactRow, MailError> {
        let peer = self.peer(agent_id, who)?;
        self.set_contact(agent_id, &peer.address, ContactState::Blocked)?;
        self.contact_row(agent_id, &peer)
    }

    fn contact_row(&self, agent_id: i64, peer: &Peer) -> Result<ContactRow, MailError> {
        let state = self.contact_state(agent_id, peer.address.as_str())?.unwrap_or(ContactState::Declined);
        Ok(ContactRow {
            who: self.shown(agent_id, peer.address.as_str())?,
            address: peer.address.to_string(),
            state,
            since: rfc3339(self.now),
        })
    }

    #[expect(clippy::type_complexity, reason = "one row, read in one place")]
    fn contact_rows(&self, agent_id: i64) -> Result<Vec<(String, Option<String>, String, i64)>, MailError> {
        let mut query = self.db.prepare_cached(
            "SELECT peer, petname, state, at FROM contacts WHERE agent_id = ?1 ORDER BY at",
        )?;
        let rows =
            query.query_map([agent_id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
        rows.map(|row| row.map_err(MailError::from)).collect()
    }

    pub(crate) fn list_contacts(&self, agent_id: i64) -> Result<ContactList, MailError> {
        let mut contacts = Vec::new();
        for (peer, _, state, at) in self.contact_rows(agent_id)? {
            if let Some(state) = state_named(&state) {
                let who = self.shown(agent_id, &peer)?;
                contacts.push(ContactRow { who, address: peer, state, since: rfc3339(at) });
            }
        }
        for agent in self.all_agents()? {
            let listed = contacts.iter().any(|row| row.address == agent.address.as_str());
            if agent.id != agent_id && !listed {
                contacts.push(ContactRow {
                    who: agent.name,
                    address: agent.address.to_string(),
                    state: ContactState::Own,
                    since: rfc3339(self.now),
                });
            }
        }
        Ok(ContactList { contacts })
    }

    /// A peer's word about being contacts; never makes a contact that we did not want.
    pub(crate) fn hear_contact(
        &mut self,
        agent_id: i64,
        from: &Address,
        word: ContactWord,
    ) -> Result<(), MailError> {
        let state = self.contact_state(agent_id, from.as_str())?;
        let own_name = self.agent_by_id(agent_id)?.name;
        match (word, state) {
            (_, Some(ContactState::Blocked | ContactState::Own)) => {}
            (ContactWord::Request { name }, None | Some(ContactState::Declined | ContactState::Asking)) => {
                self.set_contact(agent_id, from, ContactState::Asking)?;
                self.suggest_name(agent_id, from, &name)?;
            }
            (ContactWord::Request { name }, Some(ContactState::Requested | ContactState::Accepted)) => {
                self.set_contact(agent_id, from, ContactState::Accepted)?;
                self.suggest_name(agent_id, from, &name)?;
                self.say(agent_id, from, &ContactWord::Accepted { name: own_name })?;
            }
            (ContactWord::Accepted { name }, Some(ContactState::Requested)) => {
                self.set_contact(agent_id, from, ContactState::Accepted)?;
                self.suggest_name(agent_id, from, &name)?;
            }
            (ContactWord::Declined, Some(ContactState::Requested | ContactState::Accepted)) => {
                self.set_contact(agent_id, from, ContactState::Declined)?;
            }
            (ContactWord::Accepted { .. } | ContactWord::Declined, _) => {}
        }
        Ok(())
    }
}

pub(crate) fn parsed(address: &str) -> Result<Address, MailError> {
    Address::parse(address).map_err(|_| MailError::Corrupt { what: "address" })
}
