//! The machine-readable report (`--report FILE`), for programs that compare runs.
//!
//! One JSON document. Durations of requests are in milliseconds, other times name their unit. All values but
//! [`Report::overall`] count from the end of the warm-up; a request is counted when its response has arrived. A request
//! is **failed** without a response or with a status outside of 200–399; it is **good** when neither it nor a `check()`
//! on it failed (a check on anything but a response counts for the last request before it in the same iteration).

mod make;
mod overall;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use make::report;

/// Version of the report; a reader must reject another one.
pub const REPORT_VERSION: u32 = 1;

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`REPORT_VERSION`].
    pub version: u32,
    /// Path of the script, as given.
    pub script: String,
    /// Start of recording (after the warm-up), in seconds since 1970-01-01 UTC.
    pub started_at_seconds: f64,
    /// End of the last scenario, in seconds since 1970-01-01 UTC.
    pub ended_at_seconds: f64,
    /// Length of recording by a monotonic clock.
    pub duration_seconds: f64,
    /// Length of the warm-up.
    pub warm_up_seconds: f64,
    /// Planned time of starts by the clock: from the first `startTime` of the scenarios with an open model to the end
    /// of the last. Absent without one.
    #[serde(default)]
    pub arrivals_seconds: Option<f64>,
    /// Stopped early by a signal, the script or a threshold.
    pub aborted: bool,
    /// Largest number of virtual users.
    pub vus_max: u32,
    /// Counts of requests.
    pub requests: Requests,
    /// Bytes over TCP, heads included.
    pub bytes: Bytes,
    /// Requests by status code; `0` without a response.
    pub status_codes: BTreeMap<String, u64>,
    /// Counts of iterations.
    pub iterations: Iterations,
    /// Every trend with values, built-in and custom, by name.
    pub trends: BTreeMap<String, Trend>,
    /// Requests by `name` tag, at most 500; further names are under `(other)`.
    pub names: BTreeMap<String, NameReport>,
    /// Requests by group; the empty name is outside of all groups. Bounded together with the names.
    #[serde(default)]
    pub groups: BTreeMap<String, NameReport>,
    /// Scenarios by name.
    #[serde(default)]
    pub scenarios: BTreeMap<String, ScenarioReport>,
    /// All thresholds.
    #[serde(default)]
    pub thresholds: Vec<ThresholdReport>,
    /// `setup()`; absent without. It counts nowhere else in this report; as in k6 the summary and thresholds include
    /// it.
    #[serde(default)]
    pub setup: Option<LifecycleReport>,
    /// `teardown()`, as `setup`.
    #[serde(default)]
    pub teardown: Option<LifecycleReport>,
    /// Custom metrics with values, without trends.
    pub metrics: BTreeMap<String, Metric>,
    /// Sums over the whole run by metric or sub-metric: `setup()`, warm-up, recording and `teardown()`, for comparison
    /// with a server's data. Without gauges and metrics without values.
    #[serde(default)]
    pub overall: BTreeMap<String, Sum>,
    /// Checks, in the order of their first use.
    pub checks: Vec<Check>,
    /// Reasons of failed requests: `status 503` for an unexpected response, or an error such as that of an invalid URL.
    /// The ten most frequent, sorted by count.
    #[serde(default)]
    pub failures: Vec<Trouble>,
    /// Exceptions of iterations, likewise; also after a bad request.
    #[serde(default)]
    pub exceptions: Vec<Trouble>,
    /// State of the load generator.
    pub generator: Generator,
    /// Requests over time.
    pub series: SeriesReport,
}

/// Counts of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// All requests; each followed redirect is one.
    pub total: u64,
    /// Requests that did not fail, without a failed check.
    pub good: u64,
    /// Requests without a response, or with a status outside of 200–399.
    pub failed: u64,
    /// Requests not in `total`: cut off at the end of their iteration after a longer wait than any response took, or
    /// than a second without any. Requests cut off sooner are not counted.
    #[serde(default)]
    pub unanswered: u64,
}

/// An error message with its count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Trouble {
    pub message: String,
    pub count: u64,
}

/// Bytes over TCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Bytes {
    pub sent: u64,
    pub received: u64,
}

/// Counts of iterations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Iterations {
    /// Iterations that returned or threw.
    pub complete: u64,
    /// Interrupted at the end of the run.
    pub interrupted: u64,
    /// Iterations that could not start.
    pub dropped: u64,
    /// Complete iterations that threw without a failed request or check; after one a script may throw on purpose, as
    /// with `fail()`.
    #[serde(default)]
    pub threw: u64,
}

