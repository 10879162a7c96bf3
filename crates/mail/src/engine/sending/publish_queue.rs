//! From the store to the pump without asking the store again.
//!
//! Every packet passes here once it is durable, in the order of sealing. The pump may take
//! them from here as long as it knows that nothing older waits in the store.

use std::sync::{Mutex, PoisonError};

use crate::engine::sending::outbox::DuePacket;

/// Packets that are kept here; when a relay cannot be reached, the store alone keeps them.
const KEPT: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct PublishQueue(Mutex<QueuedPackets>);

#[derive(Debug, Default)]
struct QueuedPackets {
    packets: Vec<DuePacket>,
    overflowed: bool,
}

impl PublishQueue {
    pub(crate) fn put(&self, sealed: &mut Vec<DuePacket>) {
        if sealed.is_empty() {
            return;
        }
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.packets.len() + sealed.len() > KEPT {
            *waiting = QueuedPackets { packets: Vec::new(), overflowed: true };
        }
        if !waiting.overflowed {
            waiting.packets.append(sealed);
        }
    }

    /// Everything since the last time; `None` if some of it is in the store alone.
    pub(crate) fn take(&self) -> Option<Vec<DuePacket>> {
        let QueuedPackets { packets, overflowed } =
            std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (!overflowed).then_some(packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::relay::Outgoing;

    fn packet(row: i64) -> DuePacket {
        let address = Identity::from_bytes(&[1; 32]).address().clone();
        let packet = Outgoing { from: address.clone(), to: address, id: row.to_string(), bytes: Vec::new() };
        DuePacket { row, outbox_id: None, packet }
    }

    #[test]
    fn what_does_not_fit_is_left_to_the_store() {
        let publish_queue = PublishQueue::default();
        publish_queue.put(&mut vec![packet(1), packet(2)]);
        let rows: Vec<i64> = publish_queue.take().unwrap().into_iter().map(|due| due.row).collect();
        assert_eq!(rows, [1, 2]);
        assert!(publish_queue.take().unwrap().is_empty());
        publish_queue.put(&mut (0..1024).map(packet).collect());
        publish_queue.put(&mut vec![packet(2000)]);
        publish_queue.put(&mut vec![packet(2001)]);
        assert!(publish_queue.take().is_none());
        publish_queue.put(&mut vec![packet(2002)]);
        assert_eq!(publish_queue.take().unwrap().len(), 1);
    }
}
