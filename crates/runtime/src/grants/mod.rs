//! Grants: who else may create sessions here, with which token, and which sessions are theirs.
//!
//! A grant is one private file with the hash of its token, what it allows, and the sessions that
//! were created under it. The file is written before a session's host starts, so whatever becomes
//! of the daemon, the next one knows which sessions end with the grant. A grant that is over is kept
//! for a while, so that its holder is told why it is refused.
//!
//! [`rules`] decides what a request under a grant may do; [`ending`] ends what was under one.

pub(crate) mod ending;
pub(crate) mod reach;
pub(crate) mod rules;
mod store;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use trl_protocol::grant::{GrantRow, GrantState};
use trl_protocol::isolation::Profile;
use trl_protocol::session::SessionLimits;
use trl_protocol::{Code, Fault, SessionId};

use store::Store;

/// Sessions of a grant that are remembered; those that live are never forgotten.
const REMEMBERED: usize = 256;

/// One grant, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// Of this format.
    pub(crate) version: u32,
    pub(crate) id: String,
    /// Who may use it.
    pub(crate) agent: Party,
    /// The agent of this daemon that granted it.
    pub(crate) granted_by: Party,
    pub(crate) profile: Profile,
    pub(crate) limits: SessionLimits,
    pub(crate) max_sessions: Option<usize>,
    pub(crate) working_dir: Option<String>,
    /// Milliseconds since 1970, as all moments here.
    pub(crate) created_at: i64,
    pub(crate) expires_at: Option<i64>,
    pub(crate) revoked_at: Option<i64>,
    /// Of the token, in hex. The token itself is nowhere in this daemon.
    pub(crate) token_sha256: String,
    /// Created under it, oldest first.
    pub(crate) sessions: Vec<SessionId>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Party {
    pub(crate) name: String,
    pub(crate) address: String,
}

impl Grant {
    pub(crate) fn state(&self, now: i64) -> GrantState {
        match (self.revoked_at, self.expires_at) {
            (Some(_), _) => GrantState::Revoked,
            (None, Some(end)) if end <= now => GrantState::Expired,
            (None, _) => GrantState::Active,
        }
    }

    /// A refusal by this grant: who granted it, to whom, and why it does not allow this.
    pub(crate) fn refuse(&self, why: &str) -> Fault {
        let Grant { id, agent, granted_by, .. } = self;
        let message = format!(
            "refused by {} ({}): the grant {id} to {} {why}",
            granted_by.name, granted_by.address, agent.name
        );
        Fault::new(Code::AuthFailed, message).with_details(serde_json::json!({
            "grant_id": id,
            "granted_by": granted_by.address,
            "granted_to": agent.address,
        }))
    }

    fn check_active(&self, now: i64) -> Result<(), Fault> {
        match self.state(now) {
            GrantState::Active => Ok(()),
            GrantState::Expired => {
                Err(self.refuse(&format!("expired at {}; ask for a new one", moment(self.expires_at))))
            }
            GrantState::Revoked => Err(self.refuse(&format!("was revoked at {}", moment(self.revoked_at)))),
        }
    }
}

fn moment(at: Option<i64>) -> String {
    at.map(rfc3339).unwrap_or_default()
}