/// A distribution. As in k6 quantiles interpolate between ranks; their relative error is below 0.1 %. `avg`, `min`,
/// `max` and `count` are exact.
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
    /// Counts.
    pub requests: Requests,
    /// `http_req_duration` in milliseconds.
    pub http_req_duration: Trend,
}

/// One scenario.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// Name of the executor.
    pub executor: String,
    /// Counts of requests. Goodput is `good` divided by the scenario's time.
    pub requests: Requests,
    /// `http_req_duration` in milliseconds.
    pub http_req_duration: Trend,
    /// Requests by `name` tag; see [`Report::names`].
    pub names: BTreeMap<String, NameReport>,
    /// Counts of iterations.
    pub iterations: Iterations,
    /// Durations from the actual start, in milliseconds.
    pub iteration_duration: Trend,
    /// Results of checks.
    pub checks: Checks,
    /// Only for scenarios whose iterations start by the clock.
    pub open_model: Option<OpenModel>,
}

/// Figures of a scenario whose iterations have an intended start. A server that stalls delays or drops iterations,
/// which durations from the actual start do not show ("coordinated omission"). Dropped iterations have no duration:
/// read these figures together with their number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenModel {
    /// From the intended to the actual start of iterations, in milliseconds.
    pub start_lag_ms: Trend,
    /// `http_req_duration` plus the start lag of the request's iteration, in milliseconds.
    pub http_req_response_ms: Trend,
    /// From the intended start to the end of an iteration, in milliseconds.
    pub iteration_response_ms: Trend,
}

/// Results of checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Checks {
    pub passes: u64,
    pub fails: u64,
}

/// One threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ThresholdReport {
    /// Metric or sub-metric.
    pub metric: String,
    /// Condition.
    pub threshold: String,
    pub value: f64,
    pub ok: bool,
}

/// `setup()` or `teardown()`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LifecycleReport {
    /// Duration of the call.
    pub duration_seconds: f64,
    /// Counts of requests.
    pub requests: Requests,
    /// `http_req_duration` in milliseconds.
    pub http_req_duration: Trend,
}

/// A custom metric other than a trend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Metric {
    Counter { count: f64 },
    Gauge { value: f64, min: f64, max: f64 },
    Rate { rate: f64, passes: u64, fails: u64 },
}

/// Sum of a metric over the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Sum {
    Counter { count: f64 },
    Rate { passes: u64, fails: u64 },
    Trend { count: u64 },
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Check {
    /// Path, `::outer::inner`; empty outside of all groups.
    pub group: String,
    pub name: String,
    pub passes: u64,
    pub fails: u64,
}

/// State of the load generator while recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time of the process, user and system.
    pub cpu_seconds: f64,
    /// Available processors, by affinity and quota.
    pub cores: usize,
    /// Number of event loops.
    pub event_loops: usize,
    /// Largest CPU share of an event loop (0–1).
    pub busiest_loop: f64,
    /// Largest share of an event loop's time (0–1) with CPU use or waiting for a processor.
    #[serde(default)]
    pub wanting_loop: f64,
    /// Lateness of a 10 ms timer on the event loops: median, in milliseconds.
    pub lag_p50_ms: f64,
    /// The same, 99th percentile.
    pub lag_p99_ms: f64,
    /// The same, maximum.
    pub lag_max_ms: f64,
    /// Start lag of iterations that start by the clock: 99th percentile, in milliseconds. Absent without any.
    #[serde(default)]
    pub start_lag_p99_ms: Option<f64>,
    /// The same, maximum.
    #[serde(default)]
    pub start_lag_max_ms: Option<f64>,
    /// The generator, not the server, looks like the bottleneck: `busiest_loop` or `wanting_loop` is above 90 %, CPU
    /// use is above 90 % of `cores`, or the 99th percentile of lag or start lag is above 20 ms. CPU use is evaluated
    /// over at least a second.
    pub limited: bool,
    /// Limited only because other processes used the processor.
    #[serde(default)]
    pub starved: bool,
    /// Reason, when `limited`.
    pub reason: Option<String>,
}

/// Requests over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SeriesReport {
    /// Length of a step: 1 second, more for runs longer than an hour.
    pub step_seconds: u32,
    /// Largest rate of good requests in a whole step.
    pub peak_good_per_second: f64,
    /// Steps from the start of recording; the last may be shorter.
    pub steps: Vec<Step>,
}

/// One step of the series.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Requests whose response arrived.
    pub requests: u64,
    /// Good requests.
    pub good: u64,
    /// 95th percentile of `http_req_duration` in milliseconds, within 2 %.
    pub p95_ms: f64,
}
