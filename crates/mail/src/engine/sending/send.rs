//! Taking a message: every refusal is said at once, and what is taken is stored.

use rusqlite::{OptionalExtension, params};
use trl_protocol::agent::Token;
use trl_protocol::mail::{SendParams, Sent, State};
use trl_protocol::{Code, Fault};

use crate::config::millis;
use crate::engine::dispatch::Caller;
use crate::engine::identity::agents::{Agent, no_such_address};
use crate::engine::identity::contacts::Peer;
use crate::engine::identity::sessions::Session;
use crate::engine::sending::rates::Direction;
use crate::engine::sending::repeated::digest;
use crate::engine::sending::sealing::Pair;
use crate::engine::{Engine, Tx, Wake, random};
use crate::envelope::{Defaults, EncodeInput, OwnBlock, RuntimeWord, encode, message_id};
use crate::error::MailError;
use crate::identity::Address;
use crate::label::Label;
use crate::steps::Step;

/// A message that passed every check.
struct Accepted {
    peer: Peer,
    to_session: Option<Label>,
    in_reply_to: Option<String>,
    expires_at: i64,
}

/// Loop guards' facts, for a message that a machine wrote by itself.
#[derive(Debug, Clone, Default)]
struct Lineage {
    hops: u32,
    chain: Vec<String>,
}

impl Engine {
    pub(crate) async fn send(
        &self,
        params: SendParams,
        caller: Caller,
    ) -> Result<(Sent, Session), MailError> {
        self.check_exists(&params.to, params.as_token.clone(), caller).await?;
        let sent = self
            .tx(move |tx| {
                let session = tx.caller(caller, params.as_token.as_deref())?;
                let answered = params.in_reply_to.clone();
                let (sent, _) = tx.send(&session, params)?;
                // Whoever answers a message has read it.
                tx.acknowledge_answered(&session, answered.as_deref())?;
                Ok((sent, session))
            })
            .await?;
        self.env.config.steps.reach(Step::SendCommitted)?;
        Ok(sent)
    }

    /// An address that nobody has is an error at once, not a message that never arrives.
    pub(crate) async fn check_exists(
        &self,
        to: &str,
        token: Option<Token>,
        caller: Caller,
    ) -> Result<(), MailError> {
        let who = to.split_once('/').map_or(to, |(who, _)| who).to_owned();
        let Ok(address) = Address::parse(&who) else { return Ok(()) };
        let known = self
            .tx(move |tx| {
                let session = tx.caller(caller, token.as_deref())?;
                tx.contact_state(session.agent_id, address.as_str()).map(|state| (state.is_some(), address))
            })
            .await?;
        let (known, address) = known;
        if !known && self.relay.bundle(&address).await?.is_none() {
            return Err(no_such_address(address.as_str()).into());
        }
        Ok(())
    }
}

