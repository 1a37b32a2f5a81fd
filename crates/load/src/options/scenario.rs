//! Scenarios and their executors.

use std::time::Duration;

use super::duration::format_duration;

/// A part of a ramp: reach `target` after `duration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stage {
    /// Length of the stage; zero jumps.
    pub duration: Duration,
    /// Target at its end: virtual users, or starts per time unit.
    pub target: u32,
}

/// Executor of a scenario, with its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum ExecutorConfig {
    /// A fixed number of virtual users, iterating for a fixed time.
    ConstantVus { vus: u32, duration: Duration },
    /// A number of virtual users that changes in stages.
    RampingVus { start_vus: u32, stages: Vec<Stage>, graceful_ramp_down: Duration },
    /// Every virtual user makes the same number of iterations.
    PerVuIterations { vus: u32, iterations: u64, max_duration: Duration },
    /// All virtual users together make a number of iterations.
    SharedIterations { vus: u32, iterations: u64, max_duration: Duration },
    /// Iterations start at a fixed rate, however long they take.
    ConstantArrivalRate { rate: u32, time_unit: Duration, duration: Duration, pool: VuPool },
    /// Iterations start at a rate that changes in stages.
    RampingArrivalRate { start_rate: u32, time_unit: Duration, stages: Vec<Stage>, pool: VuPool },
}

/// The virtual users of an executor that starts iterations by the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VuPool {
    /// Made before the run.
    pub pre_allocated_vus: u32,
    /// Upper limit; further ones are made while the scenario runs, one at a time.
    pub max_vus: u32,
}

impl ExecutorConfig {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::ConstantVus { .. } => "constant-vus",
            Self::RampingVus { .. } => "ramping-vus",
            Self::PerVuIterations { .. } => "per-vu-iterations",
            Self::SharedIterations { .. } => "shared-iterations",
            Self::ConstantArrivalRate { .. } => "constant-arrival-rate",
            Self::RampingArrivalRate { .. } => "ramping-arrival-rate",
        }
    }

    /// Time during which iterations are started, from the scenario's start.
    pub(crate) fn duration(&self) -> Duration {
        match self {
            Self::ConstantVus { duration, .. } | Self::ConstantArrivalRate { duration, .. } => {
                *duration
            }
            Self::RampingVus { stages, .. } | Self::RampingArrivalRate { stages, .. } => {
                stages.iter().map(|stage| stage.duration).sum()
            }
            Self::PerVuIterations { max_duration, .. }
            | Self::SharedIterations { max_duration, .. } => *max_duration,
        }
    }

    /// Number of iterations, if it ends the scenario; `None` if the time does.
    pub(crate) fn iterations(&self) -> Option<u64> {
        match self {
            Self::PerVuIterations { vus, iterations, .. } => Some(u64::from(*vus) * iterations),
            Self::SharedIterations { iterations, .. } => Some(*iterations),
            _ => None,
        }
    }

    pub(crate) fn max_vus(&self) -> u32 {
        match self {
            Self::ConstantVus { vus, .. }
            | Self::PerVuIterations { vus, .. }
            | Self::SharedIterations { vus, .. } => *vus,
            Self::RampingVus { start_vus, stages, .. } => {
                stages.iter().map(|stage| stage.target).max().unwrap_or(0).max(*start_vus)
            }
            Self::ConstantArrivalRate { pool, .. } | Self::RampingArrivalRate { pool, .. } => {
                pool.max_vus
            }
        }
    }

    /// The pool of an open model, which starts iterations by the clock and not when others have ended.
    pub(crate) fn open(&self) -> Option<VuPool> {
        match self {
            Self::ConstantArrivalRate { pool, .. } | Self::RampingArrivalRate { pool, .. } => {
                Some(*pool)
            }
            _ => None,
        }
    }

    /// Virtual users made before the run.
    pub(crate) fn planned_vus(&self) -> u32 {
        self.open().map_or_else(|| self.max_vus(), |pool| pool.pre_allocated_vus)
    }
}

