//! Resolution of layers to the options of a run.

use std::time::Duration;

use super::executors::checked_ramp;
use super::scenario::{DEFAULT_GRACE, DEFAULT_MAX_DURATION};
use crate::http::ClientConfig;
use crate::metrics::SystemTags;

use super::http::client_config;
use super::{ExecutorConfig, Layer, MetricThresholds, OptionsError, Scenario};

/// k6's default columns of trends.
pub(crate) const DEFAULT_TREND_STATS: [&str; 6] = ["avg", "min", "med", "max", "p(90)", "p(95)"];

/// Virtual users of one run, at most: each needs two memory maps, of which Linux allows a process 65,530
/// (`vm.max_map_count`).
const MAX_VUS: u32 = 30_000;

/// k6's default of `maxRedirects`.
pub(crate) const DEFAULT_MAX_REDIRECTS: u32 = 10;

/// k6's default of `setupTimeout` and `teardownTimeout`.
const LIFECYCLE_TIMEOUT: Duration = Duration::from_secs(60);

/// k6's time limit of `handleSummary()`.
const HANDLE_SUMMARY_TIMEOUT: Duration = Duration::from_secs(120);

/// The options of a run, with all defaults filled in.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) summary_trend_stats: Vec<String>,
    pub(crate) summary_time_unit: Option<String>,
    pub(crate) no_vu_connection_reuse: bool,
    pub(crate) discard_response_bodies: bool,
    pub(crate) throw: bool,
    pub(crate) max_redirects: u32,
    pub(crate) client: ClientConfig,
    pub(crate) batch: u32,
    pub(crate) batch_per_host: u32,
    pub(crate) no_cookies_reset: bool,
    pub(crate) thresholds: Vec<MetricThresholds>,
    pub(crate) no_setup: bool,
    pub(crate) no_teardown: bool,
    pub(crate) setup_timeout: Duration,
    pub(crate) teardown_timeout: Duration,
    pub(crate) handle_summary_timeout: Duration,
    pub(crate) min_iteration_duration: Duration,
    pub(crate) system_tags: SystemTags,
    /// Requests per second over all virtual users; 0 is no limit.
    pub(crate) rps: u32,
}

impl Options {
    /// Fills in the defaults, and checks constraints between options.
    pub(crate) fn resolve(layer: Layer) -> Result<Self, OptionsError> {
        let (scenarios, client) = (scenarios(&layer)?, client_config(&layer));
        for stat in layer.summary_trend_stats.iter().flatten() {
            super::script::check_trend_stat("summaryTrendStats", stat)?;
        }
        let total: u64 =
            scenarios.iter().map(|scenario| u64::from(scenario.executor.max_vus())).sum();
        if total > u64::from(MAX_VUS) {
            let problem =
                format!("{total} virtual users are more than the {MAX_VUS} one process can hold");
            return Err(OptionsError::invalid("vus", problem));
        }
        Ok(Self {
            scenarios,
            tags: layer.tags,
            summary_trend_stats: layer
                .summary_trend_stats
                .unwrap_or_else(|| DEFAULT_TREND_STATS.map(str::to_owned).to_vec()),
            summary_time_unit: layer.summary_time_unit,
            no_vu_connection_reuse: layer.no_vu_connection_reuse.unwrap_or(false),
            discard_response_bodies: layer.discard_response_bodies.unwrap_or(false),
            throw: layer.throw.unwrap_or(false),
            max_redirects: layer.max_redirects.unwrap_or(DEFAULT_MAX_REDIRECTS),
            client,
            batch: layer.batch.unwrap_or(20),
            batch_per_host: layer.batch_per_host.unwrap_or(6),
            no_cookies_reset: layer.no_cookies_reset.unwrap_or(false),
            thresholds: layer.thresholds.unwrap_or_default(),
            no_setup: layer.no_setup.unwrap_or(false),
            no_teardown: layer.no_teardown.unwrap_or(false),
            setup_timeout: layer.setup_timeout.unwrap_or(LIFECYCLE_TIMEOUT),
            teardown_timeout: layer.teardown_timeout.unwrap_or(LIFECYCLE_TIMEOUT),
            handle_summary_timeout: layer.handle_summary_timeout.unwrap_or(HANDLE_SUMMARY_TIMEOUT),
            min_iteration_duration: layer.min_iteration_duration.unwrap_or_default(),
            system_tags: layer.system_tags.unwrap_or_default(),
            rps: layer.rps.unwrap_or_default(),
        })
    }