impl Tx<'_> {
    pub(crate) fn send(&mut self, session: &Session, params: SendParams) -> Result<(Sent, i64), MailError> {
        self.send_with(session, params, None)
    }

    /// The same with a word that only the receiving daemon reads.
    pub(crate) fn send_with(
        &mut self,
        session: &Session,
        params: SendParams,
        runtime: Option<RuntimeWord>,
    ) -> Result<(Sent, i64), MailError> {
        self.env.config.steps.reach(Step::SendBegin)?;
        if let Some(sent) = self.sent_before(session, &params)? {
            return Ok(sent);
        }
        let (send_id, digest) = (params.send_id.clone(), digest(&params));
        let accepted = self.check_send(session, &params)?;
        let agent = self.agent_by_id(session.agent_id)?;
        let lineage = match params.auto {
            Some(true) => self.lineage(session, &agent, &accepted.peer, params.in_reply_to.as_deref())?,
            Some(false) | None => Lineage::default(),
        };
        let id = message_id(random()?);
        let own = OwnBlock {
            v: 1,
            session: Some(session.uuid.clone()),
            hops: lineage.hops,
            chain: lineage.chain,
            expires_at: Some(accepted.expires_at),
            runtime,
        };
        let input = EncodeInput {
            agent_address: agent.address.to_string(),
            from_session: Some(session.label.clone()),
            to_session: accepted.to_session.as_ref().map(|label| label.as_str().to_owned()),
            in_reply_to: accepted.in_reply_to.clone(),
            auto: params.auto.unwrap_or(false),
            role: params.role,
            text: params.text,
            message_id: Some(id.clone()),
            cwd: session.cwd.clone(),
            harness_session_id: session.harness_id.clone(),
            now: None,
            harness: Some(session.harness.clone()),
            own: Some(own),
        };
        let defaults = Defaults { now_ms: self.now, message_id: id.clone(), cwd: "/".to_owned() };
        let body = encode(&input, &defaults).map_err(|error| Fault::invalid(error.to_string()))?;
        self.check_packet_size(input.text.len(), body.len())?;
        let outbox_id = self.store_outbox(session, &accepted, &id, body.as_bytes(), (send_id, digest))?;
        self.env.config.steps.reach(Step::SendStored)?;
        let pair = Pair { agent_id: session.agent_id, peer: accepted.peer.address.to_string() };
        let sealed = self.seal_pair(&pair)?;
        self.env.config.steps.reach(Step::SendSealed)?;
        if !sealed {
            self.wakes.push(Wake::Pump);
        }
        self.due_at(accepted.expires_at);
        let sent = Sent {
            message_id: id,
            state: if sealed { State::Sealed } else { State::Queued },
            via: self.env.relay_name.to_owned(),
            from_session: session.label.clone(),
            to_session: accepted.to_session.map(String::from),
            duplicate: false,
        };
        Ok((sent, outbox_id))
    }

    fn check_send(&self, session: &Session, params: &SendParams) -> Result<Accepted, MailError> {
        let (who, short_label) = match params.to.split_once('/') {
            Some((who, label)) => (who, Some(label)),
            None => (params.to.as_str(), None),
        };
        if let (Some(short), Some(long)) = (short_label, params.to_session.as_deref())
            && short != long
        {
            let why = format!("`to` names the session {short:?}, `to_session` names {long:?}; give one");
            return Err(Fault::invalid(why).into());
        }
        let to_session = short_label
            .or(params.to_session.as_deref())
            .map(Label::new)
            .transpose()
            .map_err(|error| Fault::invalid(format!("param `to_session`: {error}")))?;
        if !matches!(params.role.as_deref(), None | Some("user" | "agent")) {
            return Err(Fault::invalid("param `role`: `user` or `agent`").into());
        }
        if params.text.trim().is_empty() {
            return Err(Fault::invalid("param `text` is empty; there is nothing to send").into());
        }
        let limit = self.env.config.max_text_bytes;
        if params.text.len() > limit {
            return Err(too_large(params.text.len(), limit).into());
        }
        let peer = self.peer(session.agent_id, who)?;
        self.gate(session.agent_id, &peer)?;
        let in_reply_to = self.wire_id_of(session.agent_id, params.in_reply_to.as_deref())?;
        let expires_at = self.now + self.lifetime(params.expires_s)?;
        // Last: only what would be sent counts.
        self.check_rate(session.agent_id, &peer)?;
        Ok(Accepted { peer, to_session, in_reply_to, expires_at })
    }

    /// The session that `to` names of the agent that wrote a message; anyone else is refused.
    pub(crate) fn addressed_sender(
        &self,
        agent_id: i64,
        to: &str,
        message: &trl_protocol::mail::Message,
    ) -> Result<Option<String>, MailError> {
        let (who, label) = to.split_once('/').map_or((to, None), |(who, label)| (who, Some(label)));
        if self.peer(agent_id, who)?.address.as_str() != message.from_address {
            let why = format!(
                "param `to`: message {} is from {}, not from {:?}; leave `in_reply_to` out to write to someone else",
                message.message_id, message.from, who
            );
            return Err(Fault::invalid(why).into());
        }
        Ok(label.map(str::to_owned))
    }

    fn lifetime(&self, asked: Option<f64>) -> Result<i64, MailError> {
        match asked {
            None => Ok(millis(self.env.config.expiry)),
            Some(seconds) if seconds > 0.0 && seconds <= trl_protocol::limits::MAX_SECONDS => {
                Ok((seconds * 1000.0).ceil() as i64)
            }
            Some(seconds) => {
                let why = format!("param `expires_s`: {seconds} is not a valid time");
                Err(Fault::invalid(why).into())
            }
        }
    }

    /// Readers know messages by our ids; senders only by their own.
    fn wire_id_of(&self, agent_id: i64, in_reply_to: Option<&str>) -> Result<Option<String>, MailError> {
        let Some(id) = in_reply_to.filter(|id| !id.is_empty()) else { return Ok(None) };
        let wire: Option<String> = self
            .db
            .prepare_cached("SELECT wire_id FROM mail WHERE agent_id = ?1 AND local_id = ?2")?
            .query_row(params![agent_id, id], |row| row.get(0))
            .optional()?;
        // A sender that gave its message no usable id cannot be told which one this answers.
        Ok(Some(wire.unwrap_or_else(|| id.to_owned())).filter(|id| !id.is_empty()))
    }

    /// What a machine writes by itself carries the chain of what it answers, and us; a chain that
    /// comes back to us, or goes on for too long, ends here.
    fn lineage(
        &self,
        session: &Session,
        agent: &Agent,
        peer: &Peer,
        in_reply_to: Option<&str>,
    ) -> Result<Lineage, MailError> {
        let answered: Option<(u32, String, bool, String)> = self
            .db
            .prepare_cached(
                "SELECT hops, chain, auto, sender FROM mail WHERE agent_id = ?1 AND local_id = ?2",
            )?
            .query_row(params![agent.id, in_reply_to], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .optional()?;
        let (hops, chain, auto, sender) = answered.unwrap_or_default();
        let mut chain: Vec<String> = serde_json::from_str(&chain).unwrap_or_default();
        // The auto-responder's own mail was judged before its command ran.
        if !session.is_machine() {
            let to_machine = auto && sender == peer.address.as_str();
            let in_chain = chain.iter().any(|address| address == agent.address.as_str());
            guard(to_machine, in_chain, hops >= self.env.config.auto.max_hops)?;
        }
        chain.push(agent.address.to_string());
        // The guard refuses long before this; a forged chain must not grow our mail.
        let surplus = chain.len().saturating_sub(32);
        chain.drain(..surplus);
        Ok(Lineage { hops: hops.saturating_add(1), chain })
    }

    fn check_rate(&self, agent_id: i64, peer: &Peer) -> Result<(), MailError> {
        let config = &self.env.config;
        let most_local = if peer.own { config.local_rate_per_minute } else { u32::MAX };
        let limit = config.rate_per_minute.min(most_local);
        if self.env.rates.take(agent_id, peer.address.as_str(), Direction::Outgoing, limit, self.now) {
            return Ok(());
        }
        let why = format!("{limit} messages a minute to {} are the limit; wait and send again", peer.shown);
        Err(Fault::new(Code::ResourcePressure, why)
            .with_details(serde_json::json!({ "reason": "rate_limited" }))
            .into())
    }

    fn check_packet_size(&self, text: usize, body: usize) -> Result<(), MailError> {
        // Room for the wrapping of a first message: card, ratchet header, padding.
        let limit = self.env.relay_max.saturating_sub(2048);
        if body <= limit {
            return Ok(());
        }
        let why = format!(
            "the text has {text} bytes, which its encoding makes {body}, and the relay takes {limit}; \
             control characters take six bytes each: send less, or a path"
        );
        Err(Fault::new(Code::PayloadTooLarge, why)
            .with_details(serde_json::json!({ "reason": "too_large" }))
            .into())
    }

    fn store_outbox(
        &mut self,
        session: &Session,
        accepted: &Accepted,
        message_id: &str,
        body: &[u8],
        (send_id, digest): (Option<String>, Vec<u8>),
    ) -> Result<i64, MailError> {
        // Time first, so that the unique index grows at its end.
        let mut uid = self.now.to_be_bytes().to_vec();
        uid.extend_from_slice(&random::<8>()?);
        let peer = accepted.peer.address.as_str();
        let to_session = accepted.to_session.as_ref().map(Label::as_str);
        self.db
            .prepare_cached(
                "INSERT INTO outbox (agent_id, uid, message_id, peer, to_session, from_uuid, body, state,
                                     pending, created_at, expires_at, send_id, send_digest)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'queued', 1, ?8, ?9, ?10, ?11)",
            )?
            .execute(params![
                session.agent_id,
                uid,
                message_id,
                peer,
                to_session,
                session.uuid,
                body,
                self.now,
                accepted.expires_at,
                send_id,
                digest,
            ])?;
        let id = self.db.last_insert_rowid();
        self.tell_history(id, State::Queued, None, self.now)?;
        // What a session writes to its own agent would be bound to come back to that session.
        let to_own_agent =
            to_session.is_none() && self.agent_by_id(session.agent_id)?.address.as_str() == peer;
        if !session.is_machine() && !to_own_agent {
            self.bind_conversation(session, peer, to_session.unwrap_or_default())?;
        }
        Ok(id)
    }
}

/// Machines that answer machines would never stop; a person's word begins anew.
fn guard(to_machine: bool, in_chain: bool, too_far: bool) -> Result<(), Fault> {
    let why = if to_machine {
        "a machine wrote what this answers"
    } else if in_chain {
        "this agent already answered by itself in this chain"
    } else if too_far {
        "too many automatic answers led here"
    } else {
        return Ok(());
    };
    let why = format!("param `auto`: {why}, and automatic answers end there; without `auto` it can be sent");
    Err(Fault::invalid(why).with_details(serde_json::json!({ "field": "auto", "reason": "loop" })))
}

fn too_large(size: usize, limit: usize) -> Fault {
    let why = format!("the text has {size} bytes, {limit} are the limit; send a path or a summary instead");
    Fault::new(Code::PayloadTooLarge, why).with_details(serde_json::json!({ "reason": "too_large" }))
}
