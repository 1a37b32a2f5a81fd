//! Executors. Each schedule is a pure function of its options in a file of its own; `per-vu-iterations` and
//! `shared-iterations` are `constant-vus` with a [`Budget`] of iterations.
//!
//! In closed models a virtual user starts its next iteration when the last one is over: the schedule is a list of
//! [`Span`]s per virtual user, which [`runner`] executes. In open models iterations start by the clock: the schedule is
//! a sequence of moments ([`arrivals`]), and [`local_pool`] finds a virtual user for each.

mod arrival_pool;
mod budget;
mod constant_arrival_rate;
pub(crate) mod local_pool;
mod ramping_arrival_rate;
mod ramping_vus;
pub(crate) mod runner;
mod timer;

use std::time::Duration;

pub(crate) use arrival_pool::{ArrivalPool, Order};
pub(crate) use budget::Budget;
pub(crate) use timer::Timer;

use crate::options::{ExecutorConfig, Scenario};

/// A period in which one virtual user starts iterations. Times count from the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: Duration,
    /// From then on no iteration starts.
    pub(crate) end: Duration,
    /// An iteration that still runs then is interrupted.
    pub(crate) limit: Duration,
}

/// The spans of a scenario's virtual users. During `warm_up`, before the schedule, its first virtual users are already
/// active; a scenario with a `startTime` is only delayed by it.
pub(crate) fn plan(scenario: &Scenario, warm_up: Duration) -> Vec<Vec<Span>> {
    let mut users = match &scenario.executor {
        ExecutorConfig::ConstantVus { vus, duration }
        | ExecutorConfig::PerVuIterations { vus, max_duration: duration, .. }
        | ExecutorConfig::SharedIterations { vus, max_duration: duration, .. } => {
            let (end, limit) = (*duration, *duration + scenario.graceful_stop);
            vec![vec![Span { start: Duration::ZERO, end, limit }]; *vus as usize]
        }
        ExecutorConfig::RampingVus { start_vus, stages, graceful_ramp_down } => {
            ramping_vus::plan(*start_vus, stages, *graceful_ramp_down, scenario.graceful_stop)
        }
        ExecutorConfig::ConstantArrivalRate { pool, .. }
        | ExecutorConfig::RampingArrivalRate { pool, .. } => {
            vec![Vec::new(); pool.pre_allocated_vus as usize]
        }
    };
    let warms_up = scenario.start_time.is_zero();
    let offset = scenario.start_time + warm_up;
    for span in users.iter_mut().flatten() {
        if !(warms_up && span.start.is_zero()) {
            span.start += offset;
        }
        span.end += offset;
        span.limit += offset;
    }
    users
}

/// Intended starts of an open model's iterations, from the start of the run, on event loop `part` of `parts`. The
/// warm-up has the first rate.
pub(crate) fn arrivals(
    scenario: &Scenario,
    warm_up: Duration,
    part: u64,
    parts: u64,
) -> Box<dyn Iterator<Item = Duration>> {
    let (rate, unit, starts): (_, _, Box<dyn Iterator<Item = Duration>>) = match &scenario.executor
    {
        ExecutorConfig::ConstantArrivalRate { rate, time_unit, duration, .. } => {
            let starts = constant_arrival_rate::starts(*rate, *time_unit, *duration, part, parts);
            (*rate, *time_unit, Box::new(starts))
        }
        ExecutorConfig::RampingArrivalRate { start_rate, time_unit, stages, .. } => {
            let stages = stages.clone();
            let starts = ramping_arrival_rate::starts(*start_rate, *time_unit, stages, part, parts);
            (*start_rate, *time_unit, Box::new(starts))
        }
        _ => return Box::new(std::iter::empty()),
    };
    // Nothing starts at a rate of zero.
    let warms_up = scenario.start_time.is_zero() && rate > 0;
    let warming = if warms_up { warm_up } else { Duration::ZERO };
    let before = constant_arrival_rate::starts(rate, unit, warming, part, parts);
    let offset = scenario.start_time + warm_up;
    Box::new(before.chain(starts.map(move |start| start + offset)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::VuPool;

    #[test]
    fn warming_up_an_open_model_repeats_its_first_rate_and_moves_everything_else() {
        let second = Duration::from_secs;
        let pool = VuPool { pre_allocated_vus: 1, max_vus: 1 };
        let executor = ExecutorConfig::ConstantArrivalRate {
            rate: 1,
            time_unit: second(1),
            duration: second(2),
            pool,
        };
        let mut scenario = Scenario::new("s", executor);
        let all: Vec<Duration> = arrivals(&scenario, second(2), 0, 1).collect();
        assert_eq!(all, [0, 1, 2, 3].map(second));
        scenario.start_time = second(5);
        let all: Vec<Duration> = arrivals(&scenario, second(2), 0, 1).collect();
        assert_eq!(all, [7, 8].map(second));
    }

    #[test]
    fn warming_up_lengthens_the_first_span_and_moves_everything_else() {
        let second = Duration::from_secs;
        let executor = ExecutorConfig::ConstantVus { vus: 3, duration: second(10) };
        let mut scenario = Scenario::new("s", executor);
        let span = Span { start: second(0), end: second(10), limit: second(40) };
        assert_eq!(plan(&scenario, second(0)), vec![vec![span]; 3]);
        let span = Span { start: second(0), end: second(12), limit: second(42) };
        assert_eq!(plan(&scenario, second(2)), vec![vec![span]; 3]);
        scenario.start_time = second(5);
        let span = Span { start: second(7), end: second(17), limit: second(47) };
        assert_eq!(plan(&scenario, second(2)), vec![vec![span]; 3]);
    }
}
