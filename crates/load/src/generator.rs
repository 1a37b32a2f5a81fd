//! Self-monitoring: a load generator that is the bottleneck measures itself, not the server.
//!
//! Every event loop has a timer of 10 ms. Its lateness is the wait of anything else on that loop, and so the error of
//! every measured duration. The CPU time of the thread completes the picture. Time without a processor, used by other
//! processes or a hypervisor's other guests, counts like computing: a loop that shares its processor reaches its limit
//! long before it has used all of it.

use std::cell::Cell;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;
use tokio::time::Instant;

use crate::metrics::Histogram;

/// Interval of the timer, which has a resolution of a millisecond.
const TICK: Duration = Duration::from_millis(10);

/// CPU share of a loop above which queues form.
pub(crate) const BUSY_LIMIT: f64 = 0.9;

/// Least window for the evaluation of CPU use: starting and ending weigh too much in a shorter one.
pub(crate) const MIN_BUSY_WINDOW_SECONDS: f64 = 1.0;

/// Lateness of the timer (99th percentile) above which durations are unreliable.
pub(crate) const LAG_LIMIT_MS: f64 = 20.0;

/// State of one event loop or, merged, of all.
#[derive(Debug, Clone, Default)]
pub(crate) struct LoopHealth {
    /// Lateness of the timer in milliseconds.
    pub(crate) lag: Histogram,
    /// Start lag of iterations in open models, in milliseconds.
    pub(crate) start_lag: Histogram,
    /// Largest CPU share of a loop.
    pub(crate) busiest: f64,
    /// Largest share with CPU use or waiting for a processor: all but idle time.
    pub(crate) wanting: f64,
    /// Watched time; the longest of those merged.
    pub(crate) watched: Duration,
}

impl LoopHealth {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.lag.merge(&other.lag);
        self.start_lag.merge(&other.start_lag);
        self.busiest = self.busiest.max(other.busiest);
        self.wanting = self.wanting.max(other.wanting);
        self.watched = self.watched.max(other.watched);
    }

    /// With shares of the whole `run`: a loop whose virtual users have ended is idle.
    pub(crate) fn over(self, run: Duration) -> Self {
        let part = (self.watched.as_secs_f64() / run.as_secs_f64().max(1e-9)).min(1.0);
        Self { busiest: self.busiest * part, wanting: self.wanting * part, ..self }
    }
}

pub(crate) async fn watch_lag(record: impl Fn(f64)) {
    loop {
        let due = Instant::now() + TICK;
        tokio::time::sleep_until(due).await;
        // Tokio rounds a timer up to the next millisecond.
        let late =
            Instant::now().saturating_duration_since(due).saturating_sub(Duration::from_millis(1));
        record(late.as_secs_f64() * 1e3);
    }
}

pub(crate) fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// Time in which the calling thread waited for a processor; zero where the kernel does not count it. The second field
/// of `schedstat` (Linux, Documentation/scheduler/sched-stats).
pub(crate) fn thread_waited() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok());
    nanoseconds.map_or(Duration::ZERO, Duration::from_nanos)
}

thread_local! {
    /// Idle time of this event loop, `None` when not counted.
    static REST: Cell<Option<Duration>> = const { Cell::new(None) };
    static IDLE_SINCE: Cell<Option<std::time::Instant>> = const { Cell::new(None) };
}

/// Counts the idle time of a runtime's loop.
pub(crate) fn watch_rest(runtime: &mut Builder) -> &mut Builder {
    let begin = || {
        REST.set(REST.get().or(Some(Duration::ZERO)));
        IDLE_SINCE.set(Some(std::time::Instant::now()));
    };
    let end = || {
        let idle = IDLE_SINCE.take().map_or(Duration::ZERO, |since| since.elapsed());
        REST.set(REST.get().map(|rest| rest + idle));
    };
    runtime.on_thread_park(begin).on_thread_unpark(end)
}

/// Times of an event loop's thread so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    cpu: Duration,
    waited: Duration,
    /// `None` when not counted.
    rest: Option<Duration>,
}

impl Spent {
    pub(crate) fn now() -> Self {
        Self { cpu: thread_cpu(), waited: thread_waited(), rest: REST.get() }
    }

    /// CPU share since `then`, and share with CPU use or waiting for a processor. The latter is at least all but idle
    /// time: neither counter of the kernel includes time that a hypervisor gives to others. Waiting after idle time is
    /// counted by the kernel.
    pub(crate) fn shares(&self, then: &Self, elapsed: Duration) -> (f64, f64) {
        let share = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        let used = self.cpu.saturating_sub(then.cpu);
        let waited = self.waited.saturating_sub(then.waited);
        let rest = self.rest.map(|rest| rest.saturating_sub(then.rest.unwrap_or_default()));
        let no_rest = rest.map_or(0.0, |rest| 1.0 - share(rest));
        (share(used), share(used + waited).max(no_rest))
    }
}

pub(crate) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Available processors, by affinity mask and container quota.
pub(crate) fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) reason: String,
    /// Only because other processes used the processor.
    pub(crate) starved: bool,
}

