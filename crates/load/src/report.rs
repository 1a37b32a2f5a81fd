//! The machine-readable report (`--report FILE`): what a program that compares runs needs.
//!
//! One JSON document. Durations of requests are milliseconds, other times name their unit.
//! Everything but [`Report::overall`] counts from the end of the warm-up; requests are counted when
//! their answer has arrived. A request is **failed** when it got no answer or one outside of
//! 200–399; it is **good** when it did not fail and no `check()` on it failed (a check on something
//! that is no response counts for the last request before it in the same iteration).

mod make;
mod overall;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub(crate) use make::{Context, report};

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
    /// Seconds since 1970-01-01 UTC at which the last scenario was over.
    pub ended_at_seconds: f64,
    /// Length of the recorded window, by a monotonic clock.
    pub duration_seconds: f64,
    /// Length of the warm-up before it.
    pub warm_up_seconds: f64,
    /// For how long, by the options, iterations were to start by the clock: from the first `startTime`
    /// of the scenarios with an open model to the last end of their durations. Absent without any.
    #[serde(default)]
    pub arrivals_seconds: Option<f64>,
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
    /// Sums over the whole run by metric, sub-metrics among them: `setup()`, warm-up, recorded window and
    /// `teardown()`, each value once. What a server keeps is to be compared with these. Metrics
    /// without values and gauges are not in it.
    #[serde(default)]
    pub overall: BTreeMap<String, Sum>,
    /// Checks, in the order of their first use.
    pub checks: Vec<Check>,
    /// Why requests failed: `status 503` and the like where an answer was not the expected one, else why
    /// there was none or nothing could be sent, as with an address that is none. The most frequent
    /// first; ten at most.
    #[serde(default)]
    pub failures: Vec<Trouble>,
    /// What iterations threw, likewise; also after a bad request.
    #[serde(default)]
    pub exceptions: Vec<Trouble>,
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
    /// Beside all of them: cut off at the end of their iteration after they had waited longer than
    /// any answer took, or longer than a second where there was none. Those cut off sooner, as any
    /// end without grace does, are not counted at all.
    #[serde(default)]
    pub unanswered: u64,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// What was said, one line.
    pub message: String,
    /// How often.
    pub count: u64,
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
    /// Those of the complete ones that threw although none of their requests was bad: neither failed
    /// nor with a failed check. After a bad one a script may well give up, as with `fail()`.
    #[serde(default)]
    pub threw: u64,
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

/// What the values of a metric add up to over the whole run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Sum {
    /// Of a counter.
    Counter { count: f64 },
    /// Of a rate.
    Rate { passes: u64, fails: u64 },
    /// Of a distribution.
    Trend { count: u64 },
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
    /// Largest part of the window (0–1) that one event loop was computing or waiting for a
    /// processor that others used.
    #[serde(default)]
    pub wanting_loop: f64,
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
    /// The generator, not the server, looks like the limit: an event loop was busy for more than
    /// 90 % of the time, more than 90 % of the processors it may use were used, the 99th percentile of
    /// the lag or start lag was above 20 ms, or an event loop was busy or waiting for a processor for
    /// more than 90 % of the time. How busy it was is only judged over a window of at least a second.
    pub limited: bool,
    /// It was only limited because others used the processor it was waiting for.
    #[serde(default)]
    pub starved: bool,
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
