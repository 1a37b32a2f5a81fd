//! Report of the load generator: the fields that the lab uses.
//!
//! The generator is another program, possibly of another version, so other fields are ignored. Module `report` of
//! `madang-load` documents the fields.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::journal::record::GOOD_LIMIT;

/// Supported version of the report.
const VERSION: u32 = 1;

/// Report of one load. Counts and times but `overall` are of the measured window, without the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    pub version: u32,
    pub started_at_seconds: f64,
    pub ended_at_seconds: f64,
    pub duration_seconds: f64,
    /// Part of the window in which an open model starts iterations, by the script's options. `None` without an open
    /// model, and in reports of other generators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals_seconds: Option<f64>,
    #[serde(default)]
    pub aborted: bool,
    pub requests: Requests,
    #[serde(default)]
    pub bytes: Bytes,
    #[serde(default)]
    pub status_codes: BTreeMap<String, u64>,
    #[serde(default)]
    pub iterations: Iterations,
    #[serde(default)]
    pub trends: BTreeMap<String, Trend>,
    #[serde(default)]
    pub metrics: BTreeMap<String, Sampled>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub overall: BTreeMap<String, Sum>,
    #[serde(default)]
    pub checks: Vec<Check>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Trouble>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<Trouble>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scenarios: BTreeMap<String, ScenarioPart>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<String, Subset>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, Subset>,
    #[serde(default)]
    pub series: Option<Series>,
    #[serde(default)]
    pub generator: Generator,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Subset {
    pub requests: Requests,
    pub http_req_duration: Trend,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    pub step_seconds: u32,
    pub peak_good_per_second: f64,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub requests: u64,
    pub good: u64,
    pub p95_ms: f64,
}

/// Requests by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Requests {
    pub total: u64,
    pub good: u64,
    #[serde(default)]
    pub failed: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unanswered: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Bytes {
    pub sent: u64,
    pub received: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Iterations {
    pub complete: u64,
    #[serde(default)]
    pub interrupted: u64,
    #[serde(default)]
    pub dropped: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub threw: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// An error message and its frequency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    pub message: String,
    pub count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    #[serde(default)]
    pub count: u64,
    pub avg: f64,
    pub min: f64,
    pub max: f64,
    pub stddev: f64,
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
}

/// A metric other than a trend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Sampled {
    Counter { count: f64 },
    Gauge { value: f64, min: f64, max: f64 },
    Rate { rate: f64, passes: u64, fails: u64 },
}

/// Sum over the values of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Sum {
    Counter { count: f64 },
    Rate { passes: u64, fails: u64 },
    Trend { count: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScenarioPart {
    /// Absent in reports of other generators.
    #[serde(flatten)]
    pub part: Option<Subset>,
    /// Absent in reports of other generators.
    #[serde(default)]
    pub iterations: Option<Iterations>,
    /// Milliseconds, of complete iterations; absent in reports of other generators.
    #[serde(default)]
    pub iteration_duration: Option<Trend>,
    #[serde(default)]
    pub open_model: Option<OpenModel>,
}

/// Response times from the intended start of iterations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OpenModel {
    pub http_req_response_ms: Trend,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    pub group: String,
    pub name: String,
    pub passes: u64,
    pub fails: u64,
}

impl Check {
    /// True if more than 1 % of it failed.
    pub fn has_failed(&self) -> bool {
        self.fails as f64 > (1.0 - GOOD_LIMIT) * (self.passes + self.fails) as f64
    }
}

/// Use of the generator, and whether it was the bottleneck.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Generator {
    pub cpu_seconds: f64,
    pub cores: u32,
    #[serde(default)]
    pub lag_p99_ms: f64,
    #[serde(default)]
    pub limited: bool,
    #[serde(default)]
    pub starved: bool,
    #[serde(default)]
    pub reason: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error("cannot read the load report `{}`", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the load report `{}` is not one this version understands", .path.display())]
    Shape { path: PathBuf, source: serde_json::Error },
    #[error("the load report `{}` has version {found}, this understands version {VERSION}", .path.display())]
    Version { path: PathBuf, found: u32 },
    #[error("the load was aborted before its end")]
    Aborted,
    #[error("the load report `{}` covers no time", .0.display())]
    Empty(PathBuf),
}

impl LoadReport {
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let text =
            fs::read(path).map_err(|source| ReportError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    pub(crate) fn parse(text: &[u8], path: &Path) -> Result<Self, ReportError> {
        let report: Self = serde_json::from_slice(text)
            .map_err(|source| ReportError::Shape { path: path.to_owned(), source })?;
        if report.version != VERSION {
            return Err(ReportError::Version { path: path.to_owned(), found: report.version });
        }
        if report.aborted {
            return Err(ReportError::Aborted);
        }
        let length = report.ended_at_seconds - report.started_at_seconds;
        if report.duration_seconds > 0.0 && length > 0.0 {
            Ok(report)
        } else {
            Err(ReportError::Empty(path.to_owned()))
        }
    }

    /// Response times of all requests; `None` without requests.
    pub fn http_req_duration(&self) -> Option<&Trend> {
        self.trends.get("http_req_duration")
    }

    /// Length of a step of the series in seconds, and number of complete steps. `None` without a series.
    pub(crate) fn whole_steps(&self) -> Option<(f64, usize)> {
        let seconds = f64::from(self.series.as_ref()?.step_seconds.max(1));
        // Tolerates a window of whole seconds that ends slightly early.
        Some((seconds, (self.duration_seconds / seconds + 1e-3).floor() as usize))
    }

    /// Share of good requests, from 0 to 1; `None` without requests. Unanswered requests are not good.
    pub fn good_share(&self) -> Option<f64> {
        let Requests { total, good, unanswered, .. } = self.requests;
        let all = total + unanswered;
        (all > 0).then(|| good as f64 / all as f64)
    }

    /// True if an open-model scenario dropped more than 1 % of its iterations. Fewer are normal: k6 drops iterations
    /// while it starts virtual users beyond `preAllocatedVUs`.
    pub fn has_dropped(&self) -> bool {
        let open = self.scenarios.values().filter(|scenario| scenario.open_model.is_some());
        let mut iterations = open.filter_map(|scenario| scenario.iterations);
        iterations.any(|Iterations { complete, interrupted, dropped, .. }| {
            dropped as f64 > (1.0 - GOOD_LIMIT) * (complete + interrupted + dropped) as f64
        })
    }

    /// Response times from the intended start for each open-model scenario; `http_req_duration` without one.
    pub fn response_times(&self) -> Vec<Trend> {
        let open = self.scenarios.values().filter_map(|scenario| scenario.open_model);
        let open: Vec<Trend> =
            open.map(|open| open.http_req_response_ms).filter(|trend| trend.count > 0).collect();
        if open.is_empty() { self.http_req_duration().copied().into_iter().collect() } else { open }
    }

    /// Share of the iterations that threw although all their requests were good, from 0 to 1.
    pub fn threw_share(&self) -> f64 {
        let Iterations { complete, threw, .. } = self.iterations;
        if complete == 0 { 0.0 } else { threw as f64 / complete as f64 }
    }
}
