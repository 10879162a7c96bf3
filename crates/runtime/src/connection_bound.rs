//! Sessions and commands that end with a client's connection because the client asked for that.
//!
//! Without such a request, a session or a command goes on when its client goes away. An item
//! that is bound ends with its connection, whether the client closed it or was killed. When
//! the daemon itself ends, bound items stay: the client is still there and binds them again
//! to the next daemon.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use trl_protocol::{ExecId, Fault, SessionId};

use crate::caller::Caller;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum BoundItem {
    Session(SessionId),
    Exec(ExecId),
}

#[derive(Debug, Default)]
pub(crate) struct ConnectionBound(Mutex<HashMap<u64, HashSet<BoundItem>>>);

impl ConnectionBound {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, HashSet<BoundItem>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An item is bound to at most one connection: the last that asked.
    pub(crate) fn set(&self, item: BoundItem, bound: bool, caller: &Caller) -> Result<(), Fault> {
        let mut all = self.lock();
        if !bound {
            for items in all.values_mut() {
                items.remove(&item);
            }
            return Ok(());
        }
        let Some(connection) = caller.connection else {
            return Err(Fault::invalid(
                "binding needs a connection that stays: the Unix socket, stdio or a WebSocket",
            ));
        };
        for items in all.values_mut() {
            items.remove(&item);
        }
        all.entry(connection).or_default().insert(item);
        Ok(())
    }

    /// Removes and returns everything bound to a connection that is over.
    pub(crate) fn cut(&self, connection: u64) -> HashSet<BoundItem> {
        self.lock().remove(&connection).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Presence;

    #[test]
    fn the_last_connection_that_asked_holds_it() {
        let items = ConnectionBound::default();
        let item = BoundItem::Session(SessionId(7));
        let on = |connection| Presence::on(connection).caller(None);
        items.set(item, true, &on(1)).unwrap();
        items.set(item, true, &on(2)).unwrap();
        assert!(items.cut(1).is_empty());
        assert_eq!(items.cut(2), HashSet::from([item]));
        assert!(items.cut(2).is_empty());
    }

    #[test]
    fn anyone_may_let_go_but_only_a_connection_can_hold() {
        let items = ConnectionBound::default();
        let item = BoundItem::Session(SessionId(7));
        let nowhere = Presence::new().caller(None);
        assert!(items.set(item, true, &nowhere).is_err());
        items.set(item, true, &Presence::on(1).caller(None)).unwrap();
        items.set(item, false, &nowhere).unwrap();
        assert!(items.cut(1).is_empty());
    }
}
