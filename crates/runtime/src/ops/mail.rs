//! `agent.…`, `mail.…` and `contact.…`: what they mean is decided by the mail itself.

use trl_mail::Caller as MailCaller;
use trl_protocol::agent::CallerParams;
use trl_protocol::change::{Change, ChangeEvent, Topic};
use trl_protocol::mail::SubscriptionOver;
use trl_protocol::{Code, Event, Fault, MailReply, MailRequest};

use crate::caller::{Caller, EventSink, Gone};
use crate::runtime::Inner;

pub(crate) async fn perform(
    runtime: &Inner,
    request: MailRequest,
    caller: &Caller,
) -> Result<MailReply, Fault> {
    let mail = runtime.mailroom.mail().await?;
    let asks = MailCaller { connection: caller.connection };
    if waits(&request) {
        return tokio::select! {
            reply = mail.handle(request, asks) => reply,
            () = caller.gone() => Err(nobody_waits()),
            () = runtime.stopping() => Err(wait_is_over()),
        };
    }
    let binds = matches!(request, MailRequest::AgentUse(_));
    let reply = mail.handle(request, asks).await;
    if let Some(change) = reply.as_ref().ok().and_then(change) {
        runtime.feed.tell(change);
    }
    // Whoever left before its session was bound to the connection would be there for ever.
    if let Some(connection) = caller.connection.filter(|_| binds && caller.is_gone()) {
        runtime.mailroom.connection_closed(connection).await;
    }
    reply
}

pub(crate) async fn subscribe(
    runtime: &Inner,
    params: CallerParams,
    caller: &Caller,
    events: &mut dyn EventSink,
) -> Result<SubscriptionOver, Fault> {
    let mail = runtime.mailroom.mail().await?;
    let mut subscription = mail.subscribe(params, MailCaller { connection: caller.connection }).await?;
    // The subscription keeps what it needs; the mail itself can be closed meanwhile.
    drop(mail);
    let mut told = 0;
    loop {
        let event = tokio::select! {
            event = subscription.next() => event?,
            () = caller.gone() => return Err(nobody_waits()),
            () = runtime.stopping() => return Ok(SubscriptionOver { events: told }),
        };
        if let Err(Gone) = events.send(Event::Mail(&event)).await {
            return Err(nobody_waits());
        }
        told += 1;
    }
}

/// What a reply says has happened.
fn change(reply: &MailReply) -> Option<ChangeEvent> {
    let (agent, label, message_id, told) = match reply {
        MailReply::AgentCreate(made) => (Some(&made.agent), None, None, (Topic::Agent, Change::Created)),
        MailReply::AgentUse(used) => {
            (Some(&used.agent), Some(&used.label), None, (Topic::Agent, Change::Present))
        }
        MailReply::AgentRelease(gone) => (None, Some(&gone.label), None, (Topic::Agent, Change::Released)),
        MailReply::MailSend(sent) | MailReply::MailReply(sent) => {
            (None, None, Some(&sent.message_id), (Topic::Mail, Change::Sent))
        }
        MailReply::MailInbox(inbox) if !inbox.messages.is_empty() => {
            (None, None, None, (Topic::Mail, Change::Read))
        }
        _ => return None,
    };
    Some(ChangeEvent {
        agent: agent.cloned(),
        label: label.cloned(),
        message_id: message_id.cloned(),
        ..ChangeEvent::new(told.0, told.1)
    })
}

fn waits(request: &MailRequest) -> bool {
    match request {
        MailRequest::MailInbox(params) => params.wait_s.is_some(),
        MailRequest::MailNotices(params) => params.wait_s.is_some(),
        MailRequest::MailAwaitReply(_) | MailRequest::MailSendAndWait(_) => true,
        _ => false,
    }
}

fn nobody_waits() -> Fault {
    Fault::internal("the client is gone")
}

fn wait_is_over() -> Fault {
    Fault::new(
        Code::ShuttingDown,
        "the daemon ends and the wait with it; what was sent stays sent, and mail.await_reply finds a reply later",
    )
}
