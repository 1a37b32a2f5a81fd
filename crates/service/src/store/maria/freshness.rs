//! Whether what this node remembers may be used for a request: see the crate `madang-positions`.

use crate::store::{Result, StoreError};
use madang_positions::{Moment, Timing};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// For this long after the last request polls keep their pace; then one comes every [`IDLE`].
const SERVING: Duration = Duration::from_secs(1);
/// Time between two polls while nobody asks: they keep the lane, and the list of what is new short.
const IDLE: Duration = Duration::from_millis(500);

/// When the latest complete poll began, and who waits for the next.
#[derive(Debug)]
pub struct Freshness {
    timing: Timing,
    /// Time between two polls while requests come.
    every: Duration,
    /// Time that a request waits for a poll.
    patience: Duration,
    /// In nanoseconds since boot; 0: there is none.
    polled_from: AtomicU64,
    /// When a request last asked, likewise.
    asked: AtomicU64,
    polled: Notify,
    waits: AtomicU64,
    polls: AtomicU64,
    /// Whether somebody waits for a poll.
    wanted: Mutex<bool>,
    wake: Condvar,
}

/// Now, by the clock that also runs while the machine is suspended.
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

    /// Returns once this node may answer a request that arrived then from what it remembers.
    ///
    /// # Errors
    /// When no poll has come in time: the database is away, or too slow.
    pub async fn until_fresh(&self, arrival: Moment) -> Result<()> {
        // Once a millisecond is often enough, and a line of memory that all cores write is not free.
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

    fn want(&self) {
        *self.wanted.lock() = true;
        self.wake.notify_one();
    }

    /// A complete poll that began then is applied.
    pub(super) fn polled(&self, began: Moment) {
        self.polls.fetch_add(1, Relaxed);
        self.polled_from.fetch_max(began.0, AcqRel);
        self.polled.notify_waiters();
    }

    /// What this node remembers must not be used until the next poll.
    pub(super) fn lost(&self) {
        self.polled_from.store(0, std::sync::atomic::Ordering::Release);
    }

    /// Blocks until the next poll is due.
    pub(super) fn until_due(&self) {
        let pause = if self.is_idle() { IDLE } else { self.every };
        let mut wanted = self.wanted.lock();
        self.wake.wait_while_for(&mut wanted, |wanted| !*wanted, pause);
        *wanted = false;
    }

    /// Whether nobody has asked this node for anything lately.
    pub(super) fn is_idle(&self) -> bool {
        SERVING < Duration::from_nanos(now().0.saturating_sub(self.asked.load(Relaxed)))
    }

    /// Time between two polls while requests come.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// Ends the wait for the next poll.
    pub(super) fn wake(&self) {
        self.want();
    }

    /// How long answers to writes wait after their commit.
    pub(in crate::store) fn delay(&self) -> Duration {
        self.timing.delay()
    }

    /// Time since the latest complete poll began; nothing before the first.
    pub(super) fn age(&self) -> Option<Duration> {
        let from = self.polled_from.load(Acquire);
        (from > 0).then(|| Duration::from_nanos(now().0.saturating_sub(from)))
    }

    /// Polls so far, and requests that had to wait for one.
    pub fn metrics(&self) -> (u64, u64) {
        (self.polls.load(Relaxed), self.waits.load(Relaxed))
    }
}
