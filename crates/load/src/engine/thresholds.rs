//! Thresholds: judged when the run is over, and those that may end it also meanwhile.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::metrics::{Measured, MetricId, Sink};
use crate::options::MetricThresholds;

/// Thresholds and the metric they are about.
#[derive(Debug, Clone)]
pub(crate) struct Guarded {
    pub(crate) metric: MetricId,
    pub(crate) rules: MetricThresholds,
}

/// Which thresholds hold, metric by metric.
pub(crate) type Judgement = Vec<Vec<bool>>;

impl Guarded {
    /// Which of the thresholds hold for the values in `sink`. One that has nothing to look at holds,
    /// as in k6.
    fn judge(&self, sink: &Sink, seconds: f64) -> Vec<bool> {
        let holds = |threshold: &crate::options::Threshold| {
            sink.aggregate(threshold.aggregation, seconds)
                .is_none_or(|value| threshold.holds(value))
        };
        self.rules.thresholds.iter().map(holds).collect()
    }
}

/// Judges everything that was measured in `duration`.
pub(crate) fn judge(guarded: &[Guarded], measured: &Measured, duration: Duration) -> Judgement {
    let seconds = duration.as_secs_f64().max(1e-9);
    guarded
        .iter()
        .map(|one| match measured.sinks.get(one.metric.0 as usize) {
            Some(sink) => one.judge(sink, seconds),
            None => vec![true; one.rules.thresholds.len()],
        })
        .collect()
}

/// Where event loops show the figures that may end the run.
#[derive(Debug)]
pub(super) struct Board {
    guarded: Vec<Guarded>,
    metrics: Vec<MetricId>,
    shown: Mutex<Vec<Vec<Sink>>>,
}

impl Board {
    /// A board for the thresholds with `abortOnFail`; `None` when there are none.
    pub(super) fn new(guarded: &[Guarded], loops: usize) -> Option<Arc<Self>> {
        let aborts = |one: &&Guarded| one.rules.thresholds.iter().any(|rule| rule.abort_on_fail);
        let guarded: Vec<Guarded> = guarded.iter().filter(aborts).cloned().collect();
        let metrics = guarded.iter().map(|one| one.metric).collect();
        let shown = Mutex::new(vec![Vec::new(); loops + 1]);
        (!guarded.is_empty()).then(|| Arc::new(Self { guarded, metrics, shown }))
    }

    pub(super) fn metrics(&self) -> &[MetricId] {
        &self.metrics
    }

    /// The place after the event loops: what was measured before they began.
    pub(super) fn show_before(&self, measured: &Measured) {
        let sinks = &measured.sinks;
        let shown =
            self.metrics.iter().filter_map(|id| sinks.get(id.0 as usize)).cloned().collect();
        let last = self.shown.lock().unwrap_or_else(PoisonError::into_inner).len() - 1;
        self.show(last, shown);
    }

    pub(super) fn show(&self, place: usize, sinks: Vec<Sink>) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)[place] = sinks;
    }

    /// The metrics whose thresholds fail `elapsed` after the start, when one of these is to end the
    /// run.
    pub(super) fn breached(&self, elapsed: Duration) -> Option<Vec<String>> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (mut names, mut ends) = (Vec::new(), false);
        for (at, one) in self.guarded.iter().enumerate() {
            let merged =
                shown.iter().filter_map(|sinks| sinks.get(at)).cloned().reduce(|mut sum, sink| {
                    sum.merge(&sink);
                    sum
                });
            // Nothing is judged before it has values.
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
        assert!(Board::new(&[guarded("count<1", false, 0)], 1).is_none());
        assert!(Board::new(&[guarded("count<1", true, 0)], 1).is_some());
    }

    #[test]
    fn the_figures_of_all_loops_are_judged_together_and_not_before_the_delay() {
        let board = Board::new(&[guarded("count<5", true, 10)], 2).unwrap();
        let after = |seconds| board.breached(Duration::from_secs(seconds));
        assert_eq!(after(20), None, "nothing was shown");
        board.show(0, counter(2.0));
        assert_eq!(after(20), None);
        board.show(1, counter(3.0));
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
