//! All entries: shards with a lock each, under one budget of bytes.
//!
//! The budget is strict. Room is reserved *before* an entry is inserted and released *after* one is removed, so the
//! entries in the shards never weigh more than the capacity, with any number of threads. (A body that was evicted
//! while a response is still being written from it lives on until then, as memory of that response.)
//!
//! The shards share the budget instead of owning a part each, so that one entry may be larger than a shard's share.
//! An insert that needs room evicts from the shards in turn, its own first.

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::doorkeeper::Doorkeeper;
use crate::metrics::Counter;
use crate::shard::{ENTRY_OVERHEAD, Entry, Name, Shard};
use crate::stamp::{Marks, StampTable};
use crate::value::Value;

/// Weight of an entry in the budget, in bytes: value, key and the cache's own bookkeeping. `None` is a negative
/// entry.
pub fn entry_weight(key: &str, value: Option<&Value>) -> u64 {
    value.map_or(0, Value::weight) + key.len() as u64 + ENTRY_OVERHEAD
}

/// An entry past its soft expiry, kept by a caller in case the load fails.
#[derive(Debug)]
pub(crate) struct StaleCandidate {
    pub(crate) value: Option<Value>,
    marks: Marks,
    hard_expiry: u64,
}

/// Result of a look-up in the store.
#[derive(Debug)]
pub(crate) enum StoredEntry {
    /// Live; `refresh`: a refresh is due, and the caller has the lease to start it.
    Fresh { value: Option<Value>, refresh: bool },
    /// Past its soft expiry.
    Soft(StaleCandidate),
    /// Nothing that may be served.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// A write came between.
    Vetoed,
    /// Concurrent inserts hold the room and there is nothing left to evict.
    NoRoom,
}

#[repr(align(128))] // Locks of two shards never share a cache line.
struct Guarded(RwLock<Shard>);

pub(crate) struct Store {
    shards: Box<[Guarded]>,
    hasher: RandomState,
    capacity: u64,
    used: AtomicU64,
    doorkeeper: Doorkeeper,
    pub(crate) stamps: Arc<StampTable>,
}

impl Store {
    pub(crate) fn new(capacity: u64, shards: usize, stamps: Arc<StampTable>) -> Self {
        let shards = shards.max(1).next_power_of_two();
        Self {
            shards: (0..shards).map(|_| Guarded(RwLock::new(Shard::new()))).collect(),
            hasher: RandomState::new(),
            capacity,
            used: AtomicU64::new(0),
            doorkeeper: Doorkeeper::new(),
            stamps,
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes taken from the budget.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// SipHash with a key of this process: clients cannot choose keys that collide.
    pub(crate) fn hash(&self, name: &Name, key: &str) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write_u64(name.id);
        hasher.write(key.as_bytes());
        hasher.finish()
    }

    /// Bits 32 and up: the map uses the lowest for its buckets and the highest seven for tags.
    fn shard_of(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.shards.len() - 1)
    }

