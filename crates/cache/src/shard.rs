//! One shard of the store: a hash map over a slab, with SIEVE as eviction policy.
//!
//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is Simpler than LRU", NSDI 2024) keeps
//! entries in the order of arrival, a bit "visited" on each, and a hand that moves from the oldest
//! to the newest: it clears the bits it meets and evicts the first entry without one. It suits this cache:
//! - a hit only sets a bit, so it needs only a read lock (LRU moves list nodes on a hit);
//! - the hand soon meets an entry that is never read again: pages that a crawler walks
//!   through once leave without evicting what is read daily;
//! - eviction is O(1) amortised: each step of the hand either evicts or undoes one hit.
//!
//! Its known weakness is a loop over more keys than fit, and a hand that stands among old entries
//! while a scan passes; S3-FIFO (SOSP 2023) is more robust there and costs two queues and a ghost
//! list. `examples/cache_bench.rs` prints the hit ratios of SIEVE, LRU and FIFO on the same traces.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::metrics::Metrics;
use crate::stamp::Marks;
use crate::value::Value;

/// "No slot" in links.
const NIL: u32 = u32::MAX;

/// A named part of the cache, as its entries know it.
#[derive(Debug)]
pub(crate) struct Name {
    /// Salt for the keys of this name.
    pub(crate) id: u64,
    pub(crate) name: Box<str>,
    pub(crate) metrics: Metrics,
}

/// One cached value. Times are nanoseconds of the cache's clock.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) hash: u64,
    pub(crate) name: Arc<Name>,
    pub(crate) key: Box<str>,
    /// `None`: there is no such thing.
    pub(crate) value: Option<Value>,
    pub(crate) marks: Marks,
    pub(crate) soft_expiry: u64,
    pub(crate) hard_expiry: u64,
    /// Time from which a hit starts a refresh. A refresh moves it on, as a lease: if the refresh is lost with its
    /// runtime, another is due when the lease ends.
    pub(crate) refresh_at: AtomicU64,
    pub(crate) weight: u64,
}

impl Entry {
    fn is(&self, name: &Name, key: &str) -> bool {
        self.name.id == name.id && *self.key == *key
    }
}

/// Bytes of bookkeeping for an entry, besides key and value: the slab slot, and the map's row (16 bytes and a control
/// byte) at the lowest load factor after it has grown.
pub(crate) const ENTRY_OVERHEAD: u64 = (size_of::<Slot>() + 2 * 17) as u64;

#[derive(Debug)]
struct Slot {
    entry: Option<Entry>,
    visited: AtomicBool,
    /// Towards newer entries.
    newer: u32,
    /// Towards older entries; in a free slot the next free one.
    older: u32,
}

/// Passes the map's keys on: they are keyed hashes already.
#[derive(Debug, Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u64");
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Entries by hash, in order of arrival.
#[derive(Debug)]
pub(crate) struct Shard {
    map: HashMap<u64, u32, BuildHasherDefault<AsIs>>,
    slots: Vec<Slot>,
    free: u32,
    newest: u32,
    oldest: u32,
    hand: u32,
}

impl Shard {
    pub(crate) fn new() -> Self {
        Self {
            map: HashMap::default(),
            slots: Vec::new(),
            free: NIL,
            newest: NIL,
            oldest: NIL,
            hand: NIL,
        }
    }

    /// The entry of a key, without marking it as visited.
    pub(crate) fn find(&self, hash: u64, name: &Name, key: &str) -> Option<(u32, &Entry)> {
        let slot = *self.map.get(&hash)?;
        // Of two keys with one 64-bit keyed hash the later one replaced the other.
        let entry = self.slots[slot as usize].entry.as_ref()?;
        entry.is(name, key).then_some((slot, entry))
    }

    /// Marks an entry as visited. Reads first: a bit that is already set stays in every core's cache.
    pub(crate) fn visit(&self, slot: u32) {
        let visited = &self.slots[slot as usize].visited;
        if !visited.load(Ordering::Relaxed) {
            visited.store(true, Ordering::Relaxed);
        }
    }

    /// Inserts an entry, and returns the one it replaced. A replacement keeps its place in the order: filling the
    /// same key again is no reason to outlive others.
    pub(crate) fn insert(&mut self, entry: Entry) -> Option<Entry> {
        if let Some(slot) = self.map.get(&entry.hash) {
            return self.slots[*slot as usize].entry.replace(entry);
        }
        let hash = entry.hash;
        let slot = self.new_slot(entry);
        if self.newest == NIL {
            self.oldest = slot;
        } else {
            self.slots[self.newest as usize].newer = slot;
        }
        self.newest = slot;
        self.map.insert(hash, slot);
        None
    }

    fn new_slot(&mut self, entry: Entry) -> u32 {
        let older = self.newest;
        let filled =
            Slot { entry: Some(entry), visited: AtomicBool::new(false), newer: NIL, older };
        if self.free == NIL {
            self.slots.push(filled);
            return u32::try_from(self.slots.len() - 1).expect("4 billion entries outweigh memory");
        }
        let slot = self.free;
        self.free = self.slots[slot as usize].older;
        self.slots[slot as usize] = filled;
        slot
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<Entry> {
        let index = slot as usize;
        let entry = self.slots[index].entry.take()?;
        self.map.remove(&entry.hash);
        let (newer, older) = (self.slots[index].newer, self.slots[index].older);
        match newer {
            NIL => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        match older {
            NIL => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        if self.hand == slot {
            self.hand = newer;
        }
        self.slots[index].older = self.free;
        self.free = slot;
        Some(entry)
    }

    /// Evicts the entry that SIEVE selects; a dead one has no second chance.
    pub(crate) fn evict(&mut self, dead: impl Fn(&Entry) -> bool) -> Option<Entry> {
        loop {
            if self.hand == NIL {
                self.hand = self.oldest;
            }
            let slot = self.slots.get_mut(self.hand as usize)?;
            let keep = *slot.visited.get_mut() && !slot.entry.as_ref().is_some_and(&dead);
            if !keep {
                return self.remove(self.hand);
            }
            *slot.visited.get_mut() = false;
            self.hand = slot.newer;
        }
    }

    pub(crate) fn clear(&mut self) -> Vec<Entry> {
        let all = std::mem::replace(self, Self::new());
        all.slots.into_iter().filter_map(|slot| slot.entry).collect()
    }
}

#[cfg(test)]
mod tests;
