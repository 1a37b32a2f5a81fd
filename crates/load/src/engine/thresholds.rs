//! Evaluation of thresholds: after the run, and during it for those that may end it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::metrics::{Measured, MetricId, Sink};
use crate::options::MetricThresholds;

#[derive(Debug, Clone)]
pub(crate) struct Guarded {
    pub(crate) metric: MetricId,
    pub(crate) rules: MetricThresholds,
}

impl Guarded {
    /// Evaluates each threshold for the values in `sink`. As in k6 one without values holds.
    fn judge(&self, sink: &Sink, seconds: f64) -> Vec<bool> {
        let holds = |threshold: &crate::options::Threshold| {
            sink.aggregate(threshold.aggregation, seconds)
                .is_none_or(|value| threshold.holds(value))
        };
        self.rules.thresholds.iter().map(holds).collect()
    }
}

/// Evaluates thresholds by metric: true if one holds.
pub(crate) fn judge(
    guarded: &[Guarded],
    measured: &Measured,
    duration: Duration,
) -> Vec<Vec<bool>> {
    let seconds = duration.as_secs_f64().max(1e-9);
    guarded
        .iter()
        .map(|one| match measured.sinks.get(one.metric.0 as usize) {
            Some(sink) => one.judge(sink, seconds),
            None => vec![true; one.rules.thresholds.len()],
        })
        .collect()
}

/// Current values of the thresholds that may end the run.
#[derive(Debug)]
pub(super) struct LiveFigures {
    guarded: Vec<Guarded>,
    pub(super) metrics: Vec<MetricId>,
    /// By event loop; the last are those of `setup()`.
    shared: Mutex<Vec<Vec<Sink>>>,
}

impl LiveFigures {
    /// `None` without a threshold with `abortOnFail`.
    pub(super) fn new(guarded: &[Guarded], loops: usize) -> Option<Arc<Self>> {
        let aborts = |one: &&Guarded| one.rules.thresholds.iter().any(|rule| rule.abort_on_fail);
        let guarded: Vec<Guarded> = guarded.iter().filter(aborts).cloned().collect();
        let metrics = guarded.iter().map(|one| one.metric).collect();
        let shared = Mutex::new(vec![Vec::new(); loops + 1]);
        (!guarded.is_empty()).then(|| Arc::new(Self { guarded, metrics, shared }))
    }

    pub(super) fn share_setup(&self, measured: &Measured) {
        let sinks = self.metrics.iter().filter_map(|id| measured.sinks.get(id.0 as usize));
        let last = self.shared.lock().len() - 1;
        self.share(last, sinks.cloned().collect());
    }

    pub(super) fn share(&self, index: usize, sinks: Vec<Sink>) {
        self.shared.lock()[index] = sinks;
    }

    /// The metrics with failed thresholds `elapsed` after the start; `None` unless one of these ends the run.
    pub(super) fn breached(&self, elapsed: Duration) -> Option<Vec<String>> {
        let shared = self.shared.lock().clone();
        let (mut names, mut ends) = (Vec::new(), false);
        for (at, one) in self.guarded.iter().enumerate() {
            let merged =
                shared.iter().filter_map(|sinks| sinks.get(at)).cloned().reduce(|mut sum, sink| {
                    sum.merge(&sink);
                    sum
                });
            // A metric without values is not evaluated.
            let Some(sink) = merged.filter(|sink| !sink.is_empty()) else { continue };
            let held = one.judge(&sink, elapsed.as_secs_f64().max(1e-9));
            let failed = one.rules.thresholds.iter().zip(held).filter(|(_, held)| !held);
            let failed: Vec<_> = failed.map(|(rule, _)| rule).collect();
            if !failed.is_empty() {
                names.push(one.rules.metric.clone());
            }
            ends |=
                failed.iter().any(|rule| rule.abort_on_fail && rule.delay_abort_eval <= elapsed);
        }
        ends.then_some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Builtin, MetricKind};
    use crate::options::Threshold;

    fn guarded(source: &str, abort_on_fail: bool, delay: u64) -> Guarded {
        let mut rule = Threshold::parse(source).unwrap();
        rule.abort_on_fail = abort_on_fail;
        rule.delay_abort_eval = Duration::from_secs(delay);
        let rules = MetricThresholds { metric: "iterations".to_owned(), thresholds: vec![rule] };
        Guarded { metric: Builtin::Iterations.id(), rules }
    }

    fn counter(sum: f64) -> Vec<Sink> {
        let mut sink = Sink::new(MetricKind::Counter);
        sink.add(sum);
        vec![sink]
    }

    #[test]
    fn only_thresholds_that_may_end_the_run_are_watched() {
        assert!(LiveFigures::new(&[guarded("count<1", false, 0)], 1).is_none());
        assert!(LiveFigures::new(&[guarded("count<1", true, 0)], 1).is_some());
    }

    #[test]
    fn the_figures_of_all_loops_are_judged_together_and_not_before_the_delay() {
        let figures = LiveFigures::new(&[guarded("count<5", true, 10)], 2).unwrap();
        let after = |seconds| figures.breached(Duration::from_secs(seconds));
        assert_eq!(after(20), None, "nothing was shared");
        figures.share(0, counter(2.0));
        assert_eq!(after(20), None);
        figures.share(1, counter(3.0));
        assert_eq!(after(9), None);
        assert_eq!(after(10), Some(vec!["iterations".to_owned()]));
    }

    #[test]
    fn a_rate_per_second_is_over_the_time_given() {
        let measured = Measured {
            sinks: (0..=Builtin::Iterations as usize).flat_map(|_| counter(30.0)).collect(),
            ..Measured::default()
        };
        let rule = [guarded("rate>2.9", false, 0)];
        assert_eq!(judge(&rule, &measured, Duration::from_secs(10)), [[true]]);
        assert_eq!(judge(&rule, &measured, Duration::from_secs(11)), [[false]]);
    }
}
