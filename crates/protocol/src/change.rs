//! What happens in a daemon, as `events.subscribe` tells it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exec::ExecState;
use crate::{ExecId, SessionId};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SubscribeParams {
    /// Only changes of these; default: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topics: Option<Vec<Topic>>,
    /// From this sequence number on; default: from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Only changes on this daemon itself, none of sessions on other daemons.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    Session,
    Exec,
    Agent,
    Mail,
    Net,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A session or an agent is there.
    Created,
    /// A session ended as it should.
    Ended,
    /// A session's host is gone.
    Lost,
    /// A session has a new shell.
    Restarted,
    /// A session has a new name.
    Renamed,
    /// A command waits for its turn.
    Queued,
    /// A command runs.
    Started,
    /// A command is over.
    Finished,
    /// A session of an agent is there.
    Present,
    /// A session of an agent is over.
    Released,
    /// A message was accepted.
    Sent,
    /// Messages were handed to their session.
    Read,
    /// A session was connected to a host on its list.
    Allowed,
    /// A session was not connected to a host.
    Refused,
}

/// One change. What it is not about is left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeEvent {
    /// Larger with every change, also across restarts of the daemon.
    pub seq: u64,
    /// RFC 3339, UTC, milliseconds.
    pub at: String,
    pub topic: Topic,
    pub change: Change,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The runtime that the session is on, if that is another daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exec_id: Option<ExecId>,
    /// Of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ExecState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancelled: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// That a session wanted to reach: `name:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Why a session ended, or why a host was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl ChangeEvent {
    /// A change without its place in the order, which is given when it is told.
    pub fn new(topic: Topic, change: Change) -> ChangeEvent {
        ChangeEvent {
            seq: 0,
            at: String::new(),
            topic,
            change,
            session_id: None,
            name: None,
            runtime: None,
            exec_id: None,
            state: None,
            background: None,
            exit_code: None,
            signal: None,
            timed_out: None,
            cancelled: None,
            agent: None,
            label: None,
            message_id: None,
            host: None,
            reason: None,
        }
    }
}

/// The subscription holds: every change from this one on will be told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubscribedEvent {
    pub next: u64,
}

/// Changes from `from` up to, not with, `to` are no longer known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MissedEvent {
    pub from: u64,
    pub to: u64,
}

/// The daemon ends; a later subscription may go on from `next`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionOver {
    pub events: u64,
    pub next: u64,
}
