//! The options of one source.

use std::time::Duration;

use crate::metrics::SystemTags;

use super::{HttpLayer, MetricThresholds, Scenario, Stage};

/// What one source (script, environment, command line) says; `None` where it says nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Layer {
    /// Number of virtual users of the implied scenario.
    pub vus: Option<u32>,
    /// Length of the implied constant-vus scenario.
    pub duration: Option<Duration>,
    /// Iterations shared by all virtual users of the implied scenario.
    pub iterations: Option<u64>,
    /// Stages of the implied ramping-vus scenario.
    pub stages: Option<Vec<Stage>>,
    /// Scenarios, by name in the order given.
    pub scenarios: Option<Vec<Scenario>>,
    /// Tags of every value.
    pub tags: Vec<(String, String)>,
    /// Columns of trends in the summary.
    pub summary_trend_stats: Option<Vec<String>>,
    /// `s`, `ms` or `us`: one unit for all durations in the summary.
    pub summary_time_unit: Option<String>,
    /// The `User-Agent` header.
    pub user_agent: Option<String>,
    /// Close the connection after every request.
    pub no_connection_reuse: Option<bool>,
    /// Close the connections after every iteration.
    pub no_vu_connection_reuse: Option<bool>,
    /// Read response bodies but do not keep them.
    pub discard_response_bodies: Option<bool>,
    /// Failed requests throw.
    pub throw: Option<bool>,
    /// Redirects followed per request.
    pub max_redirects: Option<u32>,
    /// How many requests at once, cookies, TLS.
    pub http: HttpLayer,
    /// What must hold at the end, by metric.
    pub thresholds: Option<Vec<MetricThresholds>>,
    /// `setup()` is not called.
    pub no_setup: Option<bool>,
    /// `teardown()` is not called.
    pub no_teardown: Option<bool>,
    /// How long `setup()` may take.
    pub setup_timeout: Option<Duration>,
    /// How long `teardown()` may take.
    pub teardown_timeout: Option<Duration>,
    /// How long `handleSummary()` may take.
    pub handle_summary_timeout: Option<Duration>,
    /// Which of the engine's own tags values have.
    pub system_tags: Option<SystemTags>,
    /// Requests per second over all virtual users; 0 is no limit.
    pub rps: Option<u32>,
    /// A shorter iteration is followed by a pause that fills it up.
    pub min_iteration_duration: Option<Duration>,
    /// Options that nobody knows, by name.
    pub unknown: Vec<String>,
}

impl Layer {
    /// Whether it says how long to run.
    pub(crate) fn says_how_long(&self) -> bool {
        self.duration.is_some()
            || self.iterations.is_some()
            || self.stages.is_some()
            || self.scenarios.is_some()
    }

    /// Puts `upper` on top of this layer. Whatever says *how long* to run (duration, iterations,
    /// stages, scenarios) replaces all of these together, as in k6.
    #[must_use]
    pub fn apply(mut self, upper: Self) -> Self {
        if upper.says_how_long() {
            self.duration = upper.duration;
            self.iterations = upper.iterations;
            self.stages = upper.stages;
            self.scenarios = upper.scenarios;
        }
        for (key, value) in upper.tags {
            self.tags.retain(|(known, _)| *known != key);
            self.tags.push((key, value));
        }
        self.unknown.extend(upper.unknown);
        Self {
            vus: upper.vus.or(self.vus),
            summary_trend_stats: upper.summary_trend_stats.or(self.summary_trend_stats),
            summary_time_unit: upper.summary_time_unit.or(self.summary_time_unit),
            user_agent: upper.user_agent.or(self.user_agent),
            no_connection_reuse: upper.no_connection_reuse.or(self.no_connection_reuse),
            no_vu_connection_reuse: upper.no_vu_connection_reuse.or(self.no_vu_connection_reuse),
            discard_response_bodies: upper.discard_response_bodies.or(self.discard_response_bodies),
            throw: upper.throw.or(self.throw),
            max_redirects: upper.max_redirects.or(self.max_redirects),
            http: self.http.apply(upper.http),
            thresholds: upper.thresholds.or(self.thresholds),
            no_setup: upper.no_setup.or(self.no_setup),
            no_teardown: upper.no_teardown.or(self.no_teardown),
            setup_timeout: upper.setup_timeout.or(self.setup_timeout),
            teardown_timeout: upper.teardown_timeout.or(self.teardown_timeout),
            handle_summary_timeout: upper.handle_summary_timeout.or(self.handle_summary_timeout),
            system_tags: upper.system_tags.or(self.system_tags),
            rps: upper.rps.or(self.rps),
            min_iteration_duration: upper.min_iteration_duration.or(self.min_iteration_duration),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_above_replaces_the_stages_below() {
        let stage = Stage { duration: Duration::from_secs(1), target: 5 };
        let below = Layer { vus: Some(3), stages: Some(vec![stage]), ..Layer::default() };
        let above = Layer { duration: Some(Duration::from_secs(9)), ..Layer::default() };
        let both = below.clone().apply(above);
        assert_eq!(
            (both.vus, both.duration, both.stages),
            (Some(3), Some(Duration::from_secs(9)), None)
        );
        let untouched = below.clone().apply(Layer { vus: Some(7), ..Layer::default() });
        assert_eq!((untouched.vus, untouched.stages), (Some(7), below.stages));
    }
}
