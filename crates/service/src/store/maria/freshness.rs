//! Whether this node may answer a request from memory: see the crate `madang-positions`.

use crate::store::{Result, StoreError};
use madang_positions::{Moment, Timing};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Time after the last request until polls come only every [`IDLE`].
const SERVING: Duration = Duration::from_secs(1);
/// Time between two polls without requests: they keep the lane, and the number of new rows small.
const IDLE: Duration = Duration::from_millis(500);

/// Start of the latest complete poll, and the requests that wait for the next.
#[derive(Debug)]
pub struct Freshness {
    timing: Timing,
    /// Time between two polls while requests come.
    pub(super) every: Duration,
    /// Longest wait of a request for a poll.
    patience: Duration,
    /// Start of the latest complete poll, in nanoseconds since boot; 0 means none.
    polled_from: AtomicU64,
    /// Time of the last request, in nanoseconds since boot.
    asked: AtomicU64,
    polled: Notify,
    waits: AtomicU64,
    polls: AtomicU64,
    /// Whether a request waits for a poll.
    wanted: Mutex<bool>,
    wake: Condvar,
}

/// The time of the clock that also runs while the machine is suspended.
pub fn now() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    Moment(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

impl Freshness {
    pub(super) fn new(timing: Timing, every: Duration, patience: Duration) -> Self {
        let (polled_from, asked, polled, waits, polls) = Default::default();
        let (wanted, wake) = Default::default();
        Self { timing, every, patience, polled_from, asked, polled, waits, polls, wanted, wake }
    }

    /// Returns once this node may answer a request that arrived then from memory.
    ///
    /// # Errors
    /// No poll was complete in time: the database is unavailable or too slow.
    pub async fn until_fresh(&self, arrival: Moment) -> Result<()> {
        // Once a millisecond is enough: a cache line that all cores write is expensive.
        if arrival.0.saturating_sub(self.asked.load(Relaxed)) > 1_000_000 {
            self.asked.store(arrival.0, Relaxed);
        }
        if self.covers(arrival) {
            return Ok(());
        }
        self.waits.fetch_add(1, Relaxed);
        let wait = async {
            loop {
                let polled = self.polled.notified();
                if self.covers(arrival) {
                    return;
                }
                self.want();
                polled.await;
            }
        };
        let late = || StoreError::Unreachable("it has not said in time what is new".to_owned());
        timeout(self.patience, wait).await.map_err(|_| late())
    }

    fn covers(&self, arrival: Moment) -> bool {
        let from = self.polled_from.load(Acquire);
        from > 0 && self.timing.covers(Moment(from), arrival)
    }

    /// Makes the next poll due.
    pub(super) fn want(&self) {
        *self.wanted.lock() = true;
        self.wake.notify_one();
    }

    /// Notes that a complete poll that began then is applied.
    pub(super) fn polled(&self, began: Moment) {
        self.polls.fetch_add(1, Relaxed);
        self.polled_from.fetch_max(began.0, AcqRel);
        self.polled.notify_waiters();
    }

    /// Nothing in memory may be used until the next poll.
    pub(super) fn lost(&self) {
        self.polled_from.store(0, Release);
    }

    /// Blocks until the next poll is due.
    pub(super) fn until_due(&self) {
        let pause = if self.is_idle() { IDLE } else { self.every };
        let mut wanted = self.wanted.lock();
        self.wake.wait_while_for(&mut wanted, |wanted| !*wanted, pause);
        *wanted = false;
    }

    /// Whether there was no request lately.
    pub(super) fn is_idle(&self) -> bool {
        SERVING < Duration::from_nanos(now().0.saturating_sub(self.asked.load(Relaxed)))
    }

    /// Time between the commit of a write and its response.
    pub(crate) fn delay(&self) -> Duration {
        self.timing.delay()
    }

    /// Time since the start of the latest complete poll; `None` before the first.
    pub(super) fn age(&self) -> Option<Duration> {
        let from = self.polled_from.load(Acquire);
        (from > 0).then(|| Duration::from_nanos(now().0.saturating_sub(from)))
    }

    /// Numbers of polls, and of requests that waited for one.
    pub fn metrics(&self) -> (u64, u64) {
        (self.polls.load(Relaxed), self.waits.load(Relaxed))
    }
}
