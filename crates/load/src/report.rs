//! The machine-readable report (`--report FILE`): what a program that compares runs needs.
//!
//! One JSON document. Durations of requests are milliseconds, other times name their unit.
//! Everything counts from the end of the warm-up; requests are counted when their answer has
//! arrived. A request is **failed** when it got no answer or one outside of 200–399; it is
//! **good** when it did not fail and no `check()` on it failed (a check on something that is no
//! response counts for the last request before it in the same iteration).

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::engine::Finished;
use crate::generator;
use crate::metrics::{
    Builtin, CheckCount, GroupMeasured, Histogram, Measured, NameStats, Registry, RequestKey,
    ScenarioStats, Series, Sink,
};
use crate::options::Scenario;
use crate::summary::ThresholdResult;

/// The version of this document; a reader must refuse another major number.
pub const REPORT_VERSION: u32 = 1;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// Path of the script as given.
    pub script: String,
    /// Seconds since 1970-01-01 UTC at which recording began (after the warm-up).
    pub started_at_seconds: f64,
    /// Seconds since 1970-01-01 UTC at which the last iteration was over.
    pub ended_at_seconds: f64,
    /// Length of the recorded window, by a monotonic clock.
    pub duration_seconds: f64,
    /// Length of the warm-up before it.
    pub warm_up_seconds: f64,
    /// The run was stopped before its end: by a signal, the script or a threshold.
    pub aborted: bool,
    /// Virtual users at most.
    pub vus_max: u32,
    /// Counts of requests.
    pub requests: Requests,
    /// Bytes over TCP, heads included.
    pub bytes: Bytes,
    /// Requests by status code; `0` for those without an answer.
    pub status_codes: BTreeMap<String, u64>,
    /// Iterations.
    pub iterations: Iterations,
    /// Every trend with values, built-in and custom, by name.
    pub trends: BTreeMap<String, Trend>,
    /// Requests by their `name` tag, at most 500 names; further ones are under `(other)`.
    pub names: BTreeMap<String, NameReport>,
    /// Requests by the group they were made in; the empty name is outside of all groups. Bounded
    /// together with the names.
    #[serde(default)]
    pub groups: BTreeMap<String, NameReport>,
    /// Every scenario by its name, with its own requests, iterations and checks.
    #[serde(default)]
    pub scenarios: BTreeMap<String, ScenarioReport>,
    /// Every threshold.
    #[serde(default)]
    pub thresholds: Vec<ThresholdReport>,
    /// `setup()` and `teardown()`, when there is one. What they did counts nowhere else in this
    /// document; the summary and thresholds count it, as k6 does.
    #[serde(default)]
    pub setup: Option<LifecycleReport>,
    /// See `setup`.
    #[serde(default)]
    pub teardown: Option<LifecycleReport>,
    /// Every other custom metric with values.
    pub metrics: BTreeMap<String, Metric>,
    /// Checks, in the order of their first use.
    pub checks: Vec<Check>,
    /// The generator about itself.
    pub generator: Generator,
    /// Requests over time.
    pub series: SeriesReport,
}

/// Counts of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// All of them; every followed redirect is one.
    pub total: u64,
    /// Neither failed nor with a failed check.
    pub good: u64,
    /// No answer, or a status outside of 200–399.
    pub failed: u64,
}

/// Bytes over TCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Written.
    pub sent: u64,
    /// Read.
    pub received: u64,
}

/// Counts of iterations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iterations {
    /// Ended by themselves, those that threw included.
    pub complete: u64,
    /// Cut short at the end of the run.
    pub interrupted: u64,
    /// Should have started but could not.
    pub dropped: u64,
}

/// A distribution. Quantiles interpolate between ranks as k6 does; their relative error is below
/// 0.1 %. `avg`, `min`, `max` and `count` are exact.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Trend {
    pub count: u64,
    pub avg: f64,
    pub min: f64,
    pub med: f64,
    pub max: f64,
    /// Sample standard deviation.
    pub stddev: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
    #[serde(rename = "p99.9")]
    pub p999: f64,
}

/// Requests with one `name` tag.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct NameReport {
    /// Their counts.
    pub requests: Requests,
    /// Their `http_req_duration` in milliseconds.
    pub http_req_duration: Trend,
}

