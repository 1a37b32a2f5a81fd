//! Time that a request spends in each of its parts, if it is recorded.
//!
//! A part is timed where the request waits for it, by one line ([`crate::current::time`]), which costs a task-local
//! lookup while nothing is recorded. Work shared by several requests, such as a load for the cache, runs in its own
//! task and counts as one wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Parts of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Receiving the body.
    Body,
    /// Waiting at a gate.
    Queue,
    /// Waiting for a body that is not cached: queue, reads and serialization.
    Load,
    /// Transactions, including the wait for a thread of the store.
    Store,
    /// Hashing a password, including the wait for a thread.
    Hash,
    /// Waiting for the writes of other nodes, or until they know of a write.
    Cluster,
}

impl Part {
    /// Members of the access log, in the order of the variants.
    pub(super) const NAMES: [&str; 6] =
        ["body_us", "queue_us", "load_us", "store_us", "hash_us", "cluster_us"];
}

/// Figures of one request so far.
#[derive(Debug, Default)]
pub(crate) struct Spent {
    micros: [AtomicU64; Part::NAMES.len()],
    cache: AtomicU8,
}

const HIT: u8 = 1;
const MISS: u8 = 2;

impl Spent {
    /// Times a part until the timer is dropped.
    pub(crate) fn time(self: &Arc<Self>, part: Part) -> Timer {
        Timer { spent: Arc::clone(self), part, started: Instant::now() }
    }

    /// Records whether the body was cached. One miss makes it a miss.
    pub(crate) fn cached(&self, hit: bool) {
        self.cache.fetch_max(if hit { HIT } else { MISS }, Relaxed);
    }

    /// Result of the cache lookup; `None` without one.
    pub(super) fn was_cached(&self) -> Option<bool> {
        match self.cache.load(Relaxed) {
            HIT => Some(true),
            MISS => Some(false),
            _ => None,
        }
    }

    pub(super) fn micros(&self) -> [u64; Part::NAMES.len()] {
        self.micros.each_ref().map(|part| part.load(Relaxed))
    }
}

/// A part in progress.
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

pub(crate) fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}
