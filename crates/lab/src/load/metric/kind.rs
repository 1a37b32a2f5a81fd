//! Kinds of metrics in k6.

use serde::Deserialize;

use super::Statistic;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Counter,
    Gauge,
    Rate,
    Trend,
}

/// Metrics of every load: those of k6's documentation that make sense per round.
pub(crate) const BUILT_IN: [(&str, Kind); 17] = [
    ("http_reqs", Kind::Counter),
    ("good_reqs", Kind::Counter),
    ("iterations", Kind::Counter),
    ("dropped_iterations", Kind::Counter),
    ("data_sent", Kind::Counter),
    ("data_received", Kind::Counter),
    ("checks", Kind::Rate),
    ("http_req_failed", Kind::Rate),
    ("http_req_duration", Kind::Trend),
    ("http_req_waiting", Kind::Trend),
    ("http_req_blocked", Kind::Trend),
    ("http_req_connecting", Kind::Trend),
    ("http_req_tls_handshaking", Kind::Trend),
    ("http_req_sending", Kind::Trend),
    ("http_req_receiving", Kind::Trend),
    ("iteration_duration", Kind::Trend),
    ("group_duration", Kind::Trend),
];

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "a counter",
            Self::Gauge => "a gauge",
            Self::Rate => "a rate",
            Self::Trend => "a trend",
        }
    }

    pub fn statistics(self) -> &'static str {
        match self {
            Self::Counter => "`.count` or `.rate` (per second)",
            Self::Gauge => "`.value`, `.min` or `.max`",
            Self::Rate => "`.rate`, `.passes` or `.fails`",
            Self::Trend => {
                "`.avg`, `.min`, `.max`, `.med`, `.p50`, `.p90`, `.p95`, `.p99`, `.stddev` or \
                 `.count`"
            }
        }
    }

    /// `None` is the count, value or share.
    pub(super) fn has(self, statistic: Option<Statistic>) -> bool {
        use Statistic::{
            Avg, Count, Deviation, Fails, Max, Median, Min, P50, P90, P95, P99, Passes, Rate, Value,
        };
        let Some(statistic) = statistic else { return self != Self::Trend };
        match self {
            Self::Counter => matches!(statistic, Count | Rate),
            Self::Gauge => matches!(statistic, Value | Min | Max),
            Self::Rate => matches!(statistic, Rate | Passes | Fails),
            Self::Trend => matches!(
                statistic,
                Count | Min | Max | Avg | Median | P50 | P90 | P95 | P99 | Deviation
            ),
        }
    }
}
