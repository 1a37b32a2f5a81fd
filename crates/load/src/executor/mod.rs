//! Executors: who iterates when.
//!
//! Every executor of virtual users comes down to a list of [`Span`]s per virtual user, computed
//! beforehand by a pure function (one file per executor); [`runner`] makes them happen.

mod constant_vus;
mod iterations;
mod ramping_vus;
pub(crate) mod runner;

pub(crate) use iterations::Budget;

use std::time::Duration;

use crate::options::{ExecutorConfig, Scenario};

/// A time in which one virtual user starts iterations. Times count from the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: Duration,
    /// No iteration starts from here on.
    pub(crate) end: Duration,
    /// An iteration still running now is interrupted.
    pub(crate) limit: Duration,
}

/// The spans of every virtual user of a scenario, by its index in the scenario. `warm_up` is time
/// before the schedule begins in which the virtual users of its beginning are already active; a
/// scenario that starts later is only moved by it.
pub(crate) fn plan(scenario: &Scenario, warm_up: Duration) -> Vec<Vec<Span>> {
    let mut users = match &scenario.executor {
        ExecutorConfig::ConstantVus { vus, duration }
        | ExecutorConfig::PerVuIterations { vus, max_duration: duration, .. }
        | ExecutorConfig::SharedIterations { vus, max_duration: duration, .. } => {
            constant_vus::plan(*vus, *duration, scenario.graceful_stop)
        }
        ExecutorConfig::RampingVus { start_vus, stages, graceful_ramp_down } => {
            ramping_vus::plan(*start_vus, stages, *graceful_ramp_down, scenario.graceful_stop)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warming_up_lengthens_the_first_span_and_moves_everything_else() {
        let second = Duration::from_secs;
        let executor = ExecutorConfig::ConstantVus { vus: 1, duration: second(10) };
        let mut scenario = Scenario::new("s", executor);
        let span = Span { start: second(0), end: second(12), limit: second(42) };
        assert_eq!(plan(&scenario, second(2)), [vec![span]]);
        scenario.start_time = second(5);
        let span = Span { start: second(7), end: second(17), limit: second(47) };
        assert_eq!(plan(&scenario, second(2)), [vec![span]]);
    }
}
