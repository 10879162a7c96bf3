//! Requests that wait or need the relay: inbox, send, replies, contacts.
//!
//! Whoever waits listens first, then looks at what is stored, then waits: nothing that
//! arrives in between is missed, and nothing that came before is waited for.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use trl_protocol::agent::{CreateParams, Created, Sessions, SessionsParams, Token};
use trl_protocol::contact::{ContactParams, ContactRow};
use trl_protocol::limits::MAX_SECONDS;
use trl_protocol::mail::{
    AwaitParams, AwaitedReply, CheckedReply, Inbox, InboxParams, Message, MessageParams, ReplyParams,
    SendAndWaitParams, SendParams, Sent, State,
};
use trl_protocol::{Fault, mail};

use super::agents::no_such_agent;
use super::dispatch::{Caller, Contacting};
use super::inbox::Lease;
use super::sessions::Session;
use super::{Engine, Wake};
use crate::error::MailError;
use crate::identity::Address;
use crate::steps::Step;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;
const DEFAULT_WAIT_S: f64 = 60.0;

/// How long the maker of an agent waits for the relay to know it.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(2);

fn deadline(seconds: f64) -> Result<Instant, MailError> {
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(Fault::invalid(format!("{seconds} seconds cannot be waited")).into());
    }
    Ok(Instant::now() + Duration::from_secs_f64(seconds))
}

