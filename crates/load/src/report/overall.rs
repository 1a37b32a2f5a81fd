//! Sums over the whole run, from `setup()` to `teardown()`.
//!
//! A window that begins under load has requests in flight at its start, some of which the server has counted by then.
//! Only the whole run begins and ends without requests in flight.

use std::collections::BTreeMap;

use super::Sum;
use crate::engine::Finished;
use crate::metrics::{Measured, MetricKind, Registry, Sink, Tally};

/// Good requests, which have no metric.
const GOOD: &str = "good_reqs";

pub(super) fn sums(finished: &Finished, registry: &Registry) -> BTreeMap<String, Sum> {
    let lifecycle = &finished.lifecycle;
    let parts = [&lifecycle.setup, &finished.measured, &lifecycle.teardown];
    let mut sums = BTreeMap::new();
    for (id, metric) in registry.iter() {
        let mut all = Tally::default();
        for part in parts {
            add(&mut all, part, id.0 as usize);
        }
        let sum = match metric.kind {
            MetricKind::Counter => Sum::Counter { count: all.sum },
            MetricKind::Rate => Sum::Rate { passes: all.trues, fails: all.count - all.trues },
            MetricKind::Trend => Sum::Trend { count: all.count },
            MetricKind::Gauge => continue,
        };
        if all.count > 0 {
            sums.insert(metric.name.clone(), sum);
        }
    }
    let good = |part: &&Measured| part.requests(|_| true).good + part.warm_up.good;
    let good: u64 = parts.iter().map(good).sum();
    sums.insert(GOOD.to_owned(), Sum::Counter { count: good as f64 });
    sums
}

fn add(all: &mut Tally, part: &Measured, metric: usize) {
    let early = part.warm_up.tally(metric);
    all.count += early.count;
    all.trues += early.trues;
    all.sum += early.sum;
    match part.sinks.get(metric) {
        Some(Sink::Counter { sum, touched }) => {
            all.count += u64::from(*touched);
            all.sum += sum;
        }
        Some(Sink::Rate { trues, total }) => {
            all.count += total;
            all.trues += trues;
        }
        Some(Sink::Trend(histogram)) => all.count += histogram.count(),
        Some(Sink::Gauge { .. }) | None => {}
    }
}
