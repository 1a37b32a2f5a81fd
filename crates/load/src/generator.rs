//! The engine watches itself: a load generator that is the limit measures itself, not the server.
//!
//! Every event loop has a timer that should fire every 10 ms; how late it fires is how long
//! anything else on that loop had to wait for its turn, and therefore the size of the error in
//! every duration it measured. Together with the processor time of its thread that says whether
//! the loop kept up.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::metrics::Histogram;

/// How often the timer should fire. The timer itself counts in milliseconds.
const TICK: Duration = Duration::from_millis(10);

/// A loop that computes for a larger part of the time has no room left: queues form.
pub(crate) const BUSY_LIMIT: f64 = 0.9;

/// A window shorter than this does not say how busy the generator was.
pub(crate) const MIN_BUSY_WINDOW_SECONDS: f64 = 1.0;

/// Lateness of the timer (99th percentile) above which measured durations are not to be trusted.
pub(crate) const LAG_LIMIT_MS: f64 = 20.0;

/// What one event loop or, merged, all of them say about themselves.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoopHealth {
    /// Lateness of the timer in milliseconds.
    pub(crate) lag: Histogram,
    /// By how much iterations of open models started late, in milliseconds.
    pub(crate) start_lag: Histogram,
    /// The largest part of the measured time that a loop was computing.
    pub(crate) busiest: f64,
}

impl LoopHealth {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.lag.merge(&other.lag);
        self.start_lag.merge(&other.start_lag);
        self.busiest = self.busiest.max(other.busiest);
    }
}

/// Measures the lateness of this event loop until dropped.
pub(crate) async fn watch_lag(record: impl Fn(f64)) {
    loop {
        let due = Instant::now() + TICK;
        tokio::time::sleep_until(due).await;
        // Tokio rounds a timer up to the next millisecond; that is no lateness of the loop.
        let late =
            Instant::now().saturating_duration_since(due).saturating_sub(Duration::from_millis(1));
        record(late.as_secs_f64() * 1e3);
    }
}

/// Processor time of the calling thread so far, user and system.
pub(crate) fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// Processor time of the whole process so far, user and system.
pub(crate) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Processors this process may use: its affinity mask and, in a container, its quota.
pub(crate) fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Why the generator looks like the limit; `None` when it does not. Dropped iterations are no reason:
/// they tell that the server kept all virtual users waiting, or until `maxDuration` was over.
pub(crate) fn verdict(health: &LoopHealth, cpu_seconds: f64, wall_seconds: f64) -> Option<String> {
    let cores = available_cores() as f64;
    let lag = health.lag.quantile(0.99);
    // Starting up and shutting down weigh too much in a shorter window.
    let long_enough = wall_seconds >= MIN_BUSY_WINDOW_SECONDS;
    if long_enough && health.busiest > BUSY_LIMIT {
        let percent = health.busiest * 100.0;
        return Some(format!("an event loop was busy {percent:.0} % of the time"));
    }
    if lag > LAG_LIMIT_MS {
        return Some(format!("its event loops ran {lag:.1} ms late (99th percentile)"));
    }
    let start_lag = health.start_lag.quantile(0.99);
    if start_lag > LAG_LIMIT_MS {
        return Some(format!("iterations started {start_lag:.1} ms late (99th percentile)"));
    }
    let used = if long_enough { cpu_seconds / wall_seconds } else { 0.0 };
    (used > BUSY_LIMIT * cores)
        .then(|| format!("it used {used:.2} of the {cores} processor cores it may use"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_calm_generator_is_not_the_limit() {
        let mut health = LoopHealth { busiest: 0.5, ..LoopHealth::default() };
        (0..100).for_each(|_| health.lag.record(0.1));
        assert_eq!(verdict(&health, 0.5, 1.0), None);
    }

    #[test]
    fn a_busy_or_late_generator_says_so() {
        let busy = LoopHealth { busiest: 0.95, ..LoopHealth::default() };
        assert!(verdict(&busy, 0.1, 1.0).is_some());
        let mut late = LoopHealth::default();
        (0..100).for_each(|_| late.lag.record(50.0));
        assert!(verdict(&late, 0.1, 1.0).is_some());
        let mut late = LoopHealth::default();
        (0..100).for_each(|_| late.start_lag.record(50.0));
        assert!(verdict(&late, 0.1, 1.0).is_some());
    }

    #[test]
    fn a_window_of_less_than_a_second_does_not_say_how_busy_it_was() {
        let busy = LoopHealth { busiest: 1.0, ..LoopHealth::default() };
        assert_eq!(verdict(&busy, 1e3, 0.999), None);
        assert_eq!(verdict(&busy, 1e3, 0.0), None);
        assert!(verdict(&LoopHealth::default(), 1e3, 1.0).is_some());
    }

    #[test]
    fn processor_time_only_grows() {
        let before = (thread_cpu(), process_cpu());
        let mut x = 1u64;
        (0..100_000).for_each(|i| x = std::hint::black_box(x.wrapping_mul(i)));
        assert!(thread_cpu() > before.0 && process_cpu() > before.1);
    }
}
