//! Values aggregated by metric and tags, for servers that take aggregates.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use super::Batch;
use crate::metrics::{Contains, Metric, MetricId, MetricKind, Registry};

/// Limit of different sets of tags. A script that puts an id into every URL must not exhaust the memory, here or in the
/// server.
const MAX_TAG_SETS: usize = 20_000;

/// Sorted names and values.
pub(super) type Tags = Arc<[(String, String)]>;

pub(super) trait Distribution {
    fn record(&mut self, value: f64);
}

/// The aggregate since the start of the run.
#[derive(Debug, Clone)]
pub(super) enum Value<D> {
    Counter(f64),
    Gauge(f64),
    Rate { trues: u64, total: u64 },
    Trend(D),
}

/// A metric with one set of tags.
#[derive(Debug)]
pub(super) struct Series<D> {
    pub(super) value: Value<D>,
    /// Time of the last value, in milliseconds since 1970.
    pub(super) time: i64,
    /// A later value was added since [`Table::take_fresh`].
    is_fresh: bool,
}

impl<D: Distribution> Series<D> {
    fn new(metric: &Metric, empty: impl Fn(Contains) -> D) -> Self {
        let value = match metric.kind {
            MetricKind::Counter => Value::Counter(0.0),
            MetricKind::Gauge => Value::Gauge(0.0),
            MetricKind::Rate => Value::Rate { trues: 0, total: 0 },
            MetricKind::Trend => Value::Trend(empty(metric.contains)),
        };
        Self { value, time: i64::MIN, is_fresh: false }
    }

    fn add(&mut self, added: f64, time: i64) {
        match &mut self.value {
            Value::Counter(sum) => *sum += added,
            Value::Gauge(value) => *value = added,
            Value::Rate { trues, total } => {
                *total += 1;
                *trues += u64::from(added != 0.0);
            }
            Value::Trend(distribution) => distribution.record(added),
        }
        if time > self.time {
            self.time = time;
            self.is_fresh = true;
        }
    }
}

pub(super) struct Table<D> {
    /// Creates a trend without values.
    empty: Box<dyn Fn(Contains) -> D + Send>,
    tag_indices: HashMap<Tags, usize>,
    tags: Vec<Tags>,
    series: BTreeMap<(MetricId, usize), Series<D>>,
    /// Values with tags beyond [`MAX_TAG_SETS`].
    left_out: u64,
}

impl<D: Distribution> Table<D> {
    pub(super) fn new(empty: impl Fn(Contains) -> D + Send + 'static) -> Self {
        let (tag_indices, tags, series) = Default::default();
        Self { empty: Box::new(empty), tag_indices, tags, series, left_out: 0 }
    }

    pub(super) fn add(&mut self, batch: &Batch, registry: &Registry) {
        let Some(tags) = self.tag_index(&batch.tags) else {
            self.left_out += batch.values.len() as u64;
            return;
        };
        let time = batch.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
        for (metric, value) in &batch.values {
            let series = self.series.entry((*metric, tags));
            let metric = registry.get(*metric);
            series.or_insert_with(|| Series::new(metric, &self.empty)).add(*value, time);
        }
    }

    fn tag_index(&mut self, tags: &[(String, String)]) -> Option<usize> {
        if let Some(index) = self.tag_indices.get(tags) {
            return Some(*index);
        }
        if self.tags.len() >= MAX_TAG_SETS {
            return None;
        }
        let tags: Tags = tags.into();
        self.tag_indices.insert(tags.clone(), self.tags.len());
        self.tags.push(tags);
        Some(self.tags.len() - 1)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (MetricId, &Tags, &Series<D>)> {
        self.series.iter().map(|((metric, tags), series)| (*metric, &self.tags[*tags], series))
    }

    /// Calls `each` with the series that have later values since the last call.
    pub(super) fn take_fresh(&mut self, mut each: impl FnMut(MetricId, &Tags, &Series<D>)) {
        for ((metric, tags), series) in &mut self.series {
            if std::mem::take(&mut series.is_fresh) {
                each(*metric, &self.tags[*tags], series);
            }
        }
    }

    /// A message about values left out since the last call.
    pub(super) fn take_left_out(&mut self) -> Option<String> {
        let left_out = std::mem::take(&mut self.left_out);
        (left_out > 0).then(|| {
            format!(
                "{left_out} values are left out: they have more than {MAX_TAG_SETS} different sets of tags; requests with \
                 an id in their address should have a tag `name`"
            )
        })
    }
}

/// Names and values of tags; as in k6 those without a value are left out.
pub(super) fn given(tags: &Tags) -> impl Iterator<Item = (String, String)> {
    tags.iter().filter(|(name, value)| !name.is_empty() && !value.is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::Builtin;

    impl Distribution for () {
        fn record(&mut self, _value: f64) {}
    }

    fn batch(milliseconds: u64, tag: &str, values: &[(Builtin, f64)]) -> Batch {
        Batch::new(Duration::from_millis(milliseconds), &[("t", tag)], &[], values)
    }

    #[test]
    fn values_of_the_same_metric_and_tags_are_summed_up() {
        let registry = Registry::new();
        let mut table = Table::new(|_| ());
        table.add(&batch(5, "a", &[(Builtin::HttpReqs, 1.0), (Builtin::Vus, 3.0)]), &registry);
        table.add(&batch(4, "a", &[(Builtin::HttpReqs, 2.0), (Builtin::Checks, 0.0)]), &registry);
        table.add(&batch(6, "b", &[(Builtin::HttpReqs, 4.0)]), &registry);
        let mut seen = Vec::new();
        table.take_fresh(|metric, tags, series| {
            seen.push((metric, tags[0].1.clone(), series.time, format!("{:?}", series.value)));
        });
        let requests = Builtin::HttpReqs.id();
        let of_requests: Vec<_> =
            seen.iter().filter(|(metric, ..)| *metric == requests).cloned().collect();
        let expected = [
            (requests, "a".to_owned(), 5, "Counter(3.0)".to_owned()),
            (requests, "b".to_owned(), 6, "Counter(4.0)".to_owned()),
        ];
        assert_eq!((of_requests, seen.len()), (expected.to_vec(), 4));
        table.add(&batch(5, "a", &[(Builtin::HttpReqs, 1.0)]), &registry);
        table.take_fresh(|_, _, series| panic!("not later: {series:?}"));
        assert_eq!(table.all().count(), 4);
    }

    #[test]
    fn endless_tags_stay_bounded_and_are_told() {
        let registry = Registry::new();
        let mut table = Table::new(|_| ());
        for index in 0..=MAX_TAG_SETS {
            table.add(&batch(1, &index.to_string(), &[(Builtin::HttpReqs, 1.0)]), &registry);
        }
        assert!(table.take_left_out().unwrap().starts_with("1 values are left out"));
        assert_eq!((table.take_left_out(), table.all().count()), (None, MAX_TAG_SETS));
    }
}
