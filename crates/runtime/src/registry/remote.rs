//! Sessions of other daemons among those of this one: the same names, the same limit.

use std::sync::Arc;

use trl_protocol::Fault;

use super::{Registry, Reservation, Slot, name_taken};
use crate::remote::RemoteSession;

impl Registry {
    /// Enters a session of another daemon that an earlier daemon here had made.
    pub(crate) fn recall_remote(&self, session: Arc<RemoteSession>) {
        let mut tables = self.lock();
        if tables.slots.contains_key(&session.id) {
            return;
        }
        if let Some(name) = session.info().name {
            tables.names.entry(name).or_insert(session.id);
        }
        tables.slots.insert(session.id, Slot::Remote(session));
    }

    /// The session of another daemon that an id or a name stands for.
    pub(crate) fn remote(&self, named: &str) -> Option<Arc<RemoteSession>> {
        let tables = self.lock();
        let id = named.parse().ok().or_else(|| tables.names.get(named).copied())?;
        match tables.slots.get(&id)? {
            Slot::Remote(session) => Some(Arc::clone(session)),
            Slot::Creating(_) | Slot::Living(_) => None,
        }
    }

    /// Those of one daemon.
    pub(crate) fn remote_on(&self, runtime: &str) -> Vec<Arc<RemoteSession>> {
        let mut sessions = self.all_remote();
        sessions.retain(|session| session.daemon.name() == runtime);
        sessions
    }

    pub(crate) fn all_remote(&self) -> Vec<Arc<RemoteSession>> {
        let tables = self.lock();
        let remote = tables.slots.values().filter_map(|slot| match slot {
            Slot::Remote(session) => Some(Arc::clone(session)),
            Slot::Creating(_) | Slot::Living(_) => None,
        });
        remote.collect()
    }

    /// Gives a session of another daemon this name here, and no other.
    pub(crate) fn rename_remote(&self, name: &str, session: &RemoteSession) -> Result<(), Fault> {
        let mut tables = self.lock();
        if let Some(holder) = tables.names.get(name).filter(|holder| **holder != session.id) {
            return Err(name_taken(name, *holder));
        }
        if tables.slots.contains_key(&session.id) {
            tables.free_names(session.id);
            tables.names.insert(name.to_owned(), session.id);
        }
        Ok(())
    }
}

impl Reservation {
    /// Fills it with a session of another daemon, which has the id that it got there.
    pub(crate) fn fill_remote(self, session: Arc<RemoteSession>) -> Result<(), Fault> {
        let mut tables = self.registry.lock();
        if tables.slots.contains_key(&session.id) {
            return Err(Fault::internal(format!("two sessions have the id {}; try again", session.id)));
        }
        for holder in tables.names.values_mut().filter(|holder| **holder == self.id) {
            *holder = session.id;
        }
        tables.slots.insert(session.id, Slot::Remote(session));
        // The place that was held is given back as this is dropped; its name has another holder now.
        Ok(())
    }
}
