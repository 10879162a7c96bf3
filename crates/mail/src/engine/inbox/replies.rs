//! Requests that may wait: the inbox, and replies.
//!
//! Whoever waits listens first, then looks at what is stored, then waits: nothing that
//! arrives in between is missed, and nothing that came before is waited for.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use trl_protocol::agent::Token;
use trl_protocol::limits::MAX_SECONDS;
use trl_protocol::mail::{
    AwaitParams, AwaitedReply, CheckParams, CheckedReply, Inbox, InboxParams, Message, ReplyParams,
    SendAndWaitParams, SendParams, Sent, State,
};
use trl_protocol::{Fault, mail};

use crate::engine::dispatch::Caller;
use crate::engine::identity::sessions::Session;
use crate::engine::inbox::notices::Reader;
use crate::engine::inbox::reading::Lease;
use crate::engine::{Engine, Wake};
use crate::error::MailError;
use crate::steps::Step;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 500;
const DEFAULT_WAIT_S: f64 = 60.0;

pub(crate) fn deadline(seconds: f64) -> Result<Instant, MailError> {
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return Err(Fault::invalid(format!("{seconds} seconds cannot be waited")).into());
    }
    Ok(Instant::now() + Duration::from_secs_f64(seconds))
}

impl Engine {
    pub(crate) async fn inbox(&self, params: InboxParams, caller: Caller) -> Result<Inbox, MailError> {
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
        let _reader = (!peek).then(|| Reader::of_inbox(&self.env, &session.uuid));
        let wakeup = self.env.wakeups.listen(Wake::Inbox(session.uuid.clone()));
        loop {
            let mut rung = std::pin::pin!(wakeup.notify.notified());
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

    pub(crate) async fn check_reply(
        &self,
        params: CheckParams,
        caller: Caller,
    ) -> Result<CheckedReply, MailError> {
        let CheckParams { message_id, peek, as_token } = params;
        let (reply, _) = self.look_for_reply(caller, as_token, message_id, peek).await?;
        Ok(CheckedReply { reply })
    }

    async fn look_for_reply(
        &self,
        caller: Caller,
        token: Option<Token>,
        message_id: String,
        peek: bool,
    ) -> Result<(Option<Message>, Option<mail::FailReason>), MailError> {
        self.tx(move |tx| {
            let session = tx.caller(caller, token.as_deref())?;
            let sent = tx.sent_message(session.agent_id, &message_id)?;
            let reply = tx.reply_to(session.agent_id, &sent)?;
            if let Some((mail_id, _)) = reply.as_ref().filter(|_| !peek) {
                tx.mark_read(*mail_id, &session.uuid)?;
            }
            if let Some((mail_id, _)) = &reply {
                tx.announce(*mail_id, &session.uuid)?;
            }
            let failed = if sent.state == State::Failed { sent.reason } else { None };
            Ok((reply.map(|(_, message)| message), failed))
        })
        .await
    }

    pub(crate) async fn await_reply(
        &self,
        params: AwaitParams,
        caller: Caller,
    ) -> Result<AwaitedReply, MailError> {
        let until = deadline(params.timeout_s.unwrap_or(DEFAULT_WAIT_S))?;
        let AwaitParams { message_id, as_token, peek, timeout_s: _ } = params;
        let (token, id) = (as_token.clone(), message_id.clone());
        let (outbox_id, uuid) = self
            .tx(move |tx| {
                let session = tx.caller(caller, token.as_deref())?;
                Ok((tx.sent_message(session.agent_id, &id)?.id, session.uuid))
            })
            .await?;
        let _reader = Reader::of_reply(&self.env, &uuid, outbox_id);
        let wakeup = self.env.wakeups.listen(Wake::Reply(outbox_id));
        loop {
            let mut rung = std::pin::pin!(wakeup.notify.notified());
            rung.as_mut().enable();
            let (reply, failed) =
                self.look_for_reply(caller, as_token.clone(), message_id.clone(), peek).await?;
            if reply.is_some() || failed.is_some() {
                return Ok(AwaitedReply { message_id, reply, timed_out: false, failed });
            }
            if timeout_at(until, rung).await.is_err() {
                return Ok(AwaitedReply { message_id, reply: None, timed_out: true, failed: None });
            }
        }
    }

    pub(crate) async fn send_and_wait(
        &self,
        params: SendAndWaitParams,
        caller: Caller,
    ) -> Result<AwaitedReply, MailError> {
        let (send, awaited) = params.split();
        deadline(awaited.timeout_s.unwrap_or(DEFAULT_WAIT_S))?;
        let (sent, _) = self.send(send, caller).await?;
        self.await_reply(AwaitParams { message_id: sent.message_id, ..awaited }, caller).await
    }

    pub(crate) async fn reply(&self, params: ReplyParams, caller: Caller) -> Result<Sent, MailError> {
        let sent = self
            .tx(move |tx| {
                let session = tx.caller(caller, params.as_token.as_deref())?;
                let (mail_id, message) = tx.message_named(session.agent_id, &params.message_id)?;
                // The auto-responder has no inbox; an answer to it is for its agent.
                let answers = message.from_session.clone().filter(|label| !(message.auto && label == "auto"));
                let to_session = match &params.to {
                    Some(to) => tx.addressed_sender(session.agent_id, to, &message)?.or(answers),
                    None => answers,
                };
                let send = SendParams {
                    to: message.from_address,
                    text: params.text,
                    to_session,
                    in_reply_to: Some(params.message_id),
                    auto: params.auto,
                    send_id: params.send_id,
                    unless_sent_within_s: params.unless_sent_within_s,
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
        Taking {
            engine,
            uuid: session.uuid.clone(),
            ticket: engine.env.unwritten_leases.ticket(),
            leased: false,
        }
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
                env.unwritten_leases.keep(unwritten);
                env.wakeups.notify_all(&[Wake::Lease]);
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
                tx.env.unwritten_leases.give_back(ticket);
                tx.wakes.push(Wake::Inbox(uuid));
                Ok(())
            },
            // Nothing was written, so it is given back; only the wakeup is missing.
            |env| env.wakeups.notify_all(&[Wake::Inbox(reader)]),
        );
    }
}
