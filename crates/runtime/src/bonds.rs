//! What ends with a client's connection because the client asked for that.
//!
//! A session or a command goes on without its client, unless it was bound to a
//! connection. However that connection ends, by a closed client or a killed one, what
//! was bound to it ends; only the daemon's own end is no reason, since the client is
//! still there and binds anew to the next daemon.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use trl_protocol::{ExecId, Fault, SessionId};

use crate::caller::Caller;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Bond {
    Session(SessionId),
    Exec(ExecId),
}

#[derive(Debug, Default)]
pub(crate) struct Bonds(Mutex<HashMap<u64, HashSet<Bond>>>);

impl Bonds {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, HashSet<Bond>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thing is bound to at most one connection: the last that asked.
    pub(crate) fn set(&self, bond: Bond, bound: bool, caller: &Caller) -> Result<(), Fault> {
        let mut all = self.lock();
        if !bound {
            for bonds in all.values_mut() {
                bonds.remove(&bond);
            }
            return Ok(());
        }
        let Some(connection) = caller.connection else {
            return Err(Fault::invalid(
                "binding needs a connection that stays: the Unix socket, stdio or a WebSocket",
            ));
        };
        for bonds in all.values_mut() {
            bonds.remove(&bond);
        }
        all.entry(connection).or_default().insert(bond);
        Ok(())
    }

    /// All that was bound to a connection which is over.
    pub(crate) fn cut(&self, connection: u64) -> HashSet<Bond> {
        self.lock().remove(&connection).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Presence;

    #[test]
    fn the_last_connection_that_asked_holds_the_bond() {
        let bonds = Bonds::default();
        let bond = Bond::Session(SessionId(7));
        let on = |connection| Presence::on(connection).caller(None);
        bonds.set(bond, true, &on(1)).unwrap();
        bonds.set(bond, true, &on(2)).unwrap();
        assert!(bonds.cut(1).is_empty());
        assert_eq!(bonds.cut(2), HashSet::from([bond]));
        assert!(bonds.cut(2).is_empty());
    }

    #[test]
    fn anyone_may_let_go_but_only_a_connection_can_hold() {
        let bonds = Bonds::default();
        let bond = Bond::Session(SessionId(7));
        let nowhere = Presence::new().caller(None);
        assert!(bonds.set(bond, true, &nowhere).is_err());
        bonds.set(bond, true, &Presence::on(1).caller(None)).unwrap();
        bonds.set(bond, false, &nowhere).unwrap();
        assert!(bonds.cut(1).is_empty());
    }
}