    pub(crate) fn max_vus(&self) -> u32 {
        self.scenarios.iter().map(|scenario| scenario.executor.max_vus()).sum()
    }

    /// Virtual users made before the run.
    pub(crate) fn planned_vus(&self) -> u32 {
        self.scenarios.iter().map(|scenario| scenario.executor.planned_vus()).sum()
    }

    /// Latest end of the last iteration, from the start of the run.
    pub(crate) fn latest_end(&self) -> Duration {
        self.scenarios.iter().map(Scenario::latest_end).max().unwrap_or_default()
    }
}

/// The scenarios given, or the one implied by `vus`, `duration` and `stages`.
fn scenarios(layer: &Layer) -> Result<Vec<Scenario>, OptionsError> {
    // As in k6, an empty list counts as none.
    let stages = layer.stages.as_ref().filter(|stages| !stages.is_empty());
    let scenarios = layer.scenarios.as_ref().filter(|scenarios| !scenarios.is_empty());
    let given = [
        ("iterations", layer.iterations.is_some()),
        ("duration", layer.duration.is_some() && layer.iterations.is_none()),
        ("stages", stages.is_some()),
        ("scenarios", scenarios.is_some()),
    ];
    let given: Vec<&str> =
        given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    if let [first, second, ..] = given[..] {
        let problem = format!("`{first}` and `{second}` cannot be used together");
        return Err(OptionsError::invalid(first, problem));
    }
    if layer.vus == Some(0) && stages.is_none() {
        return Err(OptionsError::invalid("vus", "it must be at least 1"));
    }
    let vus = layer.vus.unwrap_or(1);
    if let Some(scenarios) = scenarios {
        return Ok(scenarios.clone());
    }
    let executor = if let Some(stages) = stages {
        checked_ramp("stages", vus, stages.clone(), DEFAULT_GRACE)?
    } else if let Some(iterations) = layer.iterations {
        if iterations < u64::from(vus) {
            return Err(OptionsError::invalid("iterations", "it must not be less than vus"));
        }
        // A duration beside it limits the time, as in k6.
        let max_duration = layer.duration.unwrap_or(DEFAULT_MAX_DURATION);
        ExecutorConfig::SharedIterations { vus, iterations, max_duration }
    } else if let Some(duration) = layer.duration {
        ExecutorConfig::ConstantVus { vus, duration }
    } else if let Some(vus) = layer.vus {
        // As in k6 from 2.0 on; before, a script with nothing but `vus` ran once.
        let (iterations, max_duration) = (u64::from(vus), DEFAULT_MAX_DURATION);
        ExecutorConfig::SharedIterations { vus, iterations, max_duration }
    } else {
        ExecutorConfig::PerVuIterations {
            vus: 1,
            iterations: 1,
            max_duration: DEFAULT_MAX_DURATION,
        }
    };
    Ok(vec![Scenario::new("default", executor)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Stage;

    #[test]
    fn a_duration_means_constant_and_stages_mean_ramping_virtual_users() {
        let constant =
            Layer { vus: Some(5), duration: Some(Duration::from_secs(1)), ..Layer::default() };
        let description = Options::resolve(constant).unwrap().scenarios[0].describe();
        assert_eq!(description, "default: 5 looping VUs for 1s (gracefulStop: 30s)");
        let stage = Stage { duration: Duration::from_secs(2), target: 9 };
        let ramping = Layer { stages: Some(vec![stage]), ..Layer::default() };
        let options = Options::resolve(ramping).unwrap();
        assert_eq!((options.max_vus(), options.latest_end()), (9, Duration::from_secs(32)));
    }

    #[test]
    fn contradictions_are_refused() {
        let second = Some(Duration::from_secs(1));
        let stage = Stage { duration: Duration::from_secs(1), target: 1 };
        let both = Layer { duration: second, stages: Some(vec![stage]), ..Layer::default() };
        assert!(Options::resolve(both).is_err());
        let none = Layer { vus: Some(0), duration: second, ..Layer::default() };
        assert!(Options::resolve(none).is_err());
        let stat = Some(vec!["p(x)".to_owned()]);
        let unknown = Layer { summary_trend_stats: stat, duration: second, ..Layer::default() };
        assert!(Options::resolve(unknown).is_err());
        let many = Layer { vus: Some(MAX_VUS + 1), duration: second, ..Layer::default() };
        assert!(Options::resolve(many).is_err());
    }
}
