//! Metrics of a pool.

use std::time::Duration;

/// Metrics of a pool since its start. Every job given to it ends in exactly one of `done`, `failed`,
/// `refused`, `expired`, `abandoned` and `closed`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PoolMetrics {
    /// Jobs being hashed now.
    pub running: usize,
    /// Jobs waiting now.
    pub queued: usize,
    /// Jobs hashed to the end, also after their callers left.
    pub done: u64,
    /// Jobs that began and gave no result.
    pub failed: u64,
    /// Jobs refused at once.
    pub refused: u64,
    /// Jobs admitted that did not begin in time.
    pub expired: u64,
    /// Jobs whose caller left before they began.
    pub abandoned: u64,
    /// Jobs that waited, or came, when the pool closed.
    pub closed: u64,
    /// Wall time spent hashing, summed over the threads.
    pub hashing: Duration,
    /// Moving average of the wall time of one job, used by admission. Zero until one has ended.
    pub hash_time: Duration,
    /// Maximum of `queued`.
    pub queued_max: usize,
    /// Maximum of `running`.
    pub running_max: usize,
    /// Memory kept for argon2id now, in bytes, over all threads.
    pub memory_bytes: usize,
}

impl PoolMetrics {
    pub(super) fn queued(&mut self, now_queued: usize) {
        self.queued_max = self.queued_max.max(now_queued);
    }

    pub(super) fn begun(&mut self) {
        self.running += 1;
        self.running_max = self.running_max.max(self.running);
    }

    pub(super) fn ended(&mut self, took: Duration, failed: bool) {
        self.running -= 1;
        *(if failed { &mut self.failed } else { &mut self.done }) += 1;
        self.hashing += took;
        // As RFC 6298 smooths round-trip times: the first as it is, then 1/8 for the newest.
        self.hash_time = match self.hash_time {
            Duration::ZERO => took,
            so_far => so_far * 7 / 8 + took / 8,
        };
    }
}
