//! Aggregated values of a metric.

use std::time::Instant;

use super::{Histogram, MetricKind};
use crate::options::Aggregation;

/// Aggregated values of a metric on one event loop or, merged, on all.
#[derive(Debug, Clone)]
pub(crate) enum Sink {
    /// The sum, and whether there was a value: a sum of zeros is shown.
    Counter { sum: f64, touched: bool },
    /// The last value and the extremes.
    Gauge { value: f64, min: f64, max: f64, set_at: Option<Instant> },
    /// Values other than zero.
    Rate { trues: u64, total: u64 },
    /// All values.
    Trend(Box<Histogram>),
}

impl Sink {
    pub(crate) fn new(kind: MetricKind) -> Self {
        match kind {
            MetricKind::Counter => Self::Counter { sum: 0.0, touched: false },
            MetricKind::Gauge => Self::Gauge { value: 0.0, min: 0.0, max: 0.0, set_at: None },
            MetricKind::Rate => Self::Rate { trues: 0, total: 0 },
            MetricKind::Trend => Self::Trend(Box::default()),
        }
    }

    pub(crate) fn add(&mut self, added: f64) {
        match self {
            Self::Counter { sum, touched } => {
                *sum += added;
                *touched = true;
            }
            Self::Gauge { value, min, max, set_at } => {
                let first = set_at.replace(Instant::now()).is_none();
                *value = added;
                *min = if first { added } else { min.min(added) };
                *max = if first { added } else { max.max(added) };
            }
            Self::Rate { trues, total } => {
                *total += 1;
                *trues += u64::from(added != 0.0);
            }
            Self::Trend(histogram) => histogram.record(added),
        }
    }

    /// Adds the values of another event loop; the later value of a gauge wins.
    pub(crate) fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::Counter { sum, touched }, Self::Counter { sum: more, touched: too }) => {
                *sum += more;
                *touched |= too;
            }
            (Self::Gauge { .. }, Self::Gauge { set_at: None, .. }) => {}
            (mine @ Self::Gauge { set_at: None, .. }, Self::Gauge { .. }) => *mine = other.clone(),
            (
                Self::Gauge { value, min, max, set_at },
                Self::Gauge { value: theirs, min: least, max: most, set_at: time },
            ) => {
                *min = min.min(*least);
                *max = max.max(*most);
                if time > set_at {
                    (*value, *set_at) = (*theirs, *time);
                }
            }
            (Self::Rate { trues, total }, Self::Rate { trues: more, total: of }) => {
                *trues += more;
                *total += of;
            }
            (Self::Trend(mine), Self::Trend(theirs)) => mine.merge(theirs),
            (mine, theirs) => {
                debug_assert!(false, "two kinds for one metric: {mine:?}, {theirs:?}");
            }
        }
    }

    /// The value for a threshold; the rate of a counter is over `seconds`. `None` for a rate without values, and for an
    /// aggregation that this kind of metric does not have.
    pub(crate) fn aggregate(&self, what: Aggregation, seconds: f64) -> Option<f64> {
        use Aggregation as A;
        match (self, what) {
            (Self::Counter { sum, .. }, A::Count) => Some(*sum),
            (Self::Counter { sum, .. }, A::Rate) => Some(sum / seconds),
            (Self::Gauge { value, .. }, A::Value) => Some(*value),
            (Self::Rate { trues, total }, A::Rate) => {
                (*total > 0).then(|| *trues as f64 / *total as f64)
            }
            (Self::Trend(histogram), A::Avg) => Some(histogram.mean()),
            (Self::Trend(histogram), A::Min) => Some(histogram.min()),
            (Self::Trend(histogram), A::Med) => Some(histogram.quantile(0.5)),
            (Self::Trend(histogram), A::Max) => Some(histogram.max()),
            (Self::Trend(histogram), A::Percentile(p)) => Some(histogram.quantile(p / 100.0)),
            _ => None,
        }
    }

    /// True if there are no values; such a metric is not shown.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Counter { touched, .. } => !touched,
            Self::Gauge { set_at, .. } => set_at.is_none(),
            Self::Rate { total, .. } => *total == 0,
            Self::Trend(histogram) => histogram.count() == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(kind: MetricKind, values: &[f64]) -> Sink {
        let mut sink = Sink::new(kind);
        values.iter().for_each(|value| sink.add(*value));
        sink
    }

    #[test]
    fn a_gauge_keeps_the_latest_value_of_all_loops_and_both_extremes() {
        let mut early = filled(MetricKind::Gauge, &[5.0, 1.0]);
        let late = filled(MetricKind::Gauge, &[9.0, 4.0]);
        early.merge(&late);
        early.merge(&Sink::new(MetricKind::Gauge));
        let Sink::Gauge { value, min, max, .. } = early else { panic!() };
        assert_eq!((value, min, max), (4.0, 1.0, 9.0));
    }

    #[test]
    fn a_counter_that_only_had_zeros_is_not_empty() {
        let mut counter = Sink::new(MetricKind::Counter);
        assert!(counter.is_empty());
        counter.merge(&filled(MetricKind::Counter, &[0.0]));
        counter.merge(&Sink::new(MetricKind::Counter));
        assert!(!counter.is_empty());
    }

    #[test]
    fn a_rate_counts_what_is_not_zero() {
        let mut rate = filled(MetricKind::Rate, &[1.0, 0.0, 2.0]);
        rate.merge(&filled(MetricKind::Rate, &[0.0]));
        assert!(matches!(rate, Sink::Rate { trues: 2, total: 4 }));
    }
}
