//! The guard's clock, which tests can stop.
//!
//! Windows, delays and memory use its monotonic time. Challenges and device tokens expire by its date, because other
//! nodes and later processes read them. Waiting always uses the timer of the runtime.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A monotonic clock with a date.
pub trait Clock: Send + Sync + 'static {
    /// Time since an origin of the clock's own choice; never decreases.
    fn now(&self) -> Duration;

    /// Seconds since 1970-01-01T00:00:00Z. May leap, in both directions.
    fn unix_seconds(&self) -> u64;
}

/// The clock of the process.
///
/// It reads [`tokio::time::Instant`]: the operating system's monotonic clock, except inside a runtime whose time a
/// test has paused. The date is the system's; one before 1970 counts as 1970.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }
}

/// A clock for tests that moves only when [`advance`](Self::advance) is called. It begins at zero, at
/// [`EPOCH`](Self::EPOCH).
#[derive(Debug)]
pub struct ManualClock {
    nanos: AtomicU64,
    /// Unix seconds at zero of the monotonic time, wrapping.
    epoch: AtomicU64,
}

impl ManualClock {
    /// The date of a new clock: 2026-01-01T00:00:00Z.
    pub const EPOCH: u64 = 1_767_225_600;

    /// Moves the clock forward, the date with it.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(nanos(by), Ordering::Relaxed);
    }

    /// Sets the date; the monotonic time does not change.
    pub fn set_unix_seconds(&self, date: u64) {
        self.epoch.store(date.wrapping_sub(self.now().as_secs()), Ordering::Relaxed);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self { nanos: AtomicU64::new(0), epoch: AtomicU64::new(Self::EPOCH) }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    fn unix_seconds(&self) -> u64 {
        self.epoch.load(Ordering::Relaxed).wrapping_add(self.now().as_secs())
    }
}

/// Whole nanoseconds, saturating after 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
