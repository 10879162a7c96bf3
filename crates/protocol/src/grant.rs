//! Grants: limited access to this daemon's sessions for the agents of others.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SessionId;
use crate::isolation::Profile;
use crate::session::SessionLimits;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantParams {
    /// Who gets access: a contact's name or address.
    pub agent: String,
    /// The least isolation of sessions under this grant. Default: `workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// The most that each session under this grant may use.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "crate::request::object")]
    pub limits: Option<SessionLimits>,
    /// The grant ends after so many seconds. Default: when it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_s: Option<f64>,
    /// Most sessions under this grant at a time. Default: as many as the daemon allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sessions: Option<usize>,
    /// The directory that sessions under this grant work in. Default: a private `/tmp`; with the profile `none`, any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// The agent of this daemon that grants. Default: the first one that has `agent` as a contact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Granted {
    pub grant_id: String,
    /// The name of who got access, and the address.
    pub agent: String,
    pub address: String,
    /// The agent of this daemon that grants, and its address.
    pub granted_by: String,
    pub granted_by_address: String,
    pub profile: Profile,
    /// Where the other daemon finds this one.
    pub url: String,
    /// RFC 3339.
    pub expires_at: Option<String>,
    /// The message that carries the token; `mail.status` of the granting agent tells what became of it.
    pub message_id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeParams {
    pub grant_id: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Revoked {
    pub grant_id: String,
    pub agent: String,
    /// Sessions under the grant that were ended with it.
    pub sessions: Vec<SessionId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grants {
    /// Oldest first.
    pub grants: Vec<GrantRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrantRow {
    pub grant_id: String,
    pub state: GrantState,
    pub agent: String,
    pub address: String,
    pub granted_by: String,
    pub profile: Profile,
    pub limits: SessionLimits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_sessions: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// RFC 3339.
    pub created_at: String,
    pub expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<String>,
    /// Sessions under it that live.
    pub sessions: Vec<SessionId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GrantState {
    Active,
    Expired,
    Revoked,
}

impl GrantState {
    pub fn name(self) -> &'static str {
        match self {
            GrantState::Active => "active",
            GrantState::Expired => "expired",
            GrantState::Revoked => "revoked",
        }
    }
}
