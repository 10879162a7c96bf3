//! One way in: every request about agents, mail and contacts, and what it answers.

use std::pin::Pin;

use trl_protocol::Fault;
pub use trl_protocol::{MailReply, MailRequest};

use crate::engine::Engine;
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

impl Engine {
    /// On the heap, and so compiled once, in this crate, however many await it.
    pub(super) fn handle(
        &self,
        request: MailRequest,
        caller: Caller,
    ) -> Pin<Box<dyn Future<Output = Result<MailReply, Fault>> + Send + '_>> {
        Box::pin(async move { self.answer(request, caller).await.map_err(Fault::from) })
    }

    // Without a catch-all: a new method does not compile until somebody answers it.
    #[deny(clippy::wildcard_enum_match_arm)]
    #[expect(clippy::too_many_lines, reason = "one arm for each method")]
    async fn answer(&self, request: MailRequest, caller: Caller) -> Result<MailReply, MailError> {
        use MailRequest as Ask;
        Ok(match request {
            Ask::AgentCreate(params) => MailReply::AgentCreate(Box::new(self.create_agent(params).await?)),
            Ask::AgentList(_) => MailReply::AgentList(Box::new(self.tx(|tx| tx.list_agents()).await?)),
            Ask::AgentUse(params) => {
                MailReply::AgentUse(Box::new(self.tx(move |tx| tx.use_agent(params, caller)).await?))
            }
            Ask::AgentWhoami(params) => MailReply::AgentWhoami(Box::new(
                self.tx(move |tx| tx.whoami(&tx.caller(caller, params.as_token.as_deref())?)).await?,
            )),
            Ask::AgentSessions(params) => {
                MailReply::AgentSessions(Box::new(self.sessions(params, caller).await?))
            }
            Ask::AgentHeartbeat(params) => MailReply::AgentHeartbeat(Box::new(
                self.tx(move |tx| tx.heartbeat(&tx.caller(caller, params.as_token.as_deref())?)).await?,
            )),
            Ask::AgentRelease(params) => MailReply::AgentRelease(Box::new(
                self.tx(move |tx| match params.harness_session_id.as_deref() {
                    Some(harness_id) => tx.release_harness(harness_id),
                    None => tx.release(&tx.caller(caller, params.as_token.as_deref())?, caller),
                })
                .await?,
            )),
            Ask::AgentAssign(params) => {
                MailReply::AgentAssign(Box::new(self.tx(move |tx| tx.assign(&params)).await?))
            }
            Ask::AgentUnassign(params) => {
                MailReply::AgentUnassign(Box::new(self.tx(move |tx| tx.unassign(&params)).await?))
            }
            Ask::AgentAssignments(params) => {
                MailReply::AgentAssignments(Box::new(self.tx(move |tx| tx.assignments(&params)).await?))
            }
            Ask::MailNotices(params) => MailReply::MailNotices(Box::new(self.notices(params, caller).await?)),
            Ask::MailSend(params) => MailReply::MailSend(Box::new(self.send(params, caller).await?.0)),
            Ask::MailStatus(params) => MailReply::MailStatus(Box::new(
                self.tx(move |tx| {
                    let session = tx.caller(caller, params.as_token.as_deref())?;
                    tx.status(session.agent_id, &params.message_id)
                })
                .await?,
            )),
            Ask::MailInbox(params) => MailReply::MailInbox(Box::new(self.inbox(params, caller).await?)),
            Ask::MailCheckReply(params) => {
                MailReply::MailCheckReply(Box::new(self.check_reply(params, caller).await?))
            }
            Ask::MailAwaitReply(params) => {
                MailReply::MailAwaitReply(Box::new(self.await_reply(params, caller).await?))
            }
            Ask::MailSendAndWait(params) => {
                MailReply::MailSendAndWait(Box::new(self.send_and_wait(params, caller).await?))
            }
            Ask::MailReply(params) => MailReply::MailReply(Box::new(self.reply(params, caller).await?)),
            Ask::MailHeld(params) => MailReply::MailHeld(Box::new(
                self.tx(move |tx| tx.held(tx.caller(caller, params.as_token.as_deref())?.agent_id)).await?,
            )),
            Ask::MailDeadLetters(params) => MailReply::MailDeadLetters(Box::new(
                self.tx(move |tx| tx.dead_letters(tx.caller(caller, params.as_token.as_deref())?.agent_id))
                    .await?,
            )),
            Ask::MailAutorespond(params) => MailReply::MailAutorespond(Box::new(
                self.tx(move |tx| {
                    let session = tx.caller(caller, params.as_token.as_deref())?;
                    tx.autorespond(session.agent_id, params)
                })
                .await?,
            )),
            Ask::MailReset(params) => MailReply::MailReset(Box::new(
                self.tx(move |tx| {
                    let session = tx.caller(caller, params.as_token.as_deref())?;
                    tx.reset(session.agent_id, &params.who)
                })
                .await?,
            )),
            Ask::ContactRequest(params) => {
                MailReply::ContactRequest(Box::new(self.contact(params, caller, Contacting::Request).await?))
            }
            Ask::ContactAccept(params) => {
                MailReply::ContactAccept(Box::new(self.contact(params, caller, Contacting::Accept).await?))
            }
            Ask::ContactDecline(params) => {
                MailReply::ContactDecline(Box::new(self.contact(params, caller, Contacting::Decline).await?))
            }
            Ask::ContactBlock(params) => {
                MailReply::ContactBlock(Box::new(self.contact(params, caller, Contacting::Block).await?))
            }
            Ask::ContactPresence(params) => {
                MailReply::ContactPresence(Box::new(self.whereabouts(params, caller).await?))
            }
            Ask::ContactList(params) => MailReply::ContactList(Box::new(
                self.tx(move |tx| tx.list_contacts(tx.caller(caller, params.as_token.as_deref())?.agent_id))
                    .await?,
            )),
        })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Contacting {
    Request,
    Accept,
    Decline,
    Block,
}
