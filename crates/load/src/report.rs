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
    Builtin, CheckCount, GroupMeasured, Histogram, Measured, Registry, Series, Sink,
};

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
    /// The run was stopped by a signal before its end.
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
    /// The generator, not the server, looks like the limit: an iteration was dropped, an event
    /// loop was busy for more than 90 % of the time, the 99th percentile of the lag was above
    /// 20 ms, or more than 90 % of the processors it may use were used. How busy it was is only
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
        aborted: finished.aborted,
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
        names: names(measured),
        metrics,
        checks: checks(&measured.groups),
        generator: generator_report(
            finished,
            context.event_loops,
            counter(Builtin::DroppedIterations),
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

fn names(measured: &Measured) -> BTreeMap<String, NameReport> {
    let entry = |(name, stats): (&String, &crate::metrics::NameStats)| {
        let requests = Requests { total: stats.requests, good: stats.good, failed: stats.failed };
        (name.clone(), NameReport { requests, http_req_duration: trend(&stats.duration) })
    };
    measured.names.iter().map(entry).collect()
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
