//! Speed of the server's cores under load: a small, fixed piece of work is timed on them again and again.
//!
//! On a shared machine, the same work takes very different CPU times: other guests use the core's second hardware
//! thread, the caches and the clock rate, and none of that shows as steal. The cost of a request varies with it. Ratios
//! are not adjusted by the pace: that would hide a variant that slows its own core.

use std::hint::black_box;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use madang_stack::CpuList;
use serde::{Deserialize, Serialize};

use crate::observe;

/// Mean interval. With the steps below about 0.2 % of a core.
const INTERVAL: Duration = Duration::from_millis(25);
/// Jitter of each pause as a share, so that nothing periodic (a scheduler's tick, a CPU quota) is always hit or missed.
const JITTER: f64 = 0.4;
/// Timed steps: about 35 µs. Fewer without optimisation, where each takes ten times as long; a resumed run has the same
/// program, so times of two builds are never compared.
const STEPS: u32 = if cfg!(debug_assertions) { 600 } else { 6000 };
/// Untimed steps before them, to warm caches and predictors.
const WARM_UP: u32 = STEPS / 2;
/// Share of the slowest samples that is dropped: interrupts are charged to the thread that they interrupt.
const TRIM: f64 = 0.1;
/// Fewest samples of a result.
const FEWEST: usize = 10;

/// Speed of the server's cores in the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pace {
    /// CPU time of the fixed work: mean of the samples without the slowest tenth.
    pub work_us: f64,
    pub samples: u32,
}

pub(crate) struct Pacer {
    /// Dropping it stops the thread.
    stop: Sender<()>,
    thread: JoinHandle<Paces>,
}

/// Samples: seconds since 1970, and microseconds of CPU time.
#[derive(Debug, Default)]
pub(crate) struct Paces(Vec<(f64, f64)>);

impl Pacer {
    /// Starts timing on each of the CPUs in turn, or without a list on any. `None` without a thread, and when two of
    /// the CPUs share a core: the server's own use of one would slow the work down on the other.
    pub(crate) fn begin(cpus: Option<&CpuList>) -> Option<Self> {
        let all = cpus.cloned().or_else(|| CpuList::allowed().ok())?;
        if all.cores().iter().any(|threads| threads.len() > 1) {
            return None;
        }
        let cpus: Vec<CpuList> = cpus.map_or_else(Vec::new, |cpus| {
            cpus.as_slice().iter().filter_map(|cpu| CpuList::new([*cpu])).collect()
        });
        let (stop, stopped) = mpsc::channel::<()>();
        let pace = move || {
            let mut rng = fastrand::Rng::new();
            let mut work = Work::new();
            let mut paces = Vec::new();
            let mut turn = cpus.iter().cycle();
            loop {
                // The CPU may have gone offline.
                let pinned = turn.next().is_none_or(|cpu| cpu.pin_this_thread().is_ok());
                if pinned {
                    work.run(WARM_UP);
                    let begun = madang_stack::thread_cpu_time();
                    work.run(STEPS);
                    let took = madang_stack::thread_cpu_time().saturating_sub(begun);
                    let at = observe::seconds(SystemTime::now());
                    paces.push((at, took.as_secs_f64() * 1e6));
                }
                let pause = INTERVAL.mul_f64(1.0 + JITTER * (2.0 * rng.f64() - 1.0));
                if stopped.recv_timeout(pause) != Err(mpsc::RecvTimeoutError::Timeout) {
                    return Paces(paces);
                }
            }
        };
        let thread = std::thread::Builder::new().name("pacer".to_owned()).spawn(pace).ok()?;
        Some(Self { stop, thread })
    }

    pub(crate) fn end(self) -> Paces {
        let Self { stop, thread } = self;
        drop(stop);
        thread.join().unwrap_or_default()
    }
}

impl Paces {
    /// Pace between two times, in seconds since 1970; `None` with too few samples.
    pub(crate) fn between(&self, start: f64, end: f64) -> Option<Pace> {
        let inside = self.0.iter().filter(|(at, _)| (start..=end).contains(at));
        let mut times: Vec<f64> = inside.map(|(_, took)| *took).collect();
        if times.len() < FEWEST {
            return None;
        }
        times.sort_by(f64::total_cmp);
        let kept = (times.len() as f64 * (1.0 - TRIM)).ceil();
        let work_us = times.iter().take(kept as usize).sum::<f64>() / kept;
        // Zero would be an error of the clock.
        let samples = u32::try_from(times.len()).unwrap_or(u32::MAX);
        (work_us > 0.0).then_some(Pace { work_us, samples })
    }
}

