//! Counters of likes.

use super::{LikeError, Liked};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Figures of likes since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LikeMetrics {
    /// Requests answered with their new state.
    pub acknowledged: u64,
    /// Likes added or removed.
    pub changed: u64,
    /// Rows added or removed when the log was applied.
    pub applied: u64,
    /// Transactions of `changed`, including those that changed nothing.
    pub batches: u64,
    /// Likes that wait for a commit now, or that are acknowledged and not in their tables.
    pub pending: u64,
    /// Age of the oldest acknowledged like that is not in its table; 0 without one.
    pub lag: Duration,
    /// Failed writes of acknowledged likes, each retried.
    pub failed_flushes: u64,
    /// Likes acknowledged by this node that the server of `likes.url` lost before they were in the tables.
    pub lost: u64,
    /// Likes refused because too many waited.
    pub refused: u64,
}

#[derive(Debug, Default)]
pub(in super::super) struct Counters {
    acknowledged: AtomicU64,
    changed: AtomicU64,
    applied: AtomicU64,
    batches: AtomicU64,
    failed_flushes: AtomicU64,
    refused: AtomicU64,
}

impl Counters {
    pub(super) fn answered(&self, done: &Result<Liked, LikeError>) {
        match done {
            Ok(_) => self.acknowledged.fetch_add(1, Relaxed),
            Err(LikeError::Full) => self.refused.fetch_add(1, Relaxed),
            Err(_) => return,
        };
    }

    pub(super) fn committed(&self, changed: u64) {
        self.batches.fetch_add(1, Relaxed);
        self.changed.fetch_add(changed, Relaxed);
    }

    pub(super) fn applied(&self, rows: u64) {
        self.applied.fetch_add(rows, Relaxed);
    }

    pub(super) fn flush_failed(&self) {
        self.failed_flushes.fetch_add(1, Relaxed);
    }

    pub(super) fn metrics(&self) -> LikeMetrics {
        LikeMetrics {
            acknowledged: self.acknowledged.load(Relaxed),
            changed: self.changed.load(Relaxed),
            applied: self.applied.load(Relaxed),
            batches: self.batches.load(Relaxed),
            failed_flushes: self.failed_flushes.load(Relaxed),
            refused: self.refused.load(Relaxed),
            ..LikeMetrics::default()
        }
    }
}
