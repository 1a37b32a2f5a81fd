//! Where the time of a request goes: what each part of its way took, as far as it is recorded.
//!
//! A part is timed where the request waits for it, by one line at that place ([`crate::current::time`]). That line
//! costs a look at the task while nothing is recorded. Work that several requests share, such as a load of the
//! cache, runs in a task of its own and is seen here as one wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Parts of a request's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Receiving its body.
    Body,
    /// Waiting for a turn among reads, writes or uploads.
    Queue,
    /// Waiting for a body that the cache does not have: its turn, its reads and its writing.
    Load,
    /// Transactions, with the wait for a thread of the store.
    Store,
    /// Hashing a password, with the wait for a thread.
    Hash,
    /// Waiting for what other nodes have written, or until they know of a write.
    Cluster,
}

impl Part {
    /// All of them, in the order of their figures.
    pub(super) const ALL: [Part; 6] =
        [Part::Body, Part::Queue, Part::Load, Part::Store, Part::Hash, Part::Cluster];

    /// Names of their figures.
    pub(super) const NAMES: [&str; 6] =
        ["body_us", "queue_us", "load_us", "store_us", "hash_us", "cluster_us"];
}

/// What is known so far of one request.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    micros: [AtomicU64; Part::ALL.len()],
    cache: AtomicU8,
}

const HIT: u8 = 1;
const MISS: u8 = 2;

impl Spent {
    /// Times a part until the answer is dropped.
    pub(crate) fn time(self: &Arc<Self>, part: Part) -> Timer {
        Timer { spent: Arc::clone(self), part, started: Instant::now() }
    }

    /// Notes whether its body was in the cache. One miss makes it a miss.
    pub(crate) fn cached(&self, hit: bool) {
        self.cache.fetch_max(if hit { HIT } else { MISS }, Relaxed);
    }

    /// Whether its body was in the cache; `None` when it did not ask.
    pub(super) fn was_cached(&self) -> Option<bool> {
        match self.cache.load(Relaxed) {
            HIT => Some(true),
            MISS => Some(false),
            _ => None,
        }
    }

    pub(super) fn micros(&self) -> [u64; Part::ALL.len()] {
        self.micros.each_ref().map(|part| part.load(Relaxed))
    }
}

/// A part that is under way.
#[derive(Debug)]
#[must_use = "a part lasts as long as its timer"]
pub(crate) struct Timer {
    spent: Arc<Spent>,
    part: Part,
    started: Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        let took = micros(self.started.elapsed());
        self.spent.micros[self.part as usize].fetch_add(took, Relaxed);
    }
}

/// Whole microseconds.
pub(crate) fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}