/// An interpreter with a fixed program: loads, stores, arithmetic, and unpredictable jumps, as in code of servers. Of
/// six kinds of work tried beside two servers, it correlated best with CPU times per request.
struct Work {
    program: [u8; PROGRAM],
    memory: [u64; MEMORY],
    registers: [u64; 3],
    at: usize,
}

/// Short enough for the warm-up steps to run all of it.
const PROGRAM: usize = 512;
/// 8 KiB.
const MEMORY: usize = 1024;

impl Work {
    fn new() -> Self {
        let mut rng = fastrand::Rng::with_seed(25);
        let program = std::array::from_fn(|_| rng.u8(..));
        let memory = std::array::from_fn(|_| rng.u64(..));
        Self { program, memory, registers: [1, 3, 7], at: 0 }
    }

    #[inline(never)]
    fn run(&mut self, steps: u32) {
        let [mut a, mut b, mut c] = self.registers;
        let mut at = self.at;
        for _ in 0..steps {
            let operation = self.program[at % PROGRAM];
            at += 1;
            let place = |value: u64| (value % MEMORY as u64) as usize;
            match operation % 14 {
                0 => a = a.wrapping_add(b),
                1 => b ^= a,
                2 => c = a.wrapping_mul(b),
                3 => self.memory[place(a)] = c,
                4 => a = self.memory[place(c)],
                5 if a & 1 == 1 => at += 3,
                5 => c = c.wrapping_add(1),
                6 => b = self.memory[place(b)],
                7 => self.memory[place(b)] = a,
                8 => a = a.rotate_left(5),
                9 => c = c.wrapping_sub(b),
                10 if b > c => a = a.wrapping_add(1),
                10 => b = b.wrapping_add(1),
                11 => at += place(c) & 7,
                12 => b = b.wrapping_add(u64::from(operation)),
                _ => a = !a,
            }
        }
        self.registers = black_box([a, b, c]);
        self.at = at % PROGRAM;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_slowest_tenth_is_an_interrupt_and_what_is_outside_is_not_the_load() {
        let mut looks: Vec<(f64, f64)> = (0..19).map(|at| (f64::from(at), 40.0)).collect();
        looks.push((19.0, 900.0));
        looks.extend([(-1.0, 9000.0), (21.0, 9000.0)]);
        let pace = Paces(looks.clone()).between(0.0, 20.0).unwrap();
        assert_eq!(pace, Pace { work_us: 40.0, samples: 20 });
        assert_eq!(Paces(looks).between(0.0, 8.0), None, "nine are too few");
    }

    /// Half of the time with a neighbour on the core is half of the way: a mean, not a median.
    #[test]
    fn a_neighbour_who_comes_and_goes_counts_by_the_time_he_is_there() {
        let times = (0..100).map(|at| (f64::from(at), if at % 2 == 0 { 40.0 } else { 60.0 }));
        let pace = Paces(times.collect()).between(0.0, 100.0).unwrap();
        // 50 of 40 and 40 of 60, as ten of the slow ones are left out.
        assert!((pace.work_us - 4400.0 / 90.0).abs() < 1e-9, "{pace:?}");
    }

    #[test]
    fn the_work_is_always_the_same_and_never_stuck() {
        let (mut one, mut other) = (Work::new(), Work::new());
        one.run(5000);
        (0..10).for_each(|_| other.run(500));
        assert_eq!((one.registers, one.at), (other.registers, other.at));
        assert_eq!(one.memory, other.memory);
        let before = one.registers;
        let mut seen = [false; PROGRAM];
        for _ in 0..5000 {
            one.run(1);
            seen[one.at] = true;
        }
        assert_ne!(one.registers, before);
        // All of the program is reached, so that no part of it is left to be slow.
        assert!(seen.iter().filter(|seen| **seen).count() > PROGRAM * 9 / 10);
    }

    #[test]
    fn a_pacer_times_until_it_is_ended() {
        let begun = observe::seconds(SystemTime::now());
        let allowed = CpuList::allowed().unwrap();
        // One thread of each core.
        let cpus = allowed.cores().into_iter().filter_map(|core| core.first().copied());
        let pacer = Pacer::begin(CpuList::new(cpus).as_ref()).unwrap();
        let shared = allowed.cores().iter().any(|core| core.len() > 1);
        assert_eq!(Pacer::begin(Some(&allowed)).is_none(), shared);
        // Until there must be enough: it sleeps 35 ms at most between two, wherever it runs.
        let deadline = Instant::now() + Duration::from_secs(2);
        while Instant::now() < deadline {
            std::thread::park_timeout(deadline - Instant::now());
        }
        let paces = pacer.end();
        let pace = paces.between(begun, f64::MAX).unwrap();
        assert!(pace.work_us > 1.0 && pace.samples >= 10, "{pace:?}");
    }
}
