//! Sums over the whole load, for invariants.
//!
//! A server's data include the requests of `setup()`, the warm-up and `teardown()`. Reading them at the start of the
//! window would not be exact, because requests are in flight then.

use super::{LoadMetric, Statistic};
use crate::judge::metric::Absent;
use crate::load::report::{LoadReport, Sum};

impl LoadMetric {
    /// Value for an invariant: sums over the whole run, if the generator reports them; otherwise as [`Self::value_in`].
    pub(crate) fn overall_value_in(&self, load: &LoadReport) -> Result<f64, Absent> {
        let sum = load.overall.iter().find(|(key, _)| self.is_at(key)).map(|(_, sum)| *sum);
        let sum = sum.and_then(|sum| match (sum, self.statistic) {
            (Sum::Counter { count }, None | Some(Statistic::Count)) => Some(count),
            (Sum::Rate { passes, .. }, Some(Statistic::Passes)) => Some(passes as f64),
            (Sum::Rate { fails, .. }, Some(Statistic::Fails)) => Some(fails as f64),
            (Sum::Trend { count }, Some(Statistic::Count)) => Some(count as f64),
            _ => None,
        });
        sum.map_or_else(|| self.value_in(load), Ok)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sums_are_of_the_whole_run_and_all_else_of_the_window() {
        let load: LoadReport = serde_json::from_value(json!({
            "version": 1, "started_at_seconds": 0.0, "ended_at_seconds": 2.0,
            "duration_seconds": 2.0, "requests": {"total": 10, "good": 6, "failed": 3},
            "iterations": {"complete": 5, "dropped": 7},
            "metrics": {"made": {"type": "counter", "count": 8.0}},
            "overall": {
                "made": {"type": "counter", "count": 12.0},
                "http_reqs{scenario:a}": {"type": "counter", "count": 3.0},
                "http_req_failed": {"type": "rate", "passes": 4, "fails": 9},
                "http_req_duration": {"type": "trend", "count": 13},
                "early": {"type": "counter", "count": 2.0},
            },
        }))
        .unwrap();
        for (text, expected) in [
            ("made", 12.0),
            ("made.rate", 4.0),
            ("http_reqs{scenario:a}", 3.0),
            ("http_req_failed.passes", 4.0),
            ("http_req_failed.rate", 0.3),
            ("http_req_duration.count", 13.0),
            ("early.count", 2.0),
            ("never", 0.0),
            // Not reported: as in the window.
            ("iterations", 5.0),
        ] {
            let metric = LoadMetric::parse(text).unwrap();
            assert_eq!(metric.overall_value_in(&load), Ok(expected), "{text}");
        }
    }
}
