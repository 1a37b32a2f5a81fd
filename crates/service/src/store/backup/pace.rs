//! Pauses of background work while the machine has other work.
//!
//! The lowest priority does not suffice: a thread that wakes may still wait for the end of a time slice, and priorities
//! apply only within a session (`autogroup`, sched(7)) or a control group. So a backup pauses in proportion to its work
//! while the machine has other work. On an idle machine it does not pause.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Processor time between two pauses: short beside the response times of a server.
const SLICE: Duration = Duration::from_millis(2);
/// Pause in multiples of the work: it uses a quarter of one processor.
const REST: u32 = 3;
const LONGEST_REST: Duration = Duration::from_millis(100);
/// Time between two looks at the machine's use: about 25 ticks of each processor.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The machine has other work if other processes use more than one part in so many of its processor time.
const OTHERS: u32 = 10;

/// The work of a thread since its last pause.
#[derive(Debug)]
pub(super) struct Pace {
    rested: Duration,
    looked: Instant,
    usage: Option<Usage>,
    is_busy: bool,
}

impl Pace {
    /// Starts for the calling thread. It assumes a busy machine until it has seen an idle one.
    pub(super) fn new() -> Self {
        let (rested, looked) = (cpu(ClockId::ThreadCPUTime), Instant::now());
        Self { rested, looked, usage: Usage::now(), is_busy: true }
    }

    /// Pauses when due; called about every millisecond of work.
    pub(super) fn step(&mut self) {
        let worked = cpu(ClockId::ThreadCPUTime).saturating_sub(self.rested);
        if worked < SLICE {
            return;
        }
        if self.looked.elapsed() >= LOOK_EVERY {
            let now = Usage::now();
            self.is_busy = match (&self.usage, &now) {
                (Some(before), Some(now)) => now.is_of_others_since(before),
                // The use is unknown.
                _ => true,
            };
            (self.looked, self.usage) = (Instant::now(), now);
        }
        if self.is_busy {
            std::thread::sleep((worked * REST).min(LONGEST_REST));
        }
        self.rested = cpu(ClockId::ThreadCPUTime);
    }
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time since some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Usage {
    /// Time of all processors, idle included.
    all: Duration,
    used: Duration,
    /// Used by this process.
    own: Duration,
}

impl Usage {
    /// `None` if `/proc/stat` cannot be read.
    fn now() -> Option<Self> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        Self::of(&text, cpu(ClockId::ProcessCPUTime))
    }

    /// From the first line of `/proc/stat`, which counts ticks: user, nice, system, idle, iowait, irq, softirq, steal
    /// (proc(5)).
    fn of(stat: &str, own: Duration) -> Option<Self> {
        let ticks: Vec<u64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_ascii_whitespace()
            .take(8)
            .map_while(|number| number.parse().ok())
            .collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        let all: u64 = ticks.iter().sum();
        let second = rustix::param::clock_ticks_per_second();
        let time = |ticks: u64| Duration::from_millis(ticks.saturating_mul(1000) / second.max(1));
        Some(Self { all: time(all), used: time(all.saturating_sub(idle)), own })
    }

    /// Whether other processes have used much of the machine since `before`.
    fn is_of_others_since(&self, before: &Self) -> bool {
        let [all, used, own] = [
            self.all.saturating_sub(before.all),
            self.used.saturating_sub(before.used),
            self.own.saturating_sub(before.own),
        ];
        used.saturating_sub(own) * OTHERS > all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(stat: &str, own_ms: u64) -> Usage {
        Usage::of(stat, Duration::from_millis(own_ms)).unwrap()
    }

    #[test]
    fn the_machine_is_busy_when_others_use_a_tenth_of_it() {
        let second = rustix::param::clock_ticks_per_second();
        // Two processors for one second: 100 of 200 parts used, if a second has 100 ticks.
        let stat = |used: u64| {
            let [used, idle] = [used, 200 - used].map(|parts| parts * second / 100);
            format!("cpu  {used} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\n")
        };
        let before = usage("cpu  0 0 0 0 0 0 0 0 0 0\n", 0);
        assert!(usage(&stat(100), 0).is_of_others_since(&before), "all of it is of others");
        assert!(!usage(&stat(100), 1000).is_of_others_since(&before), "all of it is its own");
        assert!(!usage(&stat(100), 850).is_of_others_since(&before));
        assert!(usage(&stat(100), 750).is_of_others_since(&before));
        assert_eq!(Usage::of("cpu  1 2\n", Duration::ZERO), None);
        assert_eq!(Usage::of("", Duration::ZERO), None);
    }

    #[test]
    fn work_on_a_busy_machine_takes_longer_than_its_processor_time() {
        let (began, worked) = (Instant::now(), cpu(ClockId::ThreadCPUTime));
        // Unknown, so busy.
        let mut pace = Pace { usage: None, ..Pace::new() };
        while cpu(ClockId::ThreadCPUTime) - worked < Duration::from_millis(40) {
            pace.step();
        }
        // It has rested three times as long after each slice but the last.
        assert!(began.elapsed() >= Duration::from_millis(120), "{:?}", began.elapsed());
    }
}
