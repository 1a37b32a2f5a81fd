//! The contents of the summary, independent of its format.

use std::time::Duration;

use super::TrendStat;
use crate::engine::Guarded;
use crate::metrics::{
    Contains, GroupMeasured, Measured, Metric, MetricId, MetricKind, Part, Registry, Sink,
};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Values {
    /// Sum, and sum per second.
    Counter {
        count: f64,
        rate: f64,
    },
    Gauge {
        value: f64,
        min: f64,
        max: f64,
    },
    Rate {
        rate: f64,
        passes: u64,
        fails: u64,
    },
    /// The configured statistics, by name.
    Trend(Vec<(String, f64)>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SummaryMetric {
    /// Includes tags in braces for a sub-metric.
    pub(crate) name: String,
    pub(crate) kind: MetricKind,
    pub(crate) contains: Contains,
    pub(crate) values: Values,
    pub(crate) thresholds: Vec<ThresholdResult>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ThresholdResult {
    /// As written: `p(95)<500`.
    pub(crate) source: String,
    /// The statistic: `p(95)`.
    pub(crate) aggregation: String,
    /// The value found; 0 if there was none.
    pub(crate) value: f64,
    pub(crate) ok: bool,
}

/// One scenario, or one group in it.
pub(crate) struct SummaryPart<'a> {
    pub(crate) part: &'a Part,
    pub(crate) metrics: Vec<SummaryMetric>,
}

pub(crate) struct SummaryData<'a> {
    /// In the order of their definition.
    pub(crate) metrics: Vec<SummaryMetric>,
    /// In preorder, the root first.
    pub(crate) groups: &'a [GroupMeasured],
    /// Scenarios and groups; empty unless the summary is full.
    pub(crate) parts: Vec<SummaryPart<'a>>,
    /// Length of the measured window, for rates per second; never zero.
    pub(crate) seconds: f64,
}

impl<'a> SummaryData<'a> {
    /// Collects the metrics that have values or thresholds. Rates per second are over `duration`; `thresholds` are
    /// the rules and whether each holds.
    pub(crate) fn new(
        registry: &Registry,
        measured: &'a Measured,
        trend_stats: &[String],
        duration: Duration,
        thresholds: (&[Guarded], &[Vec<bool>]),
    ) -> Self {
        let seconds = duration.as_secs_f64().max(1e-9);
        let results = |id: MetricId, sink: &Sink| -> Vec<ThresholdResult> {
            let of_metric =
                thresholds.0.iter().zip(thresholds.1).filter(|(one, _)| one.metric == id);
            of_metric.flat_map(|(one, held)| threshold_results(one, held, sink, seconds)).collect()
        };
        // A metric with thresholds is shown even without values, and so is the metric of a sub-metric with thresholds.
        let guarded = |id: MetricId| {
            let parent =
                |one: &Guarded| registry.get(one.metric).sub.as_ref().map(|sub| sub.parent);
            thresholds.0.iter().any(|one| one.metric == id || parent(one) == Some(id))
        };
        let shown = |metric: &Metric, sink: &Sink, thresholds| SummaryMetric {
            name: metric.name.clone(),
            kind: metric.kind,
            contains: metric.contains,
            values: values(sink, trend_stats, seconds),
            thresholds,
        };
        let metrics = registry
            .iter()
            .zip(&measured.sinks)
            .filter(|((id, _), sink)| !sink.is_empty() || guarded(*id))
            .map(|((id, metric), sink)| shown(metric, sink, results(id, sink)))
            .collect();
        let part = |part: &'a Part| {
            let all = part.sinks.iter();
            let metrics = all.map(|(id, sink)| shown(registry.get(*id), sink, Vec::new()));
            SummaryPart { part, metrics: metrics.collect() }
        };
        let parts = measured.breakdown.iter().map(part).collect();
        Self { metrics, groups: &measured.groups, parts, seconds }
    }

    /// All thresholds, each with the name of its metric.
    pub(crate) fn thresholds(&self) -> Vec<(&str, &ThresholdResult)> {
        self.metrics
            .iter()
            .flat_map(|metric| metric.thresholds.iter().map(|one| (metric.name.as_str(), one)))
            .collect()
    }

    /// Names of the metrics with thresholds that do not hold, sorted.
    pub(crate) fn crossed(&self) -> Vec<&str> {
        let crossed = |metric: &&SummaryMetric| metric.thresholds.iter().any(|one| !one.ok);
        let mut names: Vec<&str> =
            self.metrics.iter().filter(crossed).map(|metric| metric.name.as_str()).collect();
        names.sort_unstable();
        names
    }
}

fn threshold_results<'g>(
    guarded: &'g Guarded,
    held: &'g [bool],
    sink: &'g Sink,
    seconds: f64,
) -> impl Iterator<Item = ThresholdResult> + 'g {
    guarded.rules.thresholds.iter().zip(held).map(move |(rule, ok)| ThresholdResult {
        source: rule.source.clone(),
        aggregation: rule.aggregation.name(),
        value: sink.aggregate(rule.aggregation, seconds).unwrap_or_default(),
        ok: *ok,
    })
}

fn values(sink: &Sink, trend_stats: &[String], seconds: f64) -> Values {
    match sink {
        Sink::Counter { sum, .. } => Values::Counter { count: *sum, rate: *sum / seconds },
        Sink::Gauge { value, min, max, .. } => {
            Values::Gauge { value: *value, min: *min, max: *max }
        }
        Sink::Rate { trues, total } => Values::Rate {
            rate: *trues as f64 / (*total).max(1) as f64,
            passes: *trues,
            fails: total - trues,
        },
        Sink::Trend(histogram) => Values::Trend(
            trend_stats
                .iter()
                .filter_map(|name| {
                    Some((name.clone(), TrendStat::parse(name)?.value_in(histogram)))
                })
                .collect(),
        ),
    }
}
