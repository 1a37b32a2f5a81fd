//! Clients that take an answer too slowly.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a client must take within the write deadline while something waits for it: with the default of
/// 15 s, 70 kbit/s. Slower, an answer of a few megabytes would be held in memory for a quarter of an hour.
const WRITE_PROGRESS_BYTES: u64 = 128 * 1024;

/// The pace of a client that takes less than there is to write. Time counts while the socket refuses
/// bytes, over any number of answers and pieces of them, until enough was taken.
#[derive(Debug, Default)]
pub(super) struct SlowWrite {
    /// When the socket last refused bytes; 0 = it takes them.
    pub(super) blocked_since: AtomicU64,
    /// How long it refused them before that, since `taken` began.
    waited_ms: AtomicU64,
    /// Bytes since the first refusal, or since there was enough progress.
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

    /// Nothing waits to be written any more, so the client need not take anything.
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