/// The limit reached by requests that failed for want of a file descriptor or port.
pub(crate) fn exhausted(requests: u64) -> Option<Limit> {
    (requests > 0).then(|| Limit {
        reason: format!(
            "{requests} of its requests found no file descriptor or port left (`ulimit -n`; \
             net.ipv4.ip_local_port_range)"
        ),
        starved: false,
    })
}

/// The limit reached, if the generator looks like the bottleneck. Dropped iterations are no sign of it: with a slow
/// server, too, all virtual users wait or `maxDuration` ends. A generator that cannot start iterations in time is busy
/// or late.
pub(crate) fn verdict(health: &LoopHealth, cpu_seconds: f64, wall_seconds: f64) -> Option<Limit> {
    let own = |reason: String| Some(Limit { reason, starved: false });
    let cores = available_cores() as f64;
    let long_enough = wall_seconds >= MIN_BUSY_WINDOW_SECONDS;
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    if long_enough && health.busiest > BUSY_LIMIT {
        return own(format!("an event loop was busy {} of the time", percent(health.busiest)));
    }
    let used = if long_enough { cpu_seconds / wall_seconds } else { 0.0 };
    if used > BUSY_LIMIT * cores {
        return own(format!("it used {used:.2} of the {cores} processor cores it may use"));
    }
    let lag = health.lag.quantile(0.99);
    if lag > LAG_LIMIT_MS {
        return own(format!("its event loops ran {lag:.1} ms late (99th percentile)"));
    }
    let start_lag = health.start_lag.quantile(0.99);
    if start_lag > LAG_LIMIT_MS {
        return own(format!("iterations started {start_lag:.1} ms late (99th percentile)"));
    }
    (long_enough && health.wanting > BUSY_LIMIT).then(|| Limit {
        reason: format!(
            "an event loop was busy {} of the time and {} with its waits for a processor",
            percent(health.busiest),
            percent(health.wanting)
        ),
        starved: true,
    })
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
    fn a_busy_late_or_starved_generator_says_so() {
        let starved = |health: &LoopHealth| verdict(health, 0.1, 1.0).map(|limit| limit.starved);
        let busy = LoopHealth { busiest: 0.95, wanting: 0.97, ..LoopHealth::default() };
        assert_eq!(starved(&busy), Some(false));
        let mut lag = Histogram::default();
        (0..100).for_each(|_| lag.record(50.0));
        let late = LoopHealth { lag: lag.clone(), ..LoopHealth::default() };
        assert_eq!(starved(&late), Some(false));
        let late = LoopHealth { start_lag: lag, ..LoopHealth::default() };
        assert_eq!(starved(&late), Some(false));
        let hungry = LoopHealth { busiest: 0.6, wanting: 0.97, ..LoopHealth::default() };
        assert_eq!(starved(&hungry), Some(true));
        let reason = verdict(&hungry, 0.1, 1.0).unwrap().reason;
        assert!(reason.contains("60 %") && reason.contains("97 %"), "{reason}");
    }

    #[test]
    fn a_window_of_less_than_a_second_does_not_say_how_busy_it_was() {
        let busy = LoopHealth { busiest: 1.0, wanting: 1.0, ..LoopHealth::default() };
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

    /// Time that is neither CPU time nor idle, as when a hypervisor takes the processor; here the thread sleeps without
    /// its runtime.
    #[test]
    fn a_loop_that_is_neither_computing_nor_at_rest_has_no_time_left() {
        let shares = |sleep_inside: bool| {
            let mut runtime = Builder::new_current_thread();
            let runtime = watch_rest(runtime.enable_all()).build().unwrap();
            runtime.block_on(async {
                // Starts the count.
                tokio::time::sleep(Duration::from_millis(1)).await;
                let (start, then) = (Instant::now(), Spent::now());
                if sleep_inside {
                    std::thread::sleep(Duration::from_millis(50));
                } else {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Spent::now().shares(&then, start.elapsed())
            })
        };
        let in_thread = |inside| {
            std::thread::scope(|scope| scope.spawn(move || shares(inside)).join().unwrap())
        };
        let (busiest, wanting) = in_thread(true);
        let (_, rested) = in_thread(false);
        assert!(busiest < wanting && rested < wanting, "{busiest} {wanting}, and {rested} at rest");
    }

    /// Eight threads compute on one processor: each waits most of the time.
    #[test]
    fn a_thread_that_shares_its_processor_waits_for_it() {
        // Together: a late thread would have the processor to itself.
        let all_started = std::sync::Barrier::new(8);
        let compute = || {
            all_started.wait();
            let start = std::time::Instant::now();
            let before = (thread_cpu(), thread_waited());
            // On one processor.
            let mut cpus = rustix::thread::sched_getaffinity(None).unwrap();
            let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu)).unwrap();
            cpus.clear();
            cpus.set(first);
            rustix::thread::sched_setaffinity(None, &cpus).unwrap();
            while thread_cpu() - before.0 < Duration::from_millis(30) {}
            (thread_waited() - before.1, start.elapsed())
        };
        let all: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(compute)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let waited: Duration = all.iter().map(|(waited, _)| *waited).sum();
        let took: Duration = all.iter().map(|(_, took)| *took).sum();
        assert!(waited > took / 2 && waited <= took, "{all:?}");
    }
}
