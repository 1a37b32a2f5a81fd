//! Metrics of one named part of the cache.
//!
//! Counters are striped: each thread adds to its own stripe in its own cache lines, so that counting a hit does not
//! move a line from core to core. A snapshot adds the stripes up; it is exact once the counted calls have returned,
//! and not a consistent cut while they run.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A power of two. More threads share stripes, which is slower, not wrong.
const STRIPES: usize = 16;

/// Declares each counter once: its variant of [`Counter`] and its field of [`MetricsSnapshot`].
macro_rules! counters {
    ($($(#[$doc:meta])+ $counter:ident => $field:ident,)+) => {
        #[derive(Clone, Copy, Debug)]
        pub(crate) enum Counter {
            $($counter),+
        }

        const COUNTERS: usize = [$(Counter::$counter),+].len();

        /// Metrics of one named part of the cache since its creation.
        ///
        /// Every finished `get` is counted in exactly one of `hits`, `negative_hits`, `misses`,
        /// `coalesced`, `backing_off` and `overloaded`; `stale_served` counts some of them again. (A look-up that
        /// joined a load which was lost with its runtime is counted again for its next step.)
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct MetricsSnapshot {
            $($(#[$doc])+ pub $field: u64,)+
            /// Entries now, including dead ones that are not yet removed.
            pub entries: u64,
            /// Weight of those entries in bytes.
            pub bytes: u64,
        }

        impl Metrics {
            pub(crate) fn snapshot(&self) -> MetricsSnapshot {
                MetricsSnapshot {
                    $($field: self.sum(Counter::$counter),)+
                    entries: self.entries.load(Ordering::Relaxed),
                    bytes: self.bytes.load(Ordering::Relaxed),
                }
            }
        }
    };
}

counters! {
    /// Look-ups answered by a live entry before its soft expiry.
    Hits => hits,
    /// Look-ups answered by a live negative entry.
    NegativeHits => negative_hits,
    /// Look-ups that began a load.
    Misses => misses,
    /// Look-ups that joined a load in flight.
    Coalesced => coalesced,
    /// Look-ups answered by an entry between its soft and hard expiry; each is also counted as a
    /// miss, coalesced, overloaded or backing off, by what led to it.
    Stale => stale_served,
    /// Runs of a loader.
    Loads => loads,
    /// Runs of a loader that failed, panicked or timed out.
    LoadErrors => load_errors,
    /// Runs of a loader begun in the background ahead of expiry; also counted in `loads`.
    Refreshes => refreshes,
    /// Loads whose result was not stored because a write came between.
    Vetoed => vetoed_fills,
    /// Loads whose result was not to be stored, by the loader or by the policy's admission.
    RefusedByPredicate => refused_by_predicate,
    /// Loads whose result weighed more than `max_entry_bytes` or the whole capacity.
    RefusedBySize => refused_by_size,
    /// Loads whose result found no room while others were filling the cache.
    RefusedByCapacity => refused_by_capacity,
    /// Entries evicted to make room.
    Evictions => evictions,
    /// Look-ups that found too many loads running and waiting.
    Overloaded => overloaded,
    /// Look-ups that found their key's loader failing a moment ago.
    BackingOff => backing_off,
    /// Loads given up because their turn did not come within `queue_timeout`.
    QueueTimeouts => queue_timeouts,
    /// Look-ups in the shared tier that returned a body; they ran no loader.
    RemoteHits => remote_hits,
    /// Look-ups in the shared tier that found nothing.
    RemoteMisses => remote_misses,
    /// Look-ups in the shared tier that found a body which may be older than a known write.
    RemoteOutdated => remote_outdated,
    /// Look-ups in the shared tier that the server did not answer in time, or refused.
    RemoteFailed => remote_failed,
    /// Look-ups in the shared tier that were skipped, because the server failed a moment ago or is not connected yet.
    RemoteSkipped => remote_skipped,
    /// Bodies that the shared tier accepted.
    RemoteStored => remote_stored,
}

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
}
