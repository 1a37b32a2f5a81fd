//! The clock of the cache, which a test can stop.
//!
//! Only expiry reads it. Timeouts (soft, load, queue) use the timer of the waiting runtime.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A monotonic clock.
pub trait Clock: Send + Sync + 'static {
    /// Time since an arbitrary origin; never decreases.
    fn now(&self) -> Duration;
}

/// The time of the process.
///
/// It reads [`tokio::time::Instant`], which is the operating system's monotonic clock, except
/// inside a runtime whose time a test has paused: there it stands still with the timers.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

/// It begins at zero.
impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }
}

/// A clock for tests: it starts at zero and moves only when a test advances it.
#[derive(Debug, Default)]
pub struct ManualClock {
    nanos: AtomicU64,
}

impl ManualClock {
    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(nanos(by), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

/// Whole nanoseconds, saturating after 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