/// One scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// Its executor.
    pub executor: String,
    /// Counts of its requests. Goodput is `good` over the time the scenario ran.
    pub requests: Requests,
    /// `http_req_duration` of its requests, in milliseconds.
    pub http_req_duration: Trend,
    /// Its requests by their `name` tag; see [`Report::names`].
    pub names: BTreeMap<String, NameReport>,
    /// Its iterations.
    pub iterations: Iterations,
    /// How long they took from their actual start, in milliseconds.
    pub iteration_duration: Trend,
    /// Outcomes of all its checks.
    pub checks: Checks,
    /// What only scenarios have whose iterations start by the clock.
    pub open_model: Option<OpenModel>,
}

/// What is known of a scenario whose iterations have a time they should start at. A server that
/// stalls makes iterations start late or not at all; durations that begin with the actual start do
/// not show the wait ("coordinated omission"). Iterations that were dropped have no duration at
/// all: these figures are to be read together with their number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenModel {
    /// From the intended to the actual start of every started iteration, in milliseconds.
    pub start_lag_ms: Trend,
    /// `http_req_duration` plus the start lag of the request's iteration, in milliseconds.
    pub http_req_response_ms: Trend,
    /// From the intended start to the end of an iteration, in milliseconds.
    pub iteration_response_ms: Trend,
}

/// Outcomes of checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Checks {
    pub passes: u64,
    pub fails: u64,
}

/// One threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThresholdReport {
    /// The metric or sub-metric.
    pub metric: String,
    /// The condition.
    pub threshold: String,
    /// What was found.
    pub value: f64,
    /// Whether the condition holds.
    pub ok: bool,
}

/// What a function of the life-cycle did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LifecycleReport {
    /// How long it took.
    pub duration_seconds: f64,
    /// Its requests.
    pub requests: Requests,
    /// Their `http_req_duration` in milliseconds.
    pub http_req_duration: Trend,
}

/// A custom metric that is no trend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Metric {
    Counter { count: f64 },
    Gauge { value: f64, min: f64, max: f64 },
    Rate { rate: f64, passes: u64, fails: u64 },
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The groups around it, `::outer::inner`; empty outside of all groups.
    pub group: String,
    /// Its name.
    pub name: String,
    /// How often it held.
    pub passes: u64,
    /// How often it did not.
    pub fails: u64,
}

/// The generator about itself, over the recorded window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Processor time of the process, user and system.
    pub cpu_seconds: f64,
    /// Processors it may use (affinity and quota respected).
    pub cores: usize,
    /// Event loops it ran.
    pub event_loops: usize,
    /// Largest part of the window (0–1) that one event loop was computing.
    pub busiest_loop: f64,
    /// How late a 10 ms timer fired on its event loops: median, in milliseconds.
    pub lag_p50_ms: f64,
    /// The same, 99th percentile.
    pub lag_p99_ms: f64,
    /// The same, maximum.
    pub lag_max_ms: f64,
    /// By how much iterations started late, over all scenarios whose iterations start by the clock:
    /// 99th percentile, in milliseconds. Absent without such a scenario.
    #[serde(default)]
    pub start_lag_p99_ms: Option<f64>,
    /// The same, maximum.
    #[serde(default)]
    pub start_lag_max_ms: Option<f64>,
    /// The generator, not the server, looks like the limit: an iteration of a closed model was
    /// dropped, an event loop was busy for more than 90 % of the time, the 99th percentile of the
    /// lag or start lag was above 20 ms, or more than 90 % of the processors it may use were used. How busy it was is only
    /// judged over a window of at least a second.
    pub limited: bool,
    /// Which of these, when `limited`.
    pub reason: Option<String>,
}

/// Requests over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesReport {
    /// Length of a step: 1 second, more for runs longer than an hour.
    pub step_seconds: u32,
    /// The most good requests per second in any whole step.
    pub peak_good_per_second: f64,
    /// Step by step from the start of recording; the last one may be shorter.
    pub steps: Vec<Step>,
}

/// One step of the series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests answered in it.
    pub requests: u64,
    /// Good ones among them.
    pub good: u64,
    /// 95th percentile of their `http_req_duration` in milliseconds, within 2 %.
    pub p95_ms: f64,
}

/// What the report says beyond what was measured.
pub(crate) struct Context<'a> {
    pub(crate) script: &'a str,
    pub(crate) warm_up: Duration,
    pub(crate) event_loops: usize,
    pub(crate) iterations: Iterations,
    pub(crate) scenarios: &'a [Scenario],
    pub(crate) thresholds: Vec<(&'a str, &'a ThresholdResult)>,
}

