//! Metrics of one named part of the cache.
//!
//! Counters are striped: each thread adds to its own stripe in its own cache lines, so that counting a hit does not
//! move a line from core to core. A snapshot adds the stripes up; it is exact once the counted calls have returned,
//! and not a consistent cut while they run.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A power of two. More threads share stripes, which is slower, not wrong.
const STRIPES: usize = 16;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Counter {
    Hits,
    NegativeHits,
    Misses,
    Coalesced,
    Stale,
    Loads,
    LoadErrors,
    Vetoed,
    RefusedByPredicate,
    RefusedBySize,
    RefusedByCapacity,
    Evictions,
    Overloaded,
    BackingOff,
    Refreshes,
    QueueTimeouts,
    RemoteHits,
    RemoteMisses,
    RemoteOutdated,
    RemoteFailed,
    RemoteSkipped,
    RemoteStored,
}

const COUNTERS: usize = Counter::RemoteStored as usize + 1;

#[derive(Debug, Default)]
#[repr(align(128))] // Two lines: processors fetch them in pairs.
struct Stripe([AtomicU64; COUNTERS]);

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    stripes: [Stripe; STRIPES],
    entries: AtomicU64,
    bytes: AtomicU64,
}

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The stripe of this thread, assigned in turn.
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    STRIPE.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
        }
        own.get()
    })
}

impl Metrics {
    pub(crate) fn count(&self, counter: Counter) {
        self.stripes[stripe()].0[counter as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn entered(&self, weight: u64) {
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(weight, Ordering::Relaxed);
    }

    pub(crate) fn left(&self, weight: u64) {
        self.entries.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(weight, Ordering::Relaxed);
    }

    fn sum(&self, counter: Counter) -> u64 {
        self.stripes.iter().map(|s| s.0[counter as usize].load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn snapshot(&self) -> MetricsSnapshot {
        MetricsSnapshot {
            hits: self.sum(Counter::Hits),
            negative_hits: self.sum(Counter::NegativeHits),
            misses: self.sum(Counter::Misses),
            coalesced: self.sum(Counter::Coalesced),
            stale_served: self.sum(Counter::Stale),
            loads: self.sum(Counter::Loads),
            load_errors: self.sum(Counter::LoadErrors),
            refreshes: self.sum(Counter::Refreshes),
            vetoed_fills: self.sum(Counter::Vetoed),
            refused_by_predicate: self.sum(Counter::RefusedByPredicate),
            refused_by_size: self.sum(Counter::RefusedBySize),
            refused_by_capacity: self.sum(Counter::RefusedByCapacity),
            evictions: self.sum(Counter::Evictions),
            overloaded: self.sum(Counter::Overloaded),
            backing_off: self.sum(Counter::BackingOff),
            queue_timeouts: self.sum(Counter::QueueTimeouts),
            remote_hits: self.sum(Counter::RemoteHits),
            remote_misses: self.sum(Counter::RemoteMisses),
            remote_outdated: self.sum(Counter::RemoteOutdated),
            remote_failed: self.sum(Counter::RemoteFailed),
            remote_skipped: self.sum(Counter::RemoteSkipped),
            remote_stored: self.sum(Counter::RemoteStored),
            entries: self.entries.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// Metrics of one named part of the cache since its creation.
///
/// Every finished `get` is counted in exactly one of `hits`, `negative_hits`, `misses`,
/// `coalesced`, `backing_off` and `overloaded`; `stale_served` counts some of them again. (A look-up that
/// joined a load which was lost with its runtime is counted again for its next step.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsSnapshot {
    /// Look-ups answered by a live entry before its soft expiry.
    pub hits: u64,
    /// Look-ups answered by a live negative entry.
    pub negative_hits: u64,
    /// Look-ups that began a load.
    pub misses: u64,
    /// Look-ups that joined a load in flight.
    pub coalesced: u64,
    /// Look-ups answered by an entry between its soft and hard expiry; each is also counted as a
    /// miss, coalesced, overloaded or backing off, by what led to it.
    pub stale_served: u64,
    /// Runs of a loader.
    pub loads: u64,
    /// Runs of a loader that failed, panicked or timed out.
    pub load_errors: u64,
    /// Runs of a loader begun in the background ahead of expiry; also counted in `loads`.
    pub refreshes: u64,
    /// Loads whose result was not stored because a write came between.
    pub vetoed_fills: u64,
    /// Loads whose result was not to be stored, by the loader or by the policy's admission.
    pub refused_by_predicate: u64,
    /// Loads whose result weighed more than `max_entry_bytes` or the whole capacity.
    pub refused_by_size: u64,
    /// Loads whose result found no room while others were filling the cache.
    pub refused_by_capacity: u64,
    /// Entries evicted to make room.
    pub evictions: u64,
    /// Look-ups that found too many loads running and waiting.
    pub overloaded: u64,
    /// Look-ups that found their key's loader failing a moment ago.
    pub backing_off: u64,
    /// Loads given up because their turn did not come within `queue_timeout`.
    pub queue_timeouts: u64,
    /// Look-ups in the shared tier that returned a body; they ran no loader.
    pub remote_hits: u64,
    /// Look-ups in the shared tier that found nothing.
    pub remote_misses: u64,
    /// Look-ups in the shared tier that found a body which may be older than a known write.
    pub remote_outdated: u64,
    /// Look-ups in the shared tier that the server did not answer in time, or refused.
    pub remote_failed: u64,
    /// Look-ups in the shared tier that were skipped, because the server failed a moment ago or is not connected yet.
    pub remote_skipped: u64,
    /// Bodies that the shared tier accepted.
    pub remote_stored: u64,
    /// Entries now, including dead ones that are not yet removed.
    pub entries: u64,
    /// Weight of those entries in bytes.
    pub bytes: u64,
}
