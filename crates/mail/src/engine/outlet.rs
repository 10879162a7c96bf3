//! From the store to the pump without asking the store again.
//!
//! Every packet passes here once it is durable, in the order of sealing. The pump may take
//! them from here as long as it knows that nothing older waits in the store.

use std::sync::{Mutex, PoisonError};

use super::outbox::Due;

/// Packets that are kept here; when a relay cannot be reached, the store alone keeps them.
const KEPT: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct Outlet(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    packets: Vec<Due>,
    overflowed: bool,
}

impl Outlet {
    pub(crate) fn put(&self, sealed: &mut Vec<Due>) {
        if sealed.is_empty() {
            return;
        }
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.packets.len() + sealed.len() > KEPT {
            *waiting = Waiting { packets: Vec::new(), overflowed: true };
        }
        if !waiting.overflowed {
            waiting.packets.append(sealed);
        }
    }

    /// Everything since the last time; `None` if some of it is in the store alone.
    pub(crate) fn take(&self) -> Option<Vec<Due>> {
        let Waiting { packets, overflowed } =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (!overflowed).then_some(packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::relay::Outgoing;

    fn packet(row: i64) -> Due {
        let address = Identity::from_bytes(&[1; 32]).address().clone();
        let packet = Outgoing { from: address.clone(), to: address, id: row.to_string(), bytes: Vec::new() };
        Due { row, outbox_id: None, packet }
    }

    #[test]
    fn what_does_not_fit_is_left_to_the_store() {
        let outlet = Outlet::default();
        outlet.put(&mut vec![packet(1), packet(2)]);
        let rows: Vec<i64> = outlet.take().unwrap().into_iter().map(|due| due.row).collect();
        assert_eq!(rows, [1, 2]);
        assert!(outlet.take().unwrap().is_empty());
        outlet.put(&mut (0..1024).map(packet).collect());
        outlet.put(&mut vec![packet(2000)]);
        outlet.put(&mut vec![packet(2001)]);
        assert!(outlet.take().is_none());
        outlet.put(&mut vec![packet(2002)]);
        assert_eq!(outlet.take().unwrap().len(), 1);
    }
}