impl Engine {
    pub(super) async fn create_agent(&self, params: CreateParams) -> Result<Created, MailError> {
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

    pub(super) async fn sessions(
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

    pub(super) async fn send(
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
    async fn check_exists(&self, to: &str, token: Option<Token>, caller: Caller) -> Result<(), MailError> {
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
            return Err(no_such_agent(&who, &[]).into());
        }
        Ok(())
    }

    pub(super) async fn contact(
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

    pub(super) async fn inbox(&self, params: InboxParams, caller: Caller) -> Result<Inbox, MailError> {
        let until = deadline(params.wait_s.unwrap_or(0.0))?;
        let limit = params.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let (token, ack, peek) = (params.as_token, params.ack, params.peek);
        let session = self
            .tx(move |tx| {
                let session = tx.caller(caller, token.as_deref())?;
                if !peek || ack.is_some() {
                    tx.acknowledge(&session, caller, ack.as_deref())?;
                }
                Ok(session)
            })
            .await?;
        if let Some(connection) = caller.connection.filter(|_| !peek) {
            self.env.connections.reads(connection, &session.uuid);
        }
        let bell = self.env.switchboard.listen(Wake::Inbox(session.uuid.clone()));
        loop {
            let mut rung = std::pin::pin!(bell.notify.notified());
            rung.as_mut().enable();
            let taking = (!peek).then(|| Taking::new(self, &session));
            let (reader, ticket) = (session.clone(), taking.as_ref().map(|taking| taking.ticket));
            let look = self.tx(move |tx| tx.look(&reader, limit, ticket)).await?;
            if look.inbox.messages.is_empty() {
                if let Some(taking) = taking {
                    taking.found_nothing();
                }
                if timeout_at(until, rung).await.is_err() {
                    return Ok(look.inbox);
                }
                continue;
            }
            if let Some(taking) = taking {
                taking.lease(session, caller, look.ids);
            }
            return Ok(look.inbox);
        }
    }

    pub(super) async fn check_reply(
        &self,
        params: MessageParams,
        caller: Caller,
    ) -> Result<CheckedReply, MailError> {
        let (reply, _) = self.look_for_reply(caller, params.as_token, params.message_id).await?;
        Ok(CheckedReply { reply })
    }

    async fn look_for_reply(
        &self,
        caller: Caller,
        token: Option<Token>,
        message_id: String,
    ) -> Result<(Option<Message>, Option<mail::FailReason>), MailError> {
        self.tx(move |tx| {
            let session = tx.caller(caller, token.as_deref())?;
            let sent = tx.sent_message(session.agent_id, &message_id)?;
            let reply = tx.reply_to(session.agent_id, &sent)?;
            if let Some((mail_id, _)) = &reply {
                tx.mark_read(*mail_id, &session.uuid)?;
            }
            let failed = if sent.state == State::Failed { sent.reason } else { None };
            Ok((reply.map(|(_, message)| message), failed))
        })
        .await
    }

    pub(super) async fn await_reply(
        &self,
        params: AwaitParams,
        caller: Caller,
    ) -> Result<AwaitedReply, MailError> {
        let until = deadline(params.timeout_s.unwrap_or(DEFAULT_WAIT_S))?;
        let AwaitParams { message_id, as_token, .. } = params;
        let (token, id) = (as_token.clone(), message_id.clone());
        let outbox_id = self
            .tx(move |tx| {
                let session = tx.caller(caller, token.as_deref())?;
                Ok(tx.sent_message(session.agent_id, &id)?.id)
            })
            .await?;
        let bell = self.env.switchboard.listen(Wake::Reply(outbox_id));
        loop {
            let mut rung = std::pin::pin!(bell.notify.notified());
            rung.as_mut().enable();
            let (reply, failed) = self.look_for_reply(caller, as_token.clone(), message_id.clone()).await?;
            if reply.is_some() || failed.is_some() {
                return Ok(AwaitedReply { message_id, reply, timed_out: false, failed });
            }
            if timeout_at(until, rung).await.is_err() {
                return Ok(AwaitedReply { message_id, reply: None, timed_out: true, failed: None });
            }
        }
    }

    pub(super) async fn send_and_wait(
        &self,
        params: SendAndWaitParams,
        caller: Caller,
    ) -> Result<AwaitedReply, MailError> {
        let as_token = params.as_token.clone();
        let (send, timeout_s) = params.split();
        deadline(timeout_s.unwrap_or(DEFAULT_WAIT_S))?;
        let (sent, _) = self.send(send, caller).await?;
        self.await_reply(AwaitParams { message_id: sent.message_id, timeout_s, as_token }, caller).await
    }

    pub(super) async fn reply(&self, params: ReplyParams, caller: Caller) -> Result<Sent, MailError> {
        let sent = self
            .tx(move |tx| {
                let session = tx.caller(caller, params.as_token.as_deref())?;
                let (mail_id, message) = tx.message_named(session.agent_id, &params.message_id)?;
                // The auto-responder has no inbox; an answer to it is for its agent.
                let to_session = message.from_session.filter(|label| !(message.auto && label == "auto"));
                let send = SendParams {
                    to: message.from_address,
                    text: params.text,
                    to_session,
                    in_reply_to: Some(params.message_id),
                    auto: params.auto,
                    ..SendParams::default()
                };
                let (sent, _) = tx.send(&session, send)?;
                // Whoever answers a message has read it.
                tx.mark_read(mail_id, &session.uuid)?;
                Ok(sent)
            })
            .await?;
        self.env.config.steps.reach(Step::SendCommitted)?;
        Ok(sent)
    }
}

/// Messages set aside for one reader. Should it vanish before it has them, they are anyone's again.
struct Taking<'a> {
    engine: &'a Engine,
    uuid: String,
    ticket: u64,
    leased: bool,
}

impl<'a> Taking<'a> {
    fn new(engine: &'a Engine, session: &Session) -> Taking<'a> {
        Taking { engine, uuid: session.uuid.clone(), ticket: engine.env.offering.ticket(), leased: false }
    }

    /// Nothing to give back, and nobody to wake for it.
    fn found_nothing(mut self) {
        self.leased = true;
    }

    /// Queued before the reader gets its messages, hence before anything it asks next.
    fn lease(mut self, session: Session, caller: Caller, ids: Vec<i64>) {
        self.leased = true;
        let lease = Lease { session, caller, ids, ticket: self.ticket };
        let unwritten = lease.clone();
        self.engine.post(
            move |tx| tx.write_lease(&lease),
            |env| {
                env.offering.keep(unwritten);
                env.switchboard.ring_all(&[Wake::Lease]);
            },
        );
    }
}

impl Drop for Taking<'_> {
    fn drop(&mut self) {
        if self.leased {
            return;
        }
        // Behind the look itself, which may still be on its way.
        let (uuid, ticket) = (std::mem::take(&mut self.uuid), self.ticket);
        let reader = uuid.clone();
        self.engine.post(
            move |tx| {
                tx.env.offering.give_back(ticket);
                tx.wakes.push(Wake::Inbox(uuid));
                Ok(())
            },
            // Nothing was written, so it is given back; only the bell is missing.
            |env| env.switchboard.ring_all(&[Wake::Inbox(reader)]),
        );
    }
}
