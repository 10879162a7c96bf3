//! One enum for everything that can be answered: the `data` object of a response.

use serde::Serialize;

use crate::{agent, change, contact, exec, mail, session, system};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Reply {
    Created(session::Created),
    Sessions(session::SessionList),
    Session(Box<session::SessionInfo>),
    Destroyed(session::Destroyed),
    Restarted(session::Restarted),
    SessionBound(session::Bound),
    Detached(session::Detached),
    InputTaken(session::InputTaken),
    SessionResized(session::Resized),
    Ran(Box<exec::RunReply>),
    Streamed(Box<exec::StreamReply>),
    Started(exec::Started),
    Output(exec::OutputReply),
    Written(exec::Written),
    Resized(exec::Resized),
    Screen(Box<exec::Screen>),
    Cancelled(exec::Cancelled),
    ExecBound(exec::Bound),
    Execs(exec::ExecList),
    Exec(Box<exec::ExecInfo>),
    Pong(system::Pong),
    Stats(system::Stats),
    Info(Box<system::SystemInfo>),
    Waited(Box<exec::Waited>),
    Runtimes(system::Runtimes),
    SubscriptionOver(change::SubscriptionOver),
    ShuttingDown(system::ShuttingDown),
    Mail(Box<MailReply>),
}

/// What requests about agents, mail and contacts are answered with.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum MailReply {
    Created(agent::Created),
    Agents(agent::AgentList),
    Used(agent::Used),
    Whoami(agent::Whoami),
    Sessions(agent::Sessions),
    Beat(agent::Beat),
    Released(agent::Released),
    Sent(mail::Sent),
    Status(mail::Status),
    Inbox(mail::Inbox),
    CheckedReply(mail::CheckedReply),
    AwaitedReply(mail::AwaitedReply),
    Held(mail::Held),
    DeadLetters(mail::DeadLetters),
    Autorespond(mail::Autorespond),
    Reset(mail::Reset),
    Contact(contact::ContactRow),
    Contacts(contact::ContactList),
    Presence(contact::PresenceList),
    Subscription(mail::SubscriptionOver),
}
