//! The table of buckets, of fixed size.

use super::Bucket;
use crate::sets::{Sets, WAYS};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A bucket that is not full.
#[derive(Default)]
struct Entry {
    id: u64,
    /// Nanoseconds on the clock; zero: the place is free.
    full_at: u64,
}

/// Two cache lines.
#[derive(Default)]
#[repr(align(64))]
struct Set([Entry; WAYS]);

pub(super) struct Table {
    sets: Sets<Set>,
    /// Buckets held.
    pub(super) buckets: AtomicU64,
    /// Buckets evicted before they were full.
    pub(super) evictions: AtomicU64,
}

impl Table {
    pub(super) fn new(capacity: usize) -> Self {
        let (buckets, evictions) = Default::default();
        Self { sets: Sets::new(capacity), buckets, evictions }
    }

    /// Takes a token. Returns the time until the bucket is full, in nanoseconds, also as the error of an empty bucket.
    pub(super) fn take(&self, bucket: Bucket, now: u64) -> Result<u64, u64> {
        let mut set = self.sets.lock(bucket.id.0);
        let known = set.0.iter().position(|entry| entry.full_at > 0 && entry.id == bucket.id.0);
        let full_at = known.map_or(now, |way| set.0[way].full_at.max(now));
        let after = full_at + bucket.rate.interval();
        if after - now > bucket.rate.full() {
            return Err(full_at - now);
        }
        let way = known.unwrap_or_else(|| self.free_way(&set, now));
        set.0[way] = Entry { id: bucket.id.0, full_at: after };
        Ok(after - now)
    }

    pub(super) fn give_back(&self, bucket: Bucket) {
        self.change(bucket, |full_at| full_at.saturating_sub(bucket.rate.interval()).max(1));
    }

    /// Delays the time at which the bucket is full, if it is earlier than in `until_full` nanoseconds.
    pub(super) fn fill_no_earlier(&self, bucket: Bucket, now: u64, until_full: u64) {
        self.change(bucket, |full_at| full_at.max(now + until_full));
    }

    fn change(&self, bucket: Bucket, change: impl FnOnce(u64) -> u64) {
        let mut set = self.sets.lock(bucket.id.0);
        let mut entries = set.0.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.full_at > 0 && entry.id == bucket.id.0) {
            entry.full_at = change(entry.full_at);
        }
    }

    /// A free place, else that of the bucket that is full first.
    fn free_way(&self, set: &Set, now: u64) -> usize {
        let ways = set.0.iter().enumerate();
        let (way, entry) = ways.min_by_key(|(_, entry)| entry.full_at).expect("a set has entries");
        if entry.full_at == 0 {
            self.buckets.fetch_add(1, Relaxed);
        } else if entry.full_at > now {
            self.evictions.fetch_add(1, Relaxed);
        }
        way
    }
}
