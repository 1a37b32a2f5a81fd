//! Requests since the last look, for a terminal.

use super::Histogram;

#[derive(Debug, Clone, Default)]
pub(crate) struct Recent {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    /// `http_req_duration` in milliseconds.
    pub(crate) durations: Histogram,
}

impl Recent {
    pub(super) fn add(&mut self, failed: bool, duration_ms: f64) {
        self.requests += 1;
        self.failed += u64::from(failed);
        self.durations.record(duration_ms);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.durations.merge(&other.durations);
    }
}
