//! Limits on log lines that clients, or a lasting fault, could otherwise repeat without end.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

/// Admits one line per interval and counts the others.
#[derive(Debug)]
pub(crate) struct QuietLog {
    interval: u64,
    /// Time of the last line, in seconds since 1970.
    last: AtomicU64,
    unsaid: AtomicU64,
}

impl QuietLog {
    pub(crate) const fn every_seconds(interval: u64) -> Self {
        Self { interval, last: AtomicU64::new(0), unsaid: AtomicU64::new(0) }
    }

    /// `None` = omit the line; else the number of lines omitted since the last admitted one.
    pub(crate) fn admit(&self) -> Option<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let last = self.last.load(Relaxed);
        let is_due = now.abs_diff(last) >= self.interval
            && self.last.compare_exchange(last, now, Relaxed, Relaxed).is_ok();
        if !is_due {
            self.unsaid.fetch_add(1, Relaxed);
            return None;
        }
        Some(self.unsaid.swap(0, Relaxed))
    }
}
