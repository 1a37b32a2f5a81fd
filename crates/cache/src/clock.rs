//! Where the cache reads the time, so that a test can hold it still.
//!
//! Only expiry reads this clock. Waiting (soft timeout, load timeout, queue timeout) always uses
//! the timer of the runtime that waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// A monotonic clock.
pub trait Clock: Send + Sync + 'static {
    /// Time since an origin of the clock's own choice; never decreases.
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
