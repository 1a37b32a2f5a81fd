//! What the summary shows, independent of how.

use std::time::Duration;

use super::TrendStat;
use crate::metrics::{Contains, GroupMeasured, Measured, MetricKind, Registry, Sink};

/// The figures of one metric.
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
    /// The statistics asked for, by name.
    Trend(Vec<(String, f64)>),
}

/// One metric of the summary.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SummaryMetric {
    /// With tags in braces for a sub-metric.
    pub(crate) name: String,
    pub(crate) kind: MetricKind,
    pub(crate) contains: Contains,
    pub(crate) values: Values,
}

/// Everything the summary shows.
pub(crate) struct SummaryData<'a> {
    /// In the order of their definition.
    pub(crate) metrics: Vec<SummaryMetric>,
    /// The root first.
    pub(crate) groups: &'a [GroupMeasured],
    /// Length of the window, what rates per second are over; never zero.
    pub(crate) seconds: f64,
}

impl<'a> SummaryData<'a> {
    /// The metrics that have values. A rate per second is over `duration`.
    pub(crate) fn new(
        registry: &Registry,
        measured: &'a Measured,
        trend_stats: &[String],
        duration: Duration,
    ) -> Self {
        let seconds = duration.as_secs_f64().max(1e-9);
        let metrics = registry
            .iter()
            .zip(&measured.sinks)
            .filter(|(_, sink)| !sink.is_empty())
            .map(|((_, metric), sink)| SummaryMetric {
                name: metric.name.clone(),
                kind: metric.kind,
                contains: metric.contains,
                values: values(sink, trend_stats, seconds),
            })
            .collect();
        Self { metrics, groups: &measured.groups, seconds }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&SummaryMetric> {
        self.metrics.iter().find(|metric| metric.name == name)
    }
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
                .filter_map(|name| Some((name.clone(), TrendStat::parse(name)?.of(histogram))))
                .collect(),
        ),
    }
}
