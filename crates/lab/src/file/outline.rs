//! Outline of a script: what the load generator would measure, known before the first round.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::load::metric::Kind;

/// Outline of a script for all variants.
#[derive(Debug, Clone, Deserialize)]
pub struct Outline {
    seconds: f64,
    /// Iterations per second of an open model.
    #[serde(default)]
    rate: Option<f64>,
    /// Includes sub-metrics.
    pub(crate) metrics: BTreeMap<String, Kind>,
    /// Variables of `__ENV` that the script and its imports read; `None` if unknown.
    #[serde(default)]
    pub(crate) variables: Option<BTreeSet<String>>,
    #[serde(default)]
    pub(crate) imports: BTreeSet<PathBuf>,
    #[serde(default)]
    pub(crate) opened: BTreeSet<PathBuf>,
}

impl Outline {
    /// Combines the outlines of two variants: the shorter length, and the metrics of either.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.seconds = self.seconds.min(other.seconds);
        self.rate = self.rate.filter(|rate| Some(*rate) == other.rate);
        let mut metrics = other.metrics;
        metrics.append(&mut self.metrics);
        let variables = self.variables.zip(other.variables).map(|(one, other)| &one | &other);
        let imports = &self.imports | &other.imports;
        let opened = &self.opened | &other.opened;
        Self { metrics, variables, imports, opened, ..self }
    }

    pub(crate) fn follows(&self, rate: u32, lasts: Duration) -> bool {
        let is_near = |seen: f64, asked: f64| (seen / asked - 1.0).abs() < 0.01;
        let rate_is = self.rate.is_some_and(|seen| is_near(seen, f64::from(rate)));
        rate_is && is_near(self.seconds, lasts.as_secs_f64())
    }

    /// Longest time during which iterations start in the measured window.
    pub fn length(&self) -> Duration {
        Duration::try_from_secs_f64(self.seconds).unwrap_or(Duration::MAX)
    }
}
