//! Clients that read a response too slowly.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bytes that a client must read within the write deadline: 70 kbit/s with the default of 15 s. A slower client would
/// hold a response of some megabytes in memory for a quarter of an hour.
const WRITE_PROGRESS_BYTES: u64 = 128 * 1024;

/// The pace of a slow client. Time counts while the socket accepts no bytes, across responses, until the client has
/// read enough.
#[derive(Debug, Default)]
pub(super) struct SlowWrite {
    /// Time at which the socket last refused bytes; 0 = it accepts them.
    pub(super) blocked_since: AtomicU64,
    /// Earlier waits since `taken` was reset.
    waited_ms: AtomicU64,
    /// Bytes read since the first refusal, or since the last sufficient progress.
    taken: AtomicU64,
}

impl SlowWrite {
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_since.load(Relaxed) != 0
    }

    pub(super) fn is_over(&self, now: u64, limit_ms: u64) -> bool {
        let since = self.blocked_since.load(Relaxed);
        since != 0 && self.waited_ms.load(Relaxed) + now.saturating_sub(since) > limit_ms
    }

    pub(super) fn block(&self, now: u64) {
        if self.is_blocked() {
            return;
        }
        if self.waited_ms.load(Relaxed) == 0 {
            self.taken.store(0, Relaxed);
        }
        self.blocked_since.store(now, Relaxed);
    }

    /// Nothing is left to write, so the client need not read.
    pub(super) fn pause(&self, now: u64) {
        let since = self.blocked_since.swap(0, Relaxed);
        self.waited_ms.fetch_add(now.saturating_sub(since), Relaxed);
    }

    pub(super) fn take(&self, bytes: usize, now: impl Fn() -> u64) {
        let blocked = self.is_blocked();
        if !blocked && self.waited_ms.load(Relaxed) == 0 {
            return;
        }
        let taken = self.taken.load(Relaxed) + bytes as u64;
        if taken < WRITE_PROGRESS_BYTES {
            self.taken.store(taken, Relaxed);
            return;
        }
        self.taken.store(0, Relaxed);
        self.waited_ms.store(0, Relaxed);
        if blocked {
            self.blocked_since.store(now(), Relaxed);
        }
    }
}