    // A panic under these locks can only come from a failed allocation or an index out of bounds. Neither leaves a
    // half-made link that a look-up could follow.
    fn read(&self, shard: usize) -> RwLockReadGuard<'_, Shard> {
        self.shards[shard].0.read()
    }

    fn write(&self, shard: usize) -> RwLockWriteGuard<'_, Shard> {
        self.shards[shard].0.write()
    }

    fn is_dead(&self, entry: &Entry, now: u64) -> bool {
        now >= entry.hard_expiry || !self.stamps.is_current(&entry.marks)
    }

    /// The hit path: a live entry with a value whose refresh is not due. Marks it as visited.
    pub(crate) fn fresh(&self, name: &Name, key: &str, now: u64) -> Option<Value> {
        let hash = self.hash(name, key);
        let shard = self.read(self.shard_of(hash));
        let (slot, entry) = shard.find(hash, name, key)?;
        let value = entry.value.as_ref()?;
        let due = now >= entry.refresh_at.load(Ordering::Relaxed);
        if due || now >= entry.soft_expiry || !self.stamps.is_current(&entry.marks) {
            return None;
        }
        shard.visit(slot);
        Some(value.clone())
    }

    /// The entry of a key. A due refresh is leased to this caller for `lease` nanoseconds.
    pub(crate) fn find(&self, name: &Name, key: &str, now: u64, lease: u64) -> StoredEntry {
        let hash = self.hash(name, key);
        let shard = self.read(self.shard_of(hash));
        let Some((slot, entry)) = shard.find(hash, name, key) else { return StoredEntry::Nothing };
        if self.is_dead(entry, now) {
            drop(shard);
            self.sweep(hash, name, key, now);
            return StoredEntry::Nothing;
        }
        shard.visit(slot);
        let value = entry.value.clone();
        if now >= entry.soft_expiry {
            let (marks, hard_expiry) = (entry.marks, entry.hard_expiry);
            return StoredEntry::Soft(StaleCandidate { value, marks, hard_expiry });
        }
        let at = entry.refresh_at.load(Ordering::Relaxed);
        let until = now.saturating_add(lease);
        let refresh = now >= at
            && entry
                .refresh_at
                .compare_exchange(at, until, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        StoredEntry::Fresh { value, refresh }
    }

    /// True if `find` would return a fresh entry.
    pub(crate) fn has_live(&self, name: &Name, key: &str, now: u64) -> bool {
        let hash = self.hash(name, key);
        let shard = self.read(self.shard_of(hash));
        shard.find(hash, name, key).is_some_and(|(_, entry)| {
            now < entry.soft_expiry && self.stamps.is_current(&entry.marks)
        })
    }

    /// True if a value past its soft expiry may still be served.
    pub(crate) fn may_serve(&self, stale: &StaleCandidate, now: u64) -> bool {
        now < stale.hard_expiry && self.stamps.is_current(&stale.marks)
    }

    /// Notes a load of this key; returns whether the key has an entry, or had one or was loaded a moment ago.
    pub(crate) fn is_known(&self, name: &Name, key: &str) -> bool {
        let hash = self.hash(name, key);
        self.doorkeeper.note(hash) || self.read(self.shard_of(hash)).find(hash, name, key).is_some()
    }

    /// Removes a dead entry, if it is still there and still dead. Its key stays known: a write on popular entries
    /// must not cost two loads each.
    fn sweep(&self, hash: u64, name: &Name, key: &str, now: u64) {
        let mut shard = self.write(self.shard_of(hash));
        let dead = shard.find(hash, name, key).filter(|(_, entry)| self.is_dead(entry, now));
        let removed = dead.map(|(slot, _)| slot).and_then(|slot| shard.remove(slot));
        drop(shard);
        if removed.is_some() {
            self.doorkeeper.note(hash);
        }
        self.release(removed);
    }

    /// Removes the entry of a key, unless it is newer than `marks`.
    pub(crate) fn remove(&self, name: &Name, key: &str, marks: &Marks) {
        if !self.stamps.is_current(marks) {
            return;
        }
        let hash = self.hash(name, key);
        let mut shard = self.write(self.shard_of(hash));
        let slot = shard.find(hash, name, key).map(|(slot, _)| slot);
        let removed = slot.and_then(|slot| shard.remove(slot));
        drop(shard);
        self.release(removed);
    }

    /// Stores an entry unless a write came between since `entry.marks` were read.
    pub(crate) fn insert(&self, entry: Entry, now: u64) -> Result<(), Refused> {
        if !self.stamps.is_current(&entry.marks) {
            return Err(Refused::Vetoed);
        }
        let own = self.shard_of(entry.hash);
        let weight = entry.weight;
        self.take_room(weight, own, now)?;
        let mut shard = self.write(own);
        // Again, since evicting may have taken a while. A write that begins after this check
        // finishes later, and then the entry has the old version: dead all the same.
        if !self.stamps.is_current(&entry.marks) {
            drop(shard);
            self.give_back(weight);
            return Err(Refused::Vetoed);
        }
        entry.name.metrics.entered(weight);
        let replaced = shard.insert(entry);
        drop(shard);
        self.release(replaced);
        Ok(())
    }

    /// Reserves `weight` of the budget, evicting entries until there is enough. The bytes of victims go straight to
    /// this caller, so that every round makes progress.
    fn take_room(&self, weight: u64, own: usize, now: u64) -> Result<(), Refused> {
        let mut held = self.take_free(weight);
        let (mut shard, mut empty_in_a_row) = (own, 0);
        while held < weight {
            let victim = self.write(shard).evict(|entry| self.is_dead(entry, now));
            shard = (shard + 1) & (self.shards.len() - 1);
            if let Some(victim) = victim {
                victim.name.metrics.count(Counter::Evictions);
                victim.name.metrics.left(victim.weight);
                held += victim.weight;
                empty_in_a_row = 0;
                continue;
            }
            empty_in_a_row += 1;
            if empty_in_a_row == self.shards.len() {
                self.give_back(held);
                return Err(Refused::NoRoom);
            }
        }
        self.give_back(held - weight);
        Ok(())
    }

    /// Reserves what is free, at most `weight`.
    fn take_free(&self, weight: u64) -> u64 {
        let free = |used: u64| weight.min(self.capacity.saturating_sub(used));
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used + free(used)));
        taken.map_or(0, free)
    }

    fn give_back(&self, weight: u64) {
        self.used.fetch_sub(weight, Ordering::Relaxed);
    }

    /// Accounts for entries removed other than by eviction; to be called without a lock, since freeing large bodies
    /// takes time.
    fn release(&self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            entry.name.metrics.left(entry.weight);
            self.give_back(entry.weight);
        }
    }

    pub(crate) fn postpone_refresh(&self, name: &Name, key: &str, at: u64) {
        let hash = self.hash(name, key);
        if let Some((_, entry)) = self.read(self.shard_of(hash)).find(hash, name, key) {
            entry.refresh_at.store(at, Ordering::Relaxed);
        }
    }

    /// Removes all entries and vetoes all loads in flight.
    pub(crate) fn invalidate_all(&self) {
        self.stamps.raise_all();
        for shard in 0..self.shards.len() {
            let entries = self.write(shard).clear();
            self.release(entries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn entry(store: &Store, weight: u64) -> Entry {
        let name = Arc::new(Name { id: 0, name: "test".into(), metrics: Metrics::default() });
        Entry {
            hash: store.hash(&name, "k"),
            name,
            key: "k".into(),
            value: None,
            marks: Marks::default(),
            soft_expiry: u64::MAX,
            hard_expiry: u64::MAX,
            refresh_at: AtomicU64::new(u64::MAX),
            weight,
        }
    }

    #[test]
    fn an_entry_finds_no_room_while_others_hold_it_and_leaves_the_budget_as_it_was() {
        let store = Store::new(100, 4, Arc::new(StampTable::new(1)));
        // Another insert has reserved its room and has not inserted yet.
        assert_eq!(store.take_free(60), 60);
        assert_eq!(store.insert(entry(&store, 50), 0), Err(Refused::NoRoom));
        assert_eq!(store.used(), 60);
        assert_eq!(store.insert(entry(&store, 40), 0), Ok(()));
        assert_eq!(store.used(), 100);
    }

    #[test]
    fn nobody_can_aim_keys_at_one_shard() {
        let stores = [0, 1].map(|_| Store::new(0, 1, Arc::new(StampTable::new(1))));
        let [first, second] = &stores;
        let entry = entry(first, 0);
        assert_ne!(first.hash(&entry.name, "k"), second.hash(&entry.name, "k"));
    }
}
