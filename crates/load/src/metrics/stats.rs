//! Counts and durations of requests, checks and iterations.

use std::time::Duration;

use super::Histogram;

/// A set of requests, such as those of one scenario and group with one `name` tag. Durations are in milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestStats {
    pub(crate) requests: u64,
    pub(crate) good: u64,
    pub(crate) failed: u64,
    /// `http_req_duration`.
    pub(crate) duration: Histogram,
    /// Open models only: with the start lag of the iteration.
    pub(crate) response: Histogram,
}

impl RequestStats {
    pub(super) fn add(&mut self, failed: bool, duration_ms: f64) {
        self.requests += 1;
        self.failed += u64::from(failed);
        self.duration.record(duration_ms);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.good += other.good;
        self.failed += other.failed;
        self.duration.merge(&other.duration);
        self.response.merge(&other.response);
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CheckCount {
    pub(crate) passes: u64,
    pub(crate) fails: u64,
}

impl CheckCount {
    pub(crate) fn single(passed: bool) -> Self {
        Self { passes: passed.into(), fails: (!passed).into() }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.passes += other.passes;
        self.fails += other.fails;
    }
}

/// Iterations and checks of a scenario. Durations are in milliseconds.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScenarioStats {
    pub(crate) complete: u64,
    pub(crate) interrupted: u64,
    pub(crate) dropped: u64,
    pub(crate) checks: CheckCount,
    /// From actual start to end.
    pub(crate) iteration_duration: Histogram,
    /// Open models only: from intended to actual start.
    pub(crate) start_lag: Histogram,
    /// Open models only: from intended start to end.
    pub(crate) iteration_response: Histogram,
}

impl ScenarioStats {
    /// Counts a complete iteration; `lag` is its start lag in open models.
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
        self.checks.merge(other.checks);
        self.iteration_duration.merge(&other.iteration_duration);
        self.start_lag.merge(&other.start_lag);
        self.iteration_response.merge(&other.iteration_response);
    }
}
