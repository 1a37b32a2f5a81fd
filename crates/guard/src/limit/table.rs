//! A table of counters of bounded size: sets of eight entries, allocated on demand. The parent module describes
//! eviction, and why it cannot be steered.

use parking_lot::MappedMutexGuard;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Id;
use super::distinct::{Distinct, Item};
use super::store::StoreMetrics;
use super::window::{STEPS, Window};
use crate::sets::{Sets, WAYS};

/// The counters of one pair, account, address, device token or password.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    /// `None`: the place is free.
    id: Option<Id>,
    pub(super) failures: Window,
    pub(super) in_flight: u32,
    /// Nanoseconds on the clock; valid only while a failure counts.
    pub(super) last_failure: u64,
    /// Nanoseconds on the clock; zero: not suspicious.
    pub(super) suspicious_until: u64,
    /// Last suspicion that another store reported; valid only while it is recent.
    pub(super) learned: Option<Learned>,
    last_used: u64,
}

impl Entry {
    fn is_idle(&self, now: u64) -> bool {
        self.in_flight == 0 && self.failures.count() == 0 && self.suspicious_until <= now
    }

    /// Order of eviction, lowest first.
    fn danger(&self, now: u64) -> (bool, u32, u64) {
        (self.suspicious_until > now, self.failures.count(), self.last_used)
    }
}

/// A suspicion that another store reported.
#[derive(Clone, Copy, Debug)]
pub(super) struct Learned {
    /// Nanoseconds on the clock.
    pub(super) at: u64,
    pub(super) severity: u32,
}

struct Set {
    entries: [Entry; WAYS],
    /// `Table::distinct` per entry.
    items: Box<[Item]>,
}

pub(super) struct Table {
    sets: Sets<Option<Box<Set>>>,
    /// Nanoseconds.
    step: u64,
    /// Distinct accounts per entry.
    distinct: usize,
    entries: AtomicU64,
    evictions: AtomicU64,
    sets_taken: AtomicU64,
}

impl Table {
    /// A table of `capacity` entries, rounded up, with windows of `window` nanoseconds.
    pub(super) fn new(capacity: usize, window: u64, distinct: usize) -> Self {
        Self {
            sets: Sets::new(capacity),
            step: (window / STEPS).max(1),
            distinct,
            entries: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            sets_taken: AtomicU64::new(0),
        }
    }

    /// Locks the place of the entry, and expires its old failures if it exists.
    pub(super) fn lock(&self, id: Id, now: u64) -> Slot<'_> {
        let (mut set, mut step) = (self.sets.lock(id.0), now / self.step);
        let mut way = None;
        if let Some(set) = set.as_deref_mut() {
            way = set.entries.iter().position(|entry| entry.id == Some(id));
            if let Some(way) = way {
                step = set.entries[way].failures.advance(step);
            }
        }
        let mut slot = Slot { table: self, set, way, id, now, step };
        slot.distinct().advance(step);
        slot
    }

    pub(super) fn metrics(&self) -> StoreMetrics {
        let items = WAYS * self.distinct * size_of::<Item>();
        let pointers = (self.sets.len() * size_of::<usize>()) as u64;
        let set = (size_of::<Set>() + items) as u64;
        StoreMetrics {
            entries: self.entries.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            bytes: pointers + self.sets_taken.load(Ordering::Relaxed) * set,
            is_away: false,
        }
    }
}

/// The locked place of one entry, which may not exist yet.
pub(super) struct Slot<'a> {
    table: &'a Table,
    set: MappedMutexGuard<'a, Option<Box<Set>>>,
    way: Option<usize>,
    id: Id,
    /// Nanoseconds on the clock.
    pub(super) now: u64,
    /// The current step: of the clock, or of the entry if that is further.
    pub(super) step: u64,
}

impl Slot<'_> {
    /// Time until this step begins, in nanoseconds.
    pub(super) fn until(&self, step: u64) -> u64 {
        step.saturating_mul(self.table.step).saturating_sub(self.now)
    }

    pub(super) fn entry(&mut self) -> Option<&mut Entry> {
        let way = self.way?;
        self.set.as_deref_mut().map(|set| &mut set.entries[way])
    }

    /// The distinct accounts of the entry; none while it does not exist.
    pub(super) fn distinct(&mut self) -> Distinct<'_> {
        let length = self.table.distinct;
        match (self.set.as_deref_mut(), self.way) {
            (Some(set), Some(way)) => Distinct(&mut set.items[way * length..][..length]),
            _ => Distinct(&mut []),
        }
    }

    /// Returns true if [`insert`](Self::insert) will find a place.
    pub(super) fn has_place(&self) -> bool {
        let set = self.set.as_deref();
        self.way.is_some() || set.is_none_or(|set| set.entries.iter().any(|e| e.in_flight == 0))
    }

    /// Creates the entry if it does not exist and there is a place.
    pub(super) fn insert(&mut self) {
        if self.way.is_some() {
            return;
        }
        let (table, now, step) = (self.table, self.now, self.step);
        let set = self.set.get_or_insert_with(|| {
            table.sets_taken.fetch_add(1, Ordering::Relaxed);
            let items = vec![Item::default(); WAYS * table.distinct].into_boxed_slice();
            Box::new(Set { entries: [Entry::default(); WAYS], items })
        });
        for entry in &mut set.entries {
            entry.failures.advance(step);
        }
        let evictable = set.entries.iter().enumerate().filter(|(_, entry)| entry.in_flight == 0);
        let order = |(_, entry): &(usize, &Entry)| (entry.id.is_some(), entry.danger(now));
        let Some((way, old)) = evictable.min_by_key(order) else {
            return;
        };
        if old.id.is_none() {
            table.entries.fetch_add(1, Ordering::Relaxed);
        } else if !old.is_idle(now) {
            table.evictions.fetch_add(1, Ordering::Relaxed);
        }
        set.entries[way] = Entry { id: Some(self.id), last_used: now, ..Entry::default() };
        set.entries[way].failures.advance(step);
        self.way = Some(way);
        self.distinct().clear();
    }

    /// Frees the place if the entry is idle, else marks it as used now.
    pub(super) fn release(&mut self) {
        let (table, now) = (self.table, self.now);
        let Some(entry) = self.entry() else {
            return;
        };
        entry.last_used = now;
        if entry.is_idle(now) {
            *entry = Entry::default();
            table.entries.fetch_sub(1, Ordering::Relaxed);
            self.way = None;
        }
    }
}
