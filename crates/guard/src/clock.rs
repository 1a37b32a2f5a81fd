//! Where the guard reads the time, so that a test can hold it still.
//!
//! Windows, delays and what is remembered go by its monotonic time; what leaves the process with
//! an expiry in it (challenges, device tokens) goes by its date, because other nodes and later
//! processes must understand it. Waiting always uses the timer of the runtime that waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

/// A monotonic clock that also tells the date.
pub trait Clock: Send + Sync + 'static {
    /// Time since an origin of the clock's own choice; never decreases.
    fn now(&self) -> Duration;

    /// Seconds since 1970-01-01T00:00:00Z. May leap, in both directions.
    fn unix_seconds(&self) -> u64;
}

/// The time of the process.
///
/// It reads [`tokio::time::Instant`], which is the operating system's monotonic clock, except
/// inside a runtime whose time a test has paused: there it stands still with the timers. The date
/// is the system's; one before 1970 counts as 1970.
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

    fn unix_seconds(&self) -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }
}

/// A clock that moves only when it is told to; for tests.
///
/// Its date is [`ManualClock::EPOCH`] plus what it was moved by, until
/// [`set_unix_seconds`](Self::set_unix_seconds) takes the date elsewhere.
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

    /// Makes the date leap, forward or back; the monotonic time stays where it is.
    pub fn set_unix_seconds(&self, date: u64) {
        self.epoch.store(date.wrapping_sub(self.now().as_secs()), Ordering::Relaxed);
    }
}

/// It stands at zero.
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
