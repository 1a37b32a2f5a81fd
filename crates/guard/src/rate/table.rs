//! The table of buckets, which cannot grow.

use super::Bucket;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WAYS: usize = 8;
/// Locks per table; power of two.
const SHARDS: usize = 64;

/// A bucket that is not full. Zero as the time when it is full: the place is free.
#[derive(Clone, Copy, Default)]
struct Entry {
    id: u64,
    /// Nanoseconds on the clock.
    full_at: u64,
}

/// Two lines of a processor's cache.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Set([Entry; WAYS]);

pub(super) struct Table {
    shards: Box<[Mutex<Box<[Set]>>]>,
    sets_per_shard: u64,
    buckets: AtomicU64,
    evictions: AtomicU64,
}

impl Table {
    /// For so many buckets, rounded up.
    pub(super) fn new(capacity: usize) -> Self {
        let sets = capacity.div_ceil(WAYS).next_power_of_two().max(SHARDS);
        let per_shard = sets / SHARDS;
        let shard = || Mutex::new(vec![Set::default(); per_shard].into_boxed_slice());
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            sets_per_shard: per_shard as u64,
            buckets: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// Takes a token. The time until the bucket is full, in nanoseconds; as an error if it is empty.
    pub(super) fn take(&self, bucket: Bucket, now: u64) -> Result<u64, u64> {
        let (mut shard, set) = self.lock(bucket);
        let set = &mut shard[set];
        let known = set.0.iter().position(|entry| entry.full_at > 0 && entry.id == bucket.id.0);
        let full_at = known.map_or(now, |way| set.0[way].full_at.max(now));
        let after = full_at + bucket.rate.interval();
        if after - now > bucket.rate.full() {
            return Err(full_at - now);
        }
        let way = known.unwrap_or_else(|| self.free_way(set, now));
        set.0[way] = Entry { id: bucket.id.0, full_at: after };
        Ok(after - now)
    }

    /// Puts back a token that was taken a moment ago.
    pub(super) fn give_back(&self, bucket: Bucket) {
        self.change(bucket, |full_at| full_at.saturating_sub(bucket.rate.interval()).max(1));
    }

    /// The bucket is full in so many nanoseconds, or later.
    pub(super) fn fill_no_earlier(&self, bucket: Bucket, now: u64, until_full: u64) {
        self.change(bucket, |full_at| full_at.max(now + until_full));
    }

    fn change(&self, bucket: Bucket, change: impl FnOnce(u64) -> u64) {
        let (mut shard, set) = self.lock(bucket);
        let mut entries = shard[set].0.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.full_at > 0 && entry.id == bucket.id.0) {
            entry.full_at = change(entry.full_at);
        }
    }

    fn lock(&self, bucket: Bucket) -> (MutexGuard<'_, Box<[Set]>>, usize) {
        let shards = self.shards.len() as u64;
        let shard = (bucket.id.0 % shards) as usize;
        let set = (bucket.id.0 / shards % self.sets_per_shard) as usize;
        (self.shards[shard].lock(), set)
    }

    /// The place of the bucket that is full first: a free one, if there is any.
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

    /// Buckets held, and those forgotten before they were full.
    pub(super) fn metrics(&self) -> (u64, u64) {
        (self.buckets.load(Relaxed), self.evictions.load(Relaxed))
    }
}
