//! At most one log line a second of a kind that clients, or a fault that lasts, can repeat without end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Admits one line a second and counts the others.
#[derive(Debug, Default)]
pub(crate) struct OncePerSecond {
    last: AtomicU64,
    unsaid: AtomicU64,
}

impl OncePerSecond {
    pub(crate) const fn new() -> Self {
        Self { last: AtomicU64::new(0), unsaid: AtomicU64::new(0) }
    }

    /// In a new second: how many lines were left out since the last one that was admitted.
    pub(crate) fn admit(&self) -> Option<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        if self.last.swap(now, Ordering::Relaxed) == now {
            self.unsaid.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.unsaid.swap(0, Ordering::Relaxed))
    }
}
