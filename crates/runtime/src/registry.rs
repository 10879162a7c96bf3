//! Which sessions there are, by id and by name, and which there were.
//!
//! A session is entered before its host starts and removed when its host ends. Names are
//! unique among living sessions. Sessions that are over are remembered for a while, so that
//! a client hears that its session ended rather than that it never existed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trl_protocol::request::nearest;
use trl_protocol::session::{SessionInfo, SessionState};
use trl_protocol::{Code, ExecId, Fault, SessionId};

use crate::backend::Backend;
use crate::link::{End, damage_text, session_over};
use crate::remote::RemoteSession;
use crate::session::Session;

/// Temporary sessions at a time: they do not count against the daemon's limit.
const MAX_TEMPORARY: usize = 256;
/// Sessions that are over and still remembered.
const REMEMBERED: usize = 1000;

#[derive(Debug)]
enum Slot {
    /// Its host is being started.
    Creating(Option<Box<SessionInfo>>),
    Living(Arc<Session>),
    /// Another daemon's, made for this one.
    Remote(Arc<RemoteSession>),
}

/// A session that is over.
#[derive(Debug, Clone)]
struct Past {
    id: SessionId,
    name: Option<String>,
    end: End,
    info: SessionInfo,
    /// Missing for one of another daemon: nothing of it is here.
    backend: Option<Arc<dyn Backend>>,
}

impl Past {
    /// Whether something of it may be left to read or to remove.
    fn is_lost(&self) -> bool {
        matches!(self.end, End::Lost | End::Damaged { .. })
    }
}

#[derive(Debug, Default)]
struct Tables {
    slots: HashMap<SessionId, Slot>,
    names: HashMap<String, SessionId>,
    /// Sessions that do not count against the limit.
    temporary: HashSet<SessionId>,
    past: VecDeque<Past>,
}

#[derive(Debug)]
pub(crate) struct Registry {
    max_sessions: usize,
    tables: Mutex<Tables>,
}

/// What an id or a name stands for.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Living(Arc<Session>),
    Creating(SessionId, Option<Box<SessionInfo>>),
    Past {
        end: End,
        info: Box<SessionInfo>,
        backend: Arc<dyn Backend>,
    },
    /// Requests for it are forwarded to its daemon (`remote/forward.rs`).
    Remote(Arc<RemoteSession>),
    /// Of another daemon, and over.
    RemotePast(SessionId, End),
}

impl Found {
    /// What is said to those who need a living session and found this.
    pub(crate) fn refusal(&self) -> Fault {
        match self {
            Found::Living(session) => Fault::internal(format!("session {} is alive", session.id)),
            Found::Creating(id, _) => {
                Fault::new(Code::SessionBusy, format!("session {id} is still being created"))
            }
            Found::Past { end, info, .. } => session_over(info.session_id, end),
            // It came into being after the request was looked at.
            Found::Remote(session) => Fault::new(
                Code::SessionBusy,
                format!("session {} has just been created; ask again", session.id),
            ),
            Found::RemotePast(id, end) => session_over(*id, end),
        }
    }
}

