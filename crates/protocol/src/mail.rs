//! Mail: what is asked about messages and what is answered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Token;

/// What somebody wrote. `Debug` tells its length only, so that no log tells what it says.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text(pub String);

impl std::ops::Deref for Text {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(text)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.to_owned())
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Text(text) = self;
        write!(f, "[{} bytes]", text.len())
    }
}

/// Params of requests that are made in a session's name: each also takes its token.
macro_rules! in_a_sessions_name {
    ($($(#[$about:meta])* pub struct $name:ident { $($fields:tt)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($fields)*
            /// The token of `agent.use`, on a connection that is not bound.
            #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
            pub as_token: Option<Token>,
        }
    )*};
}

mod autorespond;

pub use autorespond::{AnswerCommand, Autorespond, AutorespondParams, Switch};

/// Both ways of sending say the same about the message. (serde can flatten one struct into
/// another only where unknown fields are let through.)
macro_rules! letters {
    ($($(#[$about:meta])* pub struct $name:ident { $($more:tt)* })*) => {$(
        in_a_sessions_name! {
            $(#[$about])*
            pub struct $name {
                /// A petname or address; `name/label` is short for `to_session`.
                pub to: String,
                #[schemars(with = "String")]
                pub text: Text,
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub to_session: Option<String>,
                /// `user` or `agent`.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub role: Option<String>,
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub in_reply_to: Option<String>,
                /// A machine wrote it by itself; nobody answers it by itself.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub auto: Option<bool>,
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub expires_s: Option<f64>,
                /// The caller's own id: the same one again is the same message. 1 to 64 of A-Z a-z 0-9 . _ : -
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub send_id: Option<String>,
                /// If the session has sent the same message within so many seconds, it is not sent again: the answer tells of the first.
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub unless_sent_within_s: Option<f64>,
                $($more)*
            }
        }
    )*};
}

/// Where a message is on its way, as far as its sender can know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Stored here, not yet encrypted.
    Queued,
    /// Encrypted and stored.
    Sealed,
    /// The relay has it.
    Relayed,
    /// The recipient's daemon has stored it.
    Delivered,
    /// No session may take it yet.
    Held,
    /// In a session's inbox.
    Routed,
    /// Handed to a reader that has not acknowledged it.
    Offered,
    Read,
    Replied,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailReason {
    UnknownRecipient,
    NotContact,
    Blocked,
    MailboxFull,
    TooLarge,
    RateLimited,
    Expired,
    SessionClosed,
    /// The recipient's policy takes no mail without a session's name.
    Dropped,
    /// The recipient could not decrypt it, also after a new key exchange.
    Undecryptable,
}

letters! {
    pub struct SendParams {}
    pub struct SendAndWaitParams {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub timeout_s: Option<f64>,
        /// The reply does not count as read by this.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub peek: bool,
    }
}

impl SendAndWaitParams {
    /// What is sent, and how the reply is waited for.
    pub fn split(self) -> (SendParams, AwaitParams) {
        let SendAndWaitParams {
            to,
            text,
            to_session,
            role,
            in_reply_to,
            auto,
            expires_s,
            send_id,
            unless_sent_within_s,
            timeout_s,
            peek,
            as_token,
        } = self;
        let awaited = AwaitParams { timeout_s, peek, as_token: as_token.clone(), ..AwaitParams::default() };
        let send = SendParams {
            to,
            text,
            to_session,
            role,
            in_reply_to,
            auto,
            expires_s,
            send_id,
            unless_sent_within_s,
            as_token,
        };
        (send, awaited)
    }
}

in_a_sessions_name! {
    /// Params of requests that name one message.
    pub struct MessageParams {
        pub message_id: String,
    }

    pub struct InboxParams {
        /// Look without taking.
        #[serde(default)]
        pub peek: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub limit: Option<usize>,
        /// Wait this long for the first message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub wait_s: Option<f64>,
        /// Acknowledge exactly these; without it, whatever the last call handed out.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub ack: Option<Vec<String>>,
    }

    /// Whose mail: the caller's session, or that of a harness session.
    pub struct NoticesParams {
        /// The session of this harness session, instead of the caller's own. For hooks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub harness_session_id: Option<String>,
        /// The processes above the caller, nearest first. A harness that goes on under another id keeps its servers: where
        /// `harness_session_id` is of no live session, the session whose server one of these has started is meant.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub harness_pids: Vec<u32>,
        /// The agent that the harness session will speak for, if it has none yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub agent: Option<String>,
        /// Its project directory, which may have an agent assigned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub project: Option<String>,
        /// Wait this long for a message that nobody has announced.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub wait_s: Option<f64>,
        /// Not these: the caller knows of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub known: Vec<String>,
        /// What is answered counts as announced: nobody else announces it to this session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub claim: bool,
        /// These were announced by the caller.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub announced: Vec<String>,
        /// The announcement starts a turn of the harness. Only so many do until its user has said something.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub wake: bool,
        /// Messages that the agent's auto-responder may answer go to it, if it is on, instead of being told.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub respond: bool,
        /// The caller waits to wake the harness session; a later one replaces it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub waiter: bool,
        /// The user of the harness has said something.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub prompted: bool,
    }

    pub struct CheckParams {
        pub message_id: String,
        /// The reply does not count as read by this.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub peek: bool,
    }

    pub struct AwaitParams {
        pub message_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub timeout_s: Option<f64>,
        /// The reply does not count as read by this.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub peek: bool,
    }

    pub struct ReplyParams {
        /// A message of the caller's inbox.
        pub message_id: String,
        #[schemars(with = "String")]
        pub text: Text,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub auto: Option<bool>,
        /// Must be who wrote the message; `name/label` is one session of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub to: Option<String>,
        /// The caller's own id: the same one again is the same answer. 1 to 64 of A-Z a-z 0-9 . _ : -
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub send_id: Option<String>,
        /// As in `mail.send`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub unless_sent_within_s: Option<f64>,
    }

    pub struct ResetParams {
        /// A petname or an address.
        pub who: String,
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    pub message_id: String,
    pub state: State,
    /// The relay that carries it.
    pub via: String,
    pub from_session: String,
    pub to_session: Option<String>,
    /// The same message had been sent within `unless_sent_within_s`, and was not sent again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryRow {
    pub state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailReason>,
    pub at: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    pub message_id: String,
    pub state: State,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailReason>,
    pub history: Vec<HistoryRow>,
}

/// A message as its reader sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Unique in this agent's mail and safe to print.
    pub message_id: String,
    /// The sender's petname, else its address.
    pub from: String,
    /// Checked: the message was encrypted by this identity's device.
    pub from_address: String,
    pub from_session: Option<String>,
    pub to_session: Option<String>,
    pub role: Option<String>,
    #[schemars(with = "String")]
    pub text: Text,
    pub in_reply_to: Option<String>,
    pub auto: bool,
    pub timestamp: String,
    /// Names of fields that the sender filled with something unsafe; they were dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<String>,
}

/// Ids of messages, whoever chose them: 1 to 64 of `A-Z a-z 0-9 . _ : -`. Safe in a line, a path and a query.
pub fn is_safe_id(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:-".contains(&b))
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inbox {
    pub messages: Vec<Message>,
    pub remaining: u64,
}

/// A message that waits to be read: who wrote it, never what it says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    pub message_id: String,
    /// The sender's petname, else its address.
    pub from: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_session: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notices {
    /// Messages that nobody has announced to this session, oldest first.
    pub new: Vec<Notice>,
    /// All that wait for this session.
    pub unread: u64,
    /// Missing if the harness session speaks for no agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// A process waits to wake this session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_waiter: bool,
    /// The caller was a waiter, and another has taken its place or the harness session has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedReply {
    pub reply: Option<Message>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AwaitedReply {
    pub message_id: String,
    pub reply: Option<Message>,
    pub timed_out: bool,
    /// No reply can come: the message itself failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailReason>,
}

/// An event of `mail.subscribe`: counts and ids, never a body.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MailEvent {
    pub count: u64,
    pub ids: Vec<String>,
}

/// How `mail.subscribe` is answered when the daemon ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubscriptionOver {
    /// How many events were sent.
    pub events: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldRow {
    pub message_id: String,
    pub from: String,
    pub to_session: Option<String>,
    pub since: String,
    /// When it goes back to its sender.
    pub bounces_at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    pub messages: Vec<HeldRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    pub message_id: Option<String>,
    pub from: String,
    pub reason: String,
    pub at: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetters {
    pub dead_letters: Vec<DeadLetter>,
}

/// New keys are exchanged with a peer; what it has not confirmed is sealed and sent again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reset {
    pub who: String,
    pub address: String,
    /// Messages that are sent again.
    pub resent: u64,
}