/// Makes the report of a run.
pub(crate) fn report(finished: &Finished, registry: &Registry, context: &Context<'_>) -> Report {
    let measured = &finished.measured;
    let counter = |metric: Builtin| match measured.sinks.get(metric as usize) {
        Some(Sink::Counter { sum, .. }) => *sum as u64,
        _ => 0,
    };
    let (trends, metrics) = trends_and_metrics(registry, measured);
    Report {
        version: REPORT_VERSION,
        script: context.script.to_owned(),
        started_at_seconds: seconds_since_epoch(finished.started_at),
        ended_at_seconds: seconds_since_epoch(finished.ended_at),
        duration_seconds: finished.duration.as_secs_f64(),
        warm_up_seconds: context.warm_up.as_secs_f64(),
        aborted: finished.aborted || finished.stopped.is_some(),
        vus_max: finished.max_vus,
        requests: Requests {
            total: measured.totals.requests,
            good: measured.totals.good,
            failed: measured.totals.failed,
        },
        bytes: Bytes { sent: counter(Builtin::DataSent), received: counter(Builtin::DataReceived) },
        status_codes: measured.statuses.iter().map(|(code, n)| (code.to_string(), *n)).collect(),
        iterations: Iterations {
            dropped: counter(Builtin::DroppedIterations),
            ..context.iterations
        },
        trends,
        names: grouped(measured, |key| Some(&key.name)),
        groups: grouped(measured, |key| Some(&key.group)),
        scenarios: scenarios(measured, context.scenarios),
        thresholds: context.thresholds.iter().map(threshold).collect(),
        setup: lifecycle(&finished.lifecycle.setup, finished.lifecycle.setup_took),
        teardown: lifecycle(&finished.lifecycle.teardown, finished.lifecycle.teardown_took),
        metrics,
        checks: checks(&measured.groups),
        generator: generator_report(
            finished,
            context.event_loops,
            dropped_of_closed_models(measured, context.scenarios),
        ),
        series: series(&measured.series, finished.duration),
    }
}

