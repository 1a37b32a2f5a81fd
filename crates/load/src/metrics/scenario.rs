//! What is counted for each scenario apart, beside its requests.

use std::time::Duration;

use super::{CheckCount, Histogram};

/// The iterations and checks of one scenario.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScenarioStats {
    pub(crate) complete: u64,
    pub(crate) interrupted: u64,
    pub(crate) dropped: u64,
    pub(crate) checks: CheckCount,
    /// From actual start to end, in milliseconds.
    pub(crate) iteration_duration: Histogram,
    /// Open models only: from intended to actual start, in milliseconds.
    pub(crate) start_lag: Histogram,
    /// Open models only: from intended start to end, in milliseconds.
    pub(crate) iteration_response: Histogram,
}

impl ScenarioStats {
    /// Counts an iteration that has ended by itself. `lag` is how late it started, in open models.
    pub(crate) fn completed(&mut self, duration: Duration, lag: Option<Duration>) {
        self.complete += 1;
        self.iteration_duration.record(duration.as_secs_f64() * 1e3);
        if let Some(lag) = lag {
            self.iteration_response.record((duration + lag).as_secs_f64() * 1e3);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.complete += other.complete;
        self.interrupted += other.interrupted;
        self.dropped += other.dropped;
        self.checks.passes += other.checks.passes;
        self.checks.fails += other.checks.fails;
        self.iteration_duration.merge(&other.iteration_duration);
        self.start_lag.merge(&other.start_lag);
        self.iteration_response.merge(&other.iteration_response);
    }
}