impl Registry {
    pub(crate) fn new(max_sessions: usize) -> Registry {
        Registry { max_sessions, tables: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a temporary session, which does not count against the limit.
    pub(crate) fn reserve_temporary(self: &Arc<Self>, id: SessionId) -> Result<Reservation, Fault> {
        let mut tables = self.lock();
        if tables.temporary.len() >= MAX_TEMPORARY {
            return Err(Fault::new(
                Code::ResourcePressure,
                format!(
                    "{MAX_TEMPORARY} commands run in temporary sessions already; \
                     wait for one to end, or use a session of your own"
                ),
            ));
        }
        tables.slots.insert(id, Slot::Creating(None));
        tables.temporary.insert(id);
        Ok(Reservation { registry: Arc::clone(self), id, done: false })
    }

    /// Takes a place for a new session; dropped, the place is free again.
    pub(crate) fn reserve(self: &Arc<Self>, name: Option<&str>, id: SessionId) -> Result<Reservation, Fault> {
        let mut tables = self.lock();
        if tables.slots.contains_key(&id) {
            return Err(Fault::new(Code::SessionBusy, format!("session {id} is already being started")));
        }
        if tables.slots.len() - tables.temporary.len() >= self.max_sessions {
            let limit = self.max_sessions;
            return Err(Fault::new(
                Code::MaxSessionsReached,
                format!(
                    "there are already {limit} sessions, as many as this daemon allows; \
                     end one with session.destroy, or start the daemon with a larger TRL_MAX_SESSIONS"
                ),
            )
            .with_details(serde_json::json!({ "max_sessions": limit })));
        }
        if let Some(holder) = name.and_then(|name| tables.names.get(name)) {
            let name = name.unwrap_or_default();
            return Err(name_taken(name, *holder));
        }
        tables.slots.insert(id, Slot::Creating(None));
        if let Some(name) = name {
            tables.names.insert(name.to_owned(), id);
        }
        Ok(Reservation { registry: Arc::clone(self), id, done: false })
    }

    /// An id that no session has or had.
    pub(crate) fn is_free(&self, id: SessionId) -> bool {
        let tables = self.lock();
        !tables.slots.contains_key(&id) && tables.past.iter().all(|past| past.id != id)
    }

    /// Whether a session lives or is about to.
    pub(crate) fn is_present(&self, id: SessionId) -> bool {
        self.lock().slots.contains_key(&id)
    }

    /// Enters a session whose host was found alive.
    pub(crate) fn adopt(&self, session: Arc<Session>) {
        let mut tables = self.lock();
        if let Some(name) = session.last_info().name {
            tables.names.insert(name, session.id);
        }
        tables.slots.insert(session.id, Slot::Living(session));
    }

    /// Gives a session a second name until [`Registry::keep_name`] decides between the two. Returns the first.
    pub(crate) fn add_name(&self, name: &str, session: &Arc<Session>) -> Result<Option<String>, Fault> {
        let mut tables = self.lock();
        let holder = tables.names.get(name).copied();
        if let Some(holder) = holder.filter(|holder| *holder != session.id) {
            return Err(name_taken(name, holder));
        }
        let old =
            tables.names.iter().find(|(_, holder)| **holder == session.id).map(|(name, _)| name.clone());
        // One that has just ended gets no name any more.
        if tables.has(session) {
            tables.names.insert(name.to_owned(), session.id);
        }
        Ok(old)
    }

    /// Leaves a session only this name.
    pub(crate) fn keep_name(&self, name: Option<String>, session: &Arc<Session>) {
        let mut tables = self.lock();
        if tables.has(session) {
            tables.free_names(session.id);
            tables.names.extend(name.map(|name| (name, session.id)));
        }
    }

    /// Moves a session to those that are over, with what was last known of it.
    pub(crate) fn remove(&self, info: SessionInfo, end: End) {
        let mut tables = self.lock();
        tables.temporary.remove(&info.session_id);
        let runtime = match tables.slots.remove(&info.session_id) {
            Some(Slot::Living(session)) => {
                (session.backend.display_name().to_owned(), Some(Arc::clone(&session.backend)))
            }
            Some(Slot::Remote(session)) => (session.daemon.name().to_owned(), None),
            Some(Slot::Creating(_)) | None => return,
        };
        tables.free_names(info.session_id);
        tables.remember(info, end, runtime);
    }

    /// Enters a session that is known only by what it left.
    pub(crate) fn enter_past(&self, info: SessionInfo, end: End, backend: &Arc<dyn Backend>) {
        let mut tables = self.lock();
        if !tables.slots.contains_key(&info.session_id) {
            tables.remember(info, end, (backend.display_name().to_owned(), Some(Arc::clone(backend))));
        }
    }

    /// Makes a lost session one that is over for good; false if there is no such lost one.
    pub(crate) fn bury(&self, id: SessionId, reason: &str) -> bool {
        let mut tables = self.lock();
        let lost = tables.past.iter_mut().find(|past| past.id == id && past.is_lost());
        let Some(past) = lost else { return false };
        past.end = End::Ended { reason: reason.to_owned() };
        past.info.state = SessionState::Terminated;
        true
    }

    /// By id or by name; the living come before the dead.
    pub(crate) fn find(&self, named: &str) -> Result<Found, Fault> {
        let tables = self.lock();
        let id = named.parse().ok().or_else(|| tables.names.get(named).copied());
        match id.and_then(|id| tables.slots.get(&id).map(|slot| (id, slot))) {
            Some((_, Slot::Living(session))) => return Ok(Found::Living(Arc::clone(session))),
            Some((id, Slot::Creating(info))) => return Ok(Found::Creating(id, info.clone())),
            Some((_, Slot::Remote(session))) => return Ok(Found::Remote(Arc::clone(session))),
            None => {}
        }
        let is_meant = |past: &&Past| Some(past.id) == id || past.name.as_deref() == Some(named);
        match tables.past.iter().rev().find(is_meant) {
            Some(past) => Ok(match &past.backend {
                Some(backend) => Found::Past {
                    end: past.end.clone(),
                    info: Box::new(past.info.clone()),
                    backend: Arc::clone(backend),
                },
                None => Found::RemotePast(past.id, past.end.clone()),
            }),
            None => Err(tables.unknown(named)),
        }
    }

    /// A session that can be spoken to.
    pub(crate) fn living(&self, named: &str) -> Result<Arc<Session>, Fault> {
        match self.find(named)? {
            Found::Living(session) => Ok(session),
            other => Err(other.refusal()),
        }
    }

    /// The living session of a command, and the command's number there.
    pub(crate) fn of_exec(&self, written: &str) -> Result<(Arc<Session>, u64), Fault> {
        match self.find_exec(written)? {
            (Found::Living(session), number) => Ok((session, number)),
            (other, _) => Err(other.refusal()),
        }
    }

    /// The session of a command, living or not, and the command's number there.
    pub(crate) fn find_exec(&self, written: &str) -> Result<(Found, u64), Fault> {
        let unknown = |message: String| {
            Fault::new(Code::ExecNotFound, message).with_details(serde_json::json!({ "exec_id": written }))
        };
        let exec: ExecId = written.parse().map_err(|_| {
            let shown: String = written.chars().take(80).collect();
            unknown(format!("there is no command {shown:?}; ids look like e-0123abcd-1"))
        })?;
        let found = self.find(&exec.session.to_string()).map_err(|fault| match fault.code {
            Code::SessionNotFound => {
                unknown(format!("there is no command {exec}: this daemon has no session {}", exec.session))
            }
            _ => fault,
        })?;
        Ok((found, exec.number))
    }

    pub(crate) fn all_living(&self) -> Vec<Arc<Session>> {
        let tables = self.lock();
        let living = tables.slots.values().filter_map(|slot| match slot {
            Slot::Living(session) => Some(Arc::clone(session)),
            Slot::Creating(_) | Slot::Remote(_) => None,
        });
        living.collect()
    }

    /// What is known of sessions that have no host: not yet, or lost.
    pub(crate) fn hostless(&self) -> Vec<SessionInfo> {
        let tables = self.lock();
        let creating = tables.slots.values().filter_map(|slot| match slot {
            Slot::Creating(info) => info.as_deref().cloned(),
            Slot::Living(_) | Slot::Remote(_) => None,
        });
        let is_lost = |past: &&Past| past.is_lost() && !tables.slots.contains_key(&past.id);
        let lost = tables.past.iter().filter(is_lost).map(|past| past.info.clone());
        creating.chain(lost).collect()
    }

    /// Sessions that live or are about to.
    pub(crate) fn count(&self) -> usize {
        self.lock().slots.len()
    }

    /// Whether a session of that backend lives or is being started.
    pub(crate) fn is_used(&self, backend: &dyn Backend) -> bool {
        self.lock().slots.values().any(|slot| match slot {
            Slot::Living(session) => session.backend.name() == backend.name(),
            Slot::Creating(Some(info)) => info.runtime.as_deref() == Some(backend.display_name()),
            Slot::Creating(None) | Slot::Remote(_) => false,
        })
    }

    /// Living sessions of one runtime.
    pub(crate) fn count_on(&self, runtime: &str) -> usize {
        let tables = self.lock();
        let is_there = |slot: &&Slot| match slot {
            Slot::Living(session) => session.backend.name() == runtime,
            Slot::Remote(session) => session.daemon.name() == runtime,
            Slot::Creating(_) => false,
        };
        tables.slots.values().filter(is_there).count()
    }
}

impl Tables {
    fn has(&self, session: &Arc<Session>) -> bool {
        matches!(self.slots.get(&session.id), Some(Slot::Living(living)) if Arc::ptr_eq(living, session))
    }

    fn free_names(&mut self, id: SessionId) {
        self.names.retain(|_, holder| *holder != id);
    }

    fn remember(
        &mut self,
        info: SessionInfo,
        end: End,
        (runtime, backend): (String, Option<Arc<dyn Backend>>),
    ) {
        let (state, damage) = match &end {
            End::Ended { .. } => (SessionState::Terminated, None),
            End::Lost => (SessionState::Lost, None),
            End::Foreign { .. } => (info.state, None),
            End::Damaged { reason } => (SessionState::Damaged, Some(damage_text(reason))),
        };
        let info = SessionInfo {
            state,
            damage,
            runtime: Some(runtime),
            pid: None,
            running: None,
            queued: 0,
            unresponsive: false,
            ..info
        };
        self.past.retain(|past| past.id != info.session_id);
        self.past.push_back(Past { id: info.session_id, name: info.name.clone(), end, info, backend });
        if self.past.len() > REMEMBERED {
            self.past.pop_front();
        }
    }

    fn unknown(&self, named: &str) -> Fault {
        let ids: HashSet<String> = self.slots.keys().map(SessionId::to_string).collect();
        let known = self.names.keys().map(String::as_str).chain(ids.iter().map(String::as_str));
        let hint = match nearest(named, known) {
            Some(near) => format!("did you mean {near:?}?"),
            None => "session.list lists them".to_owned(),
        };
        let shown: String = named.chars().take(80).collect();
        Fault::new(Code::SessionNotFound, format!("there is no session {shown:?}; {hint}"))
            .with_details(serde_json::json!({ "session_id": shown }))
    }
}

fn name_taken(name: &str, holder: SessionId) -> Fault {
    Fault::new(
        Code::NameTaken,
        format!("param `name`: {name:?} is the name of session {holder}; choose another, or end that one"),
    )
    .with_details(serde_json::json!({ "field": "name", "session_id": holder }))
}

/// A place among the sessions that is not yet filled.
#[derive(Debug)]
pub(crate) struct Reservation {
    registry: Arc<Registry>,
    pub(crate) id: SessionId,
    done: bool,
}

impl Reservation {
    /// What `session.list` tells until the host answers.
    pub(crate) fn describe(&self, info: SessionInfo) {
        self.registry.lock().slots.insert(self.id, Slot::Creating(Some(Box::new(info))));
    }

    pub(crate) fn fill(mut self, session: Arc<Session>) {
        self.done = true;
        let mut tables = self.registry.lock();
        // A session that was lost is back.
        tables.past.retain(|past| past.id != self.id);
        tables.slots.insert(self.id, Slot::Living(session));
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.done {
            let mut tables = self.registry.lock();
            tables.slots.remove(&self.id);
            tables.temporary.remove(&self.id);
            tables.free_names(self.id);
        }
    }
}

mod remote;
#[cfg(test)]
mod tests;
