//! What was just stored for a mailbox, for its readers to take without asking the store again.
//!
//! A cache begins incomplete: its reader first reads the store. From then on every packet that
//! becomes durable is added here too, in the order of storing, until the cache is full. A packet
//! may be found in both, so readers skip numbers that they have already seen.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::Incoming;
use crate::identity::Address;

/// Packets in one cache; a reader that is further behind reads the store.
const CAPACITY: usize = 256;

#[derive(Debug, Default)]
pub(super) struct PacketCaches(Mutex<HashMap<Address, Vec<Weak<PacketCache>>>>);

#[derive(Debug)]
pub(super) struct PacketCache {
    contents: Mutex<CacheContents>,
    changed: Notify,
}

#[derive(Debug)]
struct CacheContents {
    packets: VecDeque<Incoming>,
    incomplete: bool,
}

impl PacketCaches {
    /// A new cache for one reader; it is dropped with the reader.
    pub(super) fn cache(&self, who: &Address) -> Arc<PacketCache> {
        let contents = CacheContents { packets: VecDeque::new(), incomplete: true };
        let cache = Arc::new(PacketCache { contents: Mutex::new(contents), changed: Notify::new() });
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let caches = all.entry(who.clone()).or_default();
        caches.retain(|cache| cache.strong_count() > 0);
        caches.push(Arc::downgrade(&cache));
        cache
    }

    /// To be called once they are durable, in the order of storing.
    pub(super) fn put(&self, arrived: Vec<(Address, Incoming)>) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (to, packet) in arrived {
            let caches = all.get(&to).into_iter().flatten();
            for cache in caches.filter_map(Weak::upgrade) {
                cache.put(packet.clone());
            }
        }
    }
}

impl PacketCache {
    fn contents(&self) -> MutexGuard<'_, CacheContents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, packet: Incoming) {
        let mut contents = self.contents();
        if contents.packets.len() >= CAPACITY {
            contents.packets.clear();
            contents.incomplete = true;
        }
        if !contents.incomplete {
            contents.packets.push_back(packet);
        }
        self.changed.notify_one();
    }

    /// The oldest that come after this number; `None` if the store is to be asked. From this
    /// answer on, whatever becomes durable is put here.
    pub(super) fn take(&self, after: u64, limit: usize) -> Option<Vec<Incoming>> {
        let mut contents = self.contents();
        if std::mem::take(&mut contents.incomplete) {
            return None;
        }
        contents.packets.retain(|packet| packet.token > after);
        let count = limit.min(contents.packets.len());
        Some(contents.packets.drain(..count).collect())
    }

    /// The store may have more than was read: read it again.
    pub(super) fn look_again(&self) {
        let mut contents = self.contents();
        contents.packets.clear();
        contents.incomplete = true;
    }

    /// Resolves when a packet was added since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
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
        let caches = PacketCaches::default();
        let cache = caches.cache(Identity::from_bytes(&[1; 32]).address());
        caches.put(packets(1..3));
        assert_eq!(tokens(cache.take(0, 9)), None, "the store is read first");
        caches.put(packets(2..6));
        assert_eq!(tokens(cache.take(2, 2)), Some(vec![3, 4]), "2 was in the store");
        assert_eq!(tokens(cache.take(4, 2)), Some(vec![5]));
        caches.put(packets(6..6 + CAPACITY as u64 + 1));
        assert_eq!(tokens(cache.take(5, 9)), None, "more than the cache holds");
        assert_eq!(tokens(cache.take(999, 9)), Some(vec![]));
        drop(cache);
        caches.put(packets(1..2));
    }
}