fn seconds_since_epoch(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn trend(histogram: &Histogram) -> Trend {
    Trend {
        count: histogram.count(),
        avg: histogram.mean(),
        min: histogram.min(),
        med: histogram.quantile(0.5),
        max: histogram.max(),
        stddev: histogram.standard_deviation(),
        p50: histogram.quantile(0.5),
        p90: histogram.quantile(0.9),
        p95: histogram.quantile(0.95),
        p99: histogram.quantile(0.99),
        p999: histogram.quantile(0.999),
    }
}

fn trends_and_metrics(
    registry: &Registry,
    measured: &Measured,
) -> (BTreeMap<String, Trend>, BTreeMap<String, Metric>) {
    let (mut trends, mut metrics) = (BTreeMap::new(), BTreeMap::new());
    for ((id, metric), sink) in registry.iter().zip(&measured.sinks) {
        if sink.is_empty() {
            continue;
        }
        let name = metric.name.clone();
        let value = match sink {
            Sink::Trend(histogram) => {
                trends.insert(name, trend(histogram));
                continue;
            }
            // Built-in ones have their own fields.
            _ if Builtin::is_builtin(id) => continue,
            Sink::Counter { sum, .. } => Metric::Counter { count: *sum },
            Sink::Gauge { value, min, max, .. } => {
                Metric::Gauge { value: *value, min: *min, max: *max }
            }
            Sink::Rate { trues, total } => Metric::Rate {
                rate: *trues as f64 / (*total).max(1) as f64,
                passes: *trues,
                fails: total - trues,
            },
        };
        metrics.insert(name, value);
    }
    (trends, metrics)
}

/// Requests by a part of their key; those without it are left out.
fn grouped<'m>(
    measured: &'m Measured,
    part: impl Fn(&'m RequestKey) -> Option<&'m String>,
) -> BTreeMap<String, NameReport> {
    let mut joined: BTreeMap<&String, NameStats> = BTreeMap::new();
    for (key, stats) in &measured.names {
        if let Some(part) = part(key) {
            joined.entry(part).or_default().merge(stats);
        }
    }
    joined.into_iter().map(|(name, stats)| (name.clone(), name_report(&stats))).collect()
}

fn name_report(stats: &NameStats) -> NameReport {
    let requests = Requests { total: stats.requests, good: stats.good, failed: stats.failed };
    NameReport { requests, http_req_duration: trend(&stats.duration) }
}

fn scenarios(measured: &Measured, scenarios: &[Scenario]) -> BTreeMap<String, ScenarioReport> {
    let nothing = ScenarioStats::default();
    let report = |(index, scenario): (usize, &Scenario)| {
        let stats = measured.scenarios.get(index).unwrap_or(&nothing);
        let mut all = NameStats::default();
        let own = measured.names.iter().filter(|(key, _)| key.scenario == index);
        own.for_each(|(_, one)| all.merge(one));
        let NameReport { requests, http_req_duration } = name_report(&all);
        let report = ScenarioReport {
            executor: scenario.executor.name().to_owned(),
            requests,
            http_req_duration,
            names: grouped(measured, |key| (key.scenario == index).then_some(&key.name)),
            iterations: Iterations {
                complete: stats.complete,
                interrupted: stats.interrupted,
                dropped: stats.dropped,
            },
            iteration_duration: trend(&stats.iteration_duration),
            checks: Checks { passes: stats.checks.passes, fails: stats.checks.fails },
            open_model: scenario.executor.open().map(|_| OpenModel {
                start_lag_ms: trend(&stats.start_lag),
                http_req_response_ms: trend(&all.response),
                iteration_response_ms: trend(&stats.iteration_response),
            }),
        };
        (scenario.name.clone(), report)
    };
    scenarios.iter().enumerate().map(report).collect()
}

/// In an open model a dropped iteration says that the server kept all virtual users waiting.
fn dropped_of_closed_models(measured: &Measured, scenarios: &[Scenario]) -> u64 {
    let closed = scenarios.iter().zip(&measured.scenarios);
    closed
        .filter(|(scenario, _)| scenario.executor.open().is_none())
        .map(|(_, it)| it.dropped)
        .sum()
}

fn threshold((metric, result): &(&str, &ThresholdResult)) -> ThresholdReport {
    ThresholdReport {
        metric: (*metric).to_owned(),
        threshold: result.source.clone(),
        value: result.value,
        ok: result.ok,
    }
}

/// `None` when the function was not called.
fn lifecycle(measured: &Measured, took: Duration) -> Option<LifecycleReport> {
    let mut all = NameStats::default();
    measured.names.values().for_each(|stats| all.merge(stats));
    let NameReport { requests, http_req_duration } = name_report(&all);
    let duration_seconds = took.as_secs_f64();
    (!took.is_zero()).then_some(LifecycleReport { duration_seconds, requests, http_req_duration })
}

fn checks(groups: &[GroupMeasured]) -> Vec<Check> {
    let check = |group: &GroupMeasured, (name, count): &(String, CheckCount)| Check {
        group: group.path.clone(),
        name: name.clone(),
        passes: count.passes,
        fails: count.fails,
    };
    groups.iter().flat_map(|group| group.checks.iter().map(|entry| check(group, entry))).collect()
}

fn generator_report(finished: &Finished, event_loops: usize, dropped: u64) -> Generator {
    let lag = &finished.health.lag;
    let start_lag = Some(&finished.health.start_lag).filter(|lag| lag.count() > 0);
    let cpu_seconds = finished.cpu.as_secs_f64();
    let reason =
        generator::verdict(&finished.health, cpu_seconds, finished.duration.as_secs_f64(), dropped);
    Generator {
        cpu_seconds,
        cores: generator::available_cores(),
        event_loops,
        busiest_loop: finished.health.busiest,
        lag_p50_ms: lag.quantile(0.5),
        lag_p99_ms: lag.quantile(0.99),
        lag_max_ms: lag.max(),
        start_lag_p99_ms: start_lag.map(|lag| lag.quantile(0.99)),
        start_lag_max_ms: start_lag.map(Histogram::max),
        limited: reason.is_some(),
        reason,
    }
}

fn series(series: &Series, duration: Duration) -> SeriesReport {
    let length = f64::from(series.step_seconds());
    let whole = (duration.as_secs_f64() / length).floor() as usize;
    let steps: Vec<Step> = series
        .steps()
        .iter()
        .map(|step| Step {
            requests: step.requests,
            good: step.good,
            p95_ms: step.durations.quantile(0.95),
        })
        .collect();
    let peak = steps.iter().take(whole).map(|step| step.good).max().unwrap_or(0);
    SeriesReport {
        step_seconds: series.step_seconds(),
        peak_good_per_second: peak as f64 / length,
        steps,
    }
}