pub(crate) fn rfc3339(ms: i64) -> String {
    format!("{:.3}", jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

pub(crate) fn token_hash(token: &[u8]) -> String {
    Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Which grant a client uses. Whether it still holds is looked at with every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantKey {
    pub(crate) id: Arc<str>,
}

impl GrantKey {
    pub fn id(&self) -> &str {
        &self.id
    }
}

#[derive(Debug)]
pub(crate) struct Grants {
    store: Store,
    all: Mutex<HashMap<String, Grant>>,
    /// Counts changes of what is granted.
    changes: watch::Sender<u64>,
}

impl Grants {
    /// With what an earlier daemon left.
    pub(crate) fn load(dir: PathBuf) -> Grants {
        let store = Store::new(dir);
        let all = store.read_all(now_ms()).into_iter().map(|grant| (grant.id.clone(), grant)).collect();
        Grants { store, all: Mutex::new(all), changes: watch::Sender::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Grant>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is granted has changed.
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The grant of this token; an error if it is over. The hashes are looked up, not compared in constant time:
    /// who learns how much of a hash matches is no nearer to the token.
    pub(crate) fn of_token(&self, token: &[u8]) -> Option<Result<GrantKey, Fault>> {
        let hash = token_hash(token);
        let all = self.lock();
        let grant = all.values().find(|grant| grant.token_sha256 == hash)?;
        Some(grant.check_active(now_ms()).map(|()| GrantKey { id: grant.id.as_str().into() }))
    }

    /// The grant as it is now; an error if it is over.
    pub(crate) fn active(&self, key: &GrantKey) -> Result<Grant, Fault> {
        let all = self.lock();
        let grant = all.get(&*key.id).ok_or_else(|| unknown(&key.id))?;
        grant.check_active(now_ms())?;
        Ok(grant.clone())
    }

    /// Stores a new grant; it holds once this returns.
    pub(crate) fn add(&self, grant: Grant) -> Result<(), Fault> {
        self.store.write(&grant).map_err(|error| not_stored(&error))?;
        self.lock().insert(grant.id.clone(), grant);
        self.changed();
        Ok(())
    }

    /// Takes back a grant that nobody has heard of.
    pub(crate) fn discard(&self, id: &str) {
        self.lock().remove(id);
        self.store.remove(id);
    }

    /// Marks a grant as revoked, durably. From then on no session can be created under it. One that is over
    /// already stays as it is.
    pub(crate) fn revoke(&self, id: &str) -> Result<Grant, Fault> {
        let mut all = self.lock();
        let Some(grant) = all.get_mut(id) else { return Err(unknown(id)) };
        if grant.revoked_at.is_none() {
            let revoked = Grant { revoked_at: Some(now_ms()), ..grant.clone() };
            self.store.write(&revoked).map_err(|error| not_stored(&error))?;
            *grant = revoked;
        }
        let grant = grant.clone();
        drop(all);
        self.changed();
        Ok(grant)
    }

    /// Notes to whom a new session belongs, before its host starts. `is_present` tells which sessions live.
    pub(crate) fn claim(
        &self,
        session: SessionId,
        key: Option<&GrantKey>,
        is_present: impl Fn(SessionId) -> bool,
    ) -> Result<(), Fault> {
        let mut all = self.lock();
        // An id that somebody had long ago is nobody's any more.
        for grant in all.values_mut().filter(|grant| grant.sessions.contains(&session)) {
            grant.sessions.retain(|known| *known != session);
            self.store.write_soon(grant).map_err(|error| not_stored(&error))?;
        }
        let Some(key) = key else { return Ok(()) };
        let grant = all.get_mut(&*key.id).ok_or_else(|| unknown(&key.id))?;
        grant.check_active(now_ms())?;
        let living = grant.sessions.iter().filter(|known| is_present(**known)).count();
        if grant.max_sessions.is_some_and(|most| living >= most) {
            let fault = grant.refuse(&format!("allows {living} sessions at a time, and there are as many"));
            return Err(Fault { code: Code::MaxSessionsReached, ..fault });
        }
        grant.sessions.push(session);
        let mut surplus = grant.sessions.len().saturating_sub(REMEMBERED);
        grant.sessions.retain(|known| {
            let is_forgotten = surplus > 0 && *known != session && !is_present(*known);
            surplus -= usize::from(is_forgotten);
            !is_forgotten
        });
        self.store.write_soon(grant).map_err(|error| {
            grant.sessions.retain(|known| *known != session);
            not_stored(&error)
        })
    }

    pub(crate) fn owns(&self, key: &GrantKey, session: SessionId) -> bool {
        self.lock().get(&*key.id).is_some_and(|grant| grant.sessions.contains(&session))
    }

    /// Whether the grant that this session was created under is over.
    pub(crate) fn is_over(&self, session: SessionId) -> bool {
        let now = now_ms();
        self.lock()
            .values()
            .any(|grant| grant.sessions.contains(&session) && grant.state(now) != GrantState::Active)
    }

    /// Why a session ended that was created under a grant which is over.
    pub(crate) fn why_over(&self, session: SessionId) -> Option<String> {
        let now = now_ms();
        let all = self.lock();
        let grant = all.values().find(|grant| grant.sessions.contains(&session))?;
        let Grant { id, agent, granted_by, .. } = grant;
        let what =
            format!("the grant {id} of {} ({}) to {}", granted_by.name, granted_by.address, agent.name);
        match grant.state(now) {
            GrantState::Active => None,
            GrantState::Expired => Some(format!("{what} expired at {}", moment(grant.expires_at))),
            GrantState::Revoked => Some(format!("{what} was revoked at {}", moment(grant.revoked_at))),
        }
    }

    /// Every grant that is over, with the sessions that were under it.
    pub(crate) fn over(&self) -> Vec<Grant> {
        let now = now_ms();
        self.lock().values().filter(|grant| grant.state(now) != GrantState::Active).cloned().collect()
    }

    /// When the next one expires.
    pub(crate) fn next_expiry(&self) -> Option<i64> {
        let now = now_ms();
        let all = self.lock();
        all.values()
            .filter(|grant| grant.state(now) == GrantState::Active)
            .filter_map(|it| it.expires_at)
            .min()
    }

    /// All, oldest first. `is_present` tells which sessions live.
    pub(crate) fn rows(&self, is_present: impl Fn(SessionId) -> bool) -> Vec<GrantRow> {
        let now = now_ms();
        let mut all: Vec<Grant> = self.lock().values().cloned().collect();
        all.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        all.into_iter()
            .map(|grant| GrantRow {
                state: grant.state(now),
                grant_id: grant.id,
                agent: grant.agent.name,
                address: grant.agent.address,
                granted_by: grant.granted_by.name,
                profile: grant.profile,
                limits: grant.limits,
                max_sessions: grant.max_sessions,
                working_dir: grant.working_dir,
                created_at: rfc3339(grant.created_at),
                expires_at: grant.expires_at.map(rfc3339),
                revoked_at: grant.revoked_at.map(rfc3339),
                sessions: grant.sessions.into_iter().filter(|id| is_present(*id)).collect(),
            })
            .collect()
    }
}

fn unknown(id: &str) -> Fault {
    let shown: String = id.chars().take(80).collect();
    Fault::invalid(format!("there is no grant {shown:?}; `runtime.grants` lists them"))
        .with_details(serde_json::json!({ "field": "grant_id" }))
}

fn not_stored(error: &std::io::Error) -> Fault {
    Fault::refused_by_system("the grant could not be stored", error)
}

#[cfg(test)]
mod tests;
