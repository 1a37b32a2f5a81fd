//! A table of counters that cannot grow.
//!
//! Sets of eight entries, taken as they are needed; see the module above for what it forgets first
//! and why that cannot be steered.

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
    /// Nanoseconds on the clock; means something only while a failure counts.
    pub(super) last_failure: u64,
    /// Nanoseconds on the clock; zero: not suspicious.
    pub(super) suspicious_until: u64,
    /// What another store has said about it last; means something only while that is recent.
    pub(super) told: Option<Told>,
    touched: u64,
}

impl Entry {
    fn is_idle(&self, now: u64) -> bool {
        self.in_flight == 0 && self.failures.count() == 0 && self.suspicious_until <= now
    }

    /// Lower goes first.
    fn danger(&self, now: u64) -> (bool, u32, u64) {
        (self.suspicious_until > now, self.failures.count(), self.touched)
    }
}

/// An answer of another store: suspicious, with this severity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    /// Nanoseconds on the clock.
    pub(super) at: u64,
    pub(super) severity: u32,
}

struct Set {
    entries: [Entry; WAYS],
    /// As many per entry as the table was made for.
    items: Box<[Item]>,
}

pub(super) struct Table {
    sets: Sets<Option<Box<Set>>>,
    step: u64,
    distinct: usize,
    entries: AtomicU64,
    evictions: AtomicU64,
    sets_taken: AtomicU64,
}

impl Table {
    /// A table of so many entries, rounded up, with windows of so many nanoseconds and so many
    /// distinct accounts per entry.
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

    /// Locks the place of the entry, and brings it up to date if it is there.
    pub(super) fn lock(&self, id: Id, now: u64) -> Slot<'_> {
        let (set, step) = (self.sets.lock(id.0), now / self.step);
        let mut slot = Slot { table: self, set, way: None, id, now, step };
        slot.find();
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

/// The locked place of one entry, which may not be there yet.
pub(super) struct Slot<'a> {
    table: &'a Table,
    set: MappedMutexGuard<'a, Option<Box<Set>>>,
    way: Option<usize>,
    id: Id,
    now: u64,
    step: u64,
}

impl Slot<'_> {
    /// Nanoseconds on the clock.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// The step that has begun: of the clock, or of the entry if that was brought further.
    pub(super) fn step(&self) -> u64 {
        self.step
    }

    /// Time until this step begins, in nanoseconds.
    pub(super) fn until(&self, step: u64) -> u64 {
        step.saturating_mul(self.table.step).saturating_sub(self.now)
    }

    fn find(&mut self) {
        let Some(set) = self.set.as_deref_mut() else {
            return;
        };
        self.way = set.entries.iter().position(|entry| entry.id == Some(self.id));
        if let Some(way) = self.way {
            self.step = set.entries[way].failures.advance(self.step);
            let step = self.step;
            self.distinct().advance(step);
        }
    }

    pub(super) fn entry(&mut self) -> Option<&mut Entry> {
        let way = self.way?;
        self.set.as_deref_mut().map(|set| &mut set.entries[way])
    }

    /// The distinct accounts of the entry; none as long as it is not there.
    pub(super) fn distinct(&mut self) -> Distinct<'_> {
        let length = self.table.distinct;
        match (self.set.as_deref_mut(), self.way) {
            (Some(set), Some(way)) => Distinct(&mut set.items[way * length..][..length]),
            _ => Distinct(&mut []),
        }
    }

    /// Whether [`insert`](Self::insert) will find a place.
    pub(super) fn has_place(&self) -> bool {
        let set = self.set.as_deref();
        self.way.is_some() || set.is_none_or(|set| set.entries.iter().any(|e| e.in_flight == 0))
    }

    /// Makes the entry if it is not there. Does nothing where there is no place.
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
        let loose = set.entries.iter().enumerate().filter(|(_, entry)| entry.in_flight == 0);
        let order = |(_, entry): &(usize, &Entry)| (entry.id.is_some(), entry.danger(now));
        let Some((way, _)) = loose.min_by_key(order) else {
            return;
        };
        let old = &set.entries[way];
        if old.id.is_none() {
            table.entries.fetch_add(1, Ordering::Relaxed);
        } else if !old.is_idle(now) {
            table.evictions.fetch_add(1, Ordering::Relaxed);
        }
        set.entries[way] = Entry { id: Some(self.id), touched: now, ..Entry::default() };
        set.entries[way].failures.advance(step);
        self.way = Some(way);
        self.distinct().clear();
    }

    /// Frees the place if nothing is worth remembering, or notes that it was in use.
    pub(super) fn release(&mut self) {
        let (table, now) = (self.table, self.now);
        let Some(entry) = self.entry() else {
            return;
        };
        entry.touched = now;
        if entry.is_idle(now) {
            *entry = Entry::default();
            table.entries.fetch_sub(1, Ordering::Relaxed);
            self.way = None;
        }
    }
}
