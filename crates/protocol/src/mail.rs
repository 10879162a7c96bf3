//! Mail: what is asked about messages and what is answered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agent::Token;

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

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendParams {
    /// A petname or address; `name/label` is short for `to_session`.
    pub to: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_session: Option<String>,
    /// `user` or `agent`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_s: Option<f64>,
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    pub message_id: String,
    pub state: State,
    /// The relay that carries it.
    pub via: String,
    pub from_session: String,
    pub to_session: Option<String>,
}

/// Params of requests that name one message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageParams {
    pub message_id: String,
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
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

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
}

/// A message as its reader sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    pub text: String,
    pub in_reply_to: Option<String>,
    pub auto: bool,
    pub timestamp: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inbox {
    pub messages: Vec<Message>,
    pub remaining: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedReply {
    pub reply: Option<Message>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwaitParams {
    pub message_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
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

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendAndWaitParams {
    pub to: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_session: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_s: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplyParams {
    /// A message of the caller's inbox.
    pub message_id: String,
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto: Option<bool>,
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Switch {
    On,
    Off,
    Status,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AutorespondParams {
    pub action: Switch,
    /// Program and arguments; no shell in between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub as_token: Option<Token>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Autorespond {
    pub on: bool,
    pub command: Option<Vec<String>>,
    pub answered_today: u64,
}