/// One workload of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scenario {
    /// Its key in `scenarios`; `default` for the implied one.
    pub name: String,
    /// The executor.
    pub executor: ExecutorConfig,
    /// Start, from the start of the run.
    pub start_time: Duration,
    /// Time for iterations to finish after the scenario's end.
    pub graceful_stop: Duration,
    /// Name of the exported function that is one iteration.
    pub exec: String,
    /// Added to `__ENV`.
    pub env: Vec<(String, String)>,
    /// Tags of every value.
    pub tags: Vec<(String, String)>,
}

/// k6's default of `maxDuration`.
pub(crate) const DEFAULT_MAX_DURATION: Duration = Duration::from_secs(600);

/// k6's default of `gracefulStop` and `gracefulRampDown`.
pub(crate) const DEFAULT_GRACE: Duration = Duration::from_secs(30);

impl Scenario {
    /// A scenario with everything but the executor at its default.
    pub fn new(name: &str, executor: ExecutorConfig) -> Self {
        Self {
            name: name.to_owned(),
            executor,
            start_time: Duration::ZERO,
            graceful_stop: DEFAULT_GRACE,
            exec: "default".to_owned(),
            env: Vec::new(),
            tags: Vec::new(),
        }
    }

    /// Latest end, from the start of the run.
    pub(crate) fn latest_end(&self) -> Duration {
        self.start_time + self.executor.duration() + self.graceful_stop
    }

    /// One line for the header, in k6's words.
    pub(crate) fn describe(&self) -> String {
        let length = format_duration(self.executor.duration());
        let mut notes = Vec::new();
        let what = match &self.executor {
            ExecutorConfig::ConstantVus { vus, .. } => format!("{vus} looping VUs for {length}"),
            ExecutorConfig::RampingVus { stages, graceful_ramp_down, .. } => {
                notes.push(format!("gracefulRampDown: {}", format_duration(*graceful_ramp_down)));
                let max = self.executor.max_vus();
                format!("Up to {max} looping VUs for {length} over {} stages", stages.len())
            }
            ExecutorConfig::PerVuIterations { vus, iterations, .. } => {
                format!("{iterations} iterations for each of {vus} VUs")
            }
            ExecutorConfig::SharedIterations { vus, iterations, .. } => {
                format!("{iterations} iterations shared among {vus} VUs")
            }
            ExecutorConfig::ConstantArrivalRate { rate, time_unit, .. } => {
                let per_second = f64::from(*rate) / time_unit.as_secs_f64();
                format!("{per_second:.2} iterations/s for {length}")
            }
            ExecutorConfig::RampingArrivalRate { start_rate, time_unit, stages, .. } => {
                let most = stages.iter().map(|stage| stage.target).max().unwrap_or(0);
                let per_second = f64::from(most.max(*start_rate)) / time_unit.as_secs_f64();
                format!(
                    "Up to {per_second:.2} iterations/s for {length} over {} stages",
                    stages.len()
                )
            }
        };
        if let Some(pool) = self.executor.open() {
            let VuPool { pre_allocated_vus, max_vus } = pool;
            notes.push(match max_vus > pre_allocated_vus {
                true => format!("maxVUs: {pre_allocated_vus}-{max_vus}"),
                false => format!("maxVUs: {max_vus}"),
            });
        }
        if matches!(
            self.executor,
            ExecutorConfig::PerVuIterations { .. } | ExecutorConfig::SharedIterations { .. }
        ) {
            notes.push(format!("maxDuration: {length}"));
        }
        if self.exec != "default" {
            notes.push(format!("exec: {}", self.exec));
        }
        if !self.start_time.is_zero() {
            notes.push(format!("startTime: {}", format_duration(self.start_time)));
        }
        if !self.graceful_stop.is_zero() {
            notes.push(format!("gracefulStop: {}", format_duration(self.graceful_stop)));
        }
        match notes.is_empty() {
            true => format!("{}: {what}", self.name),
            false => format!("{}: {what} ({})", self.name, notes.join(", ")),
        }
    }
}
