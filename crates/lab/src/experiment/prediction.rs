//! What an experiment's author expects, written down before the first round.

use std::fmt;

use serde::Serialize;

use crate::metric::Metric;

/// A claim about one metric of one variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The metric it is about.
    pub metric: Metric,
    /// The variant it is about. The reference only when the claim is about a value, not a ratio.
    pub variant: String,
    /// The claim.
    #[serde(flatten)]
    pub bound: Bound,
}

/// On which side of a number a ratio or a value is claimed to lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Less than this times the reference, or exactly so much.
    RatioAtMost(f64),
    /// More than this times the reference, or exactly so much.
    RatioAtLeast(f64),
    /// The ratio differs from 1 by no more than this share in either direction: with 0.05, it
    /// lies between 1/1.05 and 1.05.
    DifferenceBelow(f64),
    /// The variant's own value is this or less, in the metric's unit.
    AtMost(f64),
    /// The variant's own value is this or more, in the metric's unit.
    AtLeast(f64),
}

impl Bound {
    /// Whether it compares with the reference.
    #[must_use]
    pub fn is_ratio(self) -> bool {
        !matches!(self, Self::AtMost(_) | Self::AtLeast(_))
    }
}

impl Prediction {
    /// The claim in words, to follow "is predicted to be".
    #[must_use]
    pub fn claim(&self, reference: &str) -> String {
        match self.bound {
            Bound::RatioAtMost(ratio) => format!("at most ×{ratio} that of `{reference}`"),
            Bound::RatioAtLeast(ratio) => format!("at least ×{ratio} that of `{reference}`"),
            Bound::DifferenceBelow(share) => {
                format!("within {} % of that of `{reference}`", share * 100.0)
            }
            Bound::AtMost(value) => format!("at most {}", self.metric.show(value)),
            Bound::AtLeast(value) => format!("at least {}", self.metric.show(value)),
        }
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let claim = self.claim("the reference").replace('`', "");
        write!(f, "{} of {} is {claim}", self.metric.label(), self.variant)
    }
}
