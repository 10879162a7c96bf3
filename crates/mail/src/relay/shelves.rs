//! What was just stored for a mailbox, for its readers to take without asking the store again.
//!
//! A shelf begins incomplete: its reader looks into the store. From then on whatever becomes
//! durable is put here too, in the order of storing, until it is more than a shelf holds.
//! What a look found may also be put here, so readers pass over numbers that they had.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::Incoming;
use crate::identity::Address;

/// Packets on one shelf; a reader that is further behind looks into the store.
const KEPT: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Shelves(Mutex<HashMap<Address, Vec<Weak<Shelf>>>>);

#[derive(Debug)]
pub(super) struct Shelf {
    kept: Mutex<ShelfContents>,
    bell: Notify,
}

#[derive(Debug)]
struct ShelfContents {
    packets: VecDeque<Incoming>,
    incomplete: bool,
}

impl Shelves {
    /// A shelf of one reader's own; it is forgotten with its reader.
    pub(super) fn shelf(&self, who: &Address) -> Arc<Shelf> {
        let kept = ShelfContents { packets: VecDeque::new(), incomplete: true };
        let shelf = Arc::new(Shelf { kept: Mutex::new(kept), bell: Notify::new() });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shelves = all.entry(who.clone()).or_default();
        shelves.retain(|shelf| shelf.strong_count() > 0);
        shelves.push(Arc::downgrade(&shelf));
        shelf
    }

    /// To be called once they are durable, in the order of storing.
    pub(super) fn put(&self, arrived: Vec<(Address, Incoming)>) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (to, packet) in arrived {
            let shelves = all.get(&to).into_iter().flatten();
            for shelf in shelves.filter_map(Weak::upgrade) {
                shelf.put(packet.clone());
            }
        }
    }
}

impl Shelf {
    fn kept(&self) -> MutexGuard<'_, ShelfContents> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, packet: Incoming) {
        let mut kept = self.kept();
        if kept.packets.len() >= KEPT {
            kept.packets.clear();
            kept.incomplete = true;
        }
        if !kept.incomplete {
            kept.packets.push_back(packet);
        }
        self.bell.notify_one();
    }

    /// The oldest that come after this number; `None` if the store is to be asked. From this
    /// answer on, whatever becomes durable is put here.
    pub(super) fn take(&self, after: u64, limit: usize) -> Option<Vec<Incoming>> {
        let mut kept = self.kept();
        if std::mem::take(&mut kept.incomplete) {
            return None;
        }
        kept.packets.retain(|packet| packet.token > after);
        let count = limit.min(kept.packets.len());
        Some(kept.packets.drain(..count).collect())
    }

    /// There may be more in the store than was looked at.
    pub(super) fn look_again(&self) {
        let mut kept = self.kept();
        kept.packets.clear();
        kept.incomplete = true;
    }

    /// Rings when something was put here since it last rang.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;

    fn packets(numbers: std::ops::Range<u64>) -> Vec<(Address, Incoming)> {
        let who = Identity::from_bytes(&[1; 32]).address().clone();
        numbers.map(|token| (who.clone(), Incoming { token, from: who.clone(), bytes: Vec::new() })).collect()
    }

    fn tokens(taken: Option<Vec<Incoming>>) -> Option<Vec<u64>> {
        taken.map(|packets| packets.into_iter().map(|packet| packet.token).collect())
    }

    #[test]
    fn a_reader_gets_what_comes_after_its_look_and_looks_again_when_it_was_too_much() {
        let shelves = Shelves::default();
        let shelf = shelves.shelf(Identity::from_bytes(&[1; 32]).address());
        shelves.put(packets(1..3));
        assert_eq!(tokens(shelf.take(0, 9)), None, "it must look first");
        shelves.put(packets(2..6));
        assert_eq!(tokens(shelf.take(2, 2)), Some(vec![3, 4]), "2 was in the look");
        assert_eq!(tokens(shelf.take(4, 2)), Some(vec![5]));
        shelves.put(packets(6..6 + KEPT as u64 + 1));
        assert_eq!(tokens(shelf.take(5, 9)), None, "too much for a shelf");
        assert_eq!(tokens(shelf.take(999, 9)), Some(vec![]));
        drop(shelf);
        shelves.put(packets(1..2));
    }
}
