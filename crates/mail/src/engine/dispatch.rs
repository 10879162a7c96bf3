//! One way in: every request about agents, mail and contacts, and what it answers.

pub use trl_protocol::MailReply;
use trl_protocol::{Fault, Request, agent, contact, mail};

use super::Engine;
use crate::error::MailError;

/// Which connection a request came on; `None` where connections mean nothing, as over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caller {
    pub connection: Option<u64>,
}

impl Caller {
    pub fn on(connection: u64) -> Caller {
        Caller { connection: Some(connection) }
    }
}

macro_rules! mail_requests {
    ($($variant:ident($params:ty);)*) => {
        /// A request that this crate answers.
        #[derive(Debug, Clone, PartialEq)]
        pub enum MailRequest { $($variant($params),)* }

        impl TryFrom<Request> for MailRequest {
            /// Boxed back: not ours. `mail.subscribe` is [`Mail::subscribe`](super::Mail::subscribe).
            type Error = Box<Request>;
            fn try_from(request: Request) -> Result<MailRequest, Box<Request>> {
                match request {
                    $(Request::$variant(params) => Ok(MailRequest::$variant(params)),)*
                    other => Err(Box::new(other)),
                }
            }
        }
    };
}

mail_requests! {
    AgentCreate(agent::CreateParams);
    AgentList(trl_protocol::system::NoParams);
    AgentUse(agent::UseParams);
    AgentWhoami(agent::CallerParams);
    AgentSessions(agent::SessionsParams);
    AgentHeartbeat(agent::CallerParams);
    AgentRelease(agent::CallerParams);
    MailSend(mail::SendParams);
    MailStatus(mail::MessageParams);
    MailInbox(mail::InboxParams);
    MailCheckReply(mail::MessageParams);
    MailAwaitReply(mail::AwaitParams);
    MailSendAndWait(mail::SendAndWaitParams);
    MailReply(mail::ReplyParams);
    MailHeld(agent::CallerParams);
    MailDeadLetters(agent::CallerParams);
    MailAutorespond(mail::AutorespondParams);
    MailReset(mail::ResetParams);
    ContactRequest(contact::ContactParams);
    ContactAccept(contact::ContactParams);
    ContactDecline(contact::ContactParams);
    ContactBlock(contact::ContactParams);
    ContactList(agent::CallerParams);
    ContactPresence(agent::CallerParams);
}

impl Engine {
    pub(super) async fn handle(&self, request: MailRequest, caller: Caller) -> Result<MailReply, Fault> {
        self.answer(request, caller).await.map_err(Fault::from)
    }

    async fn answer(&self, request: MailRequest, caller: Caller) -> Result<MailReply, MailError> {
        use MailRequest as Ask;
        Ok(match request {
            Ask::AgentCreate(params) => MailReply::Created(self.create_agent(params).await?),
            Ask::AgentList(_) => MailReply::Agents(self.tx(|tx| tx.list_agents()).await?),
            Ask::AgentUse(params) => MailReply::Used(self.tx(move |tx| tx.use_agent(params, caller)).await?),
            Ask::AgentWhoami(params) => MailReply::Whoami(
                self.tx(move |tx| tx.whoami(&tx.caller(caller, params.as_token.as_deref())?)).await?,
            ),
            Ask::AgentSessions(params) => MailReply::Sessions(self.sessions(params, caller).await?),
            Ask::AgentHeartbeat(params) => MailReply::Beat(
                self.tx(move |tx| tx.heartbeat(&tx.caller(caller, params.as_token.as_deref())?)).await?,
            ),
            Ask::AgentRelease(params) => MailReply::Released(
                self.tx(move |tx| tx.release(&tx.caller(caller, params.as_token.as_deref())?, caller))
                    .await?,
            ),
            Ask::MailSend(params) => MailReply::Sent(self.send(params, caller).await?.0),
            Ask::MailStatus(params) => MailReply::Status(
                self.tx(move |tx| {
                    let session = tx.caller(caller, params.as_token.as_deref())?;
                    tx.status(session.agent_id, &params.message_id)
                })
                .await?,
            ),
            Ask::MailInbox(params) => MailReply::Inbox(self.inbox(params, caller).await?),
            Ask::MailCheckReply(params) => MailReply::CheckedReply(self.check_reply(params, caller).await?),
            Ask::MailAwaitReply(params) => MailReply::AwaitedReply(self.await_reply(params, caller).await?),
            Ask::MailSendAndWait(params) => {
                MailReply::AwaitedReply(self.send_and_wait(params, caller).await?)
            }
            Ask::MailReply(params) => MailReply::Sent(self.reply(params, caller).await?),
            Ask::MailHeld(params) => MailReply::Held(
                self.tx(move |tx| tx.held(tx.caller(caller, params.as_token.as_deref())?.agent_id)).await?,
            ),
            Ask::MailDeadLetters(params) => MailReply::DeadLetters(
                self.tx(move |tx| tx.dead_letters(tx.caller(caller, params.as_token.as_deref())?.agent_id))
                    .await?,
            ),
            Ask::MailAutorespond(params) => MailReply::Autorespond(
                self.tx(move |tx| {
                    let session = tx.caller(caller, params.as_token.as_deref())?;
                    tx.autorespond(session.agent_id, params)
                })
                .await?,
            ),
            Ask::MailReset(params) => MailReply::Reset(
                self.tx(move |tx| {
                    let session = tx.caller(caller, params.as_token.as_deref())?;
                    tx.reset(session.agent_id, &params.who)
                })
                .await?,
            ),
            Ask::ContactRequest(params) => {
                MailReply::Contact(self.contact(params, caller, Contacting::Request).await?)
            }
            Ask::ContactAccept(params) => {
                MailReply::Contact(self.contact(params, caller, Contacting::Accept).await?)
            }
            Ask::ContactDecline(params) => {
                MailReply::Contact(self.contact(params, caller, Contacting::Decline).await?)
            }
            Ask::ContactBlock(params) => {
                MailReply::Contact(self.contact(params, caller, Contacting::Block).await?)
            }
            Ask::ContactPresence(params) => MailReply::Presence(self.whereabouts(params, caller).await?),
            Ask::ContactList(params) => MailReply::Contacts(
                self.tx(move |tx| tx.list_contacts(tx.caller(caller, params.as_token.as_deref())?.agent_id))
                    .await?,
            ),
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Contacting {
    Request,
    Accept,
    Decline,
    Block,
}
