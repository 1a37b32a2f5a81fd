//! Predictions, written down before the first round.

use std::fmt;

use serde::Serialize;

use crate::judge::metric::Metric;

/// A claim about a metric of a variant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    pub metric: Metric,
    /// The reference only if the claim is about a value, not a ratio.
    pub variant: String,
    #[serde(flatten)]
    pub bound: Bound,
}

/// A claim about a ratio to the reference, or about a variant's own value. Bounds are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    RatioAtMost(f64),
    RatioAtLeast(f64),
    /// Largest difference as a share: with 0.05, the ratio lies between 1/1.05 and 1.05.
    DifferenceBelow(f64),
    /// In the metric's unit.
    AtMost(f64),
    /// In the metric's unit.
    AtLeast(f64),
}

impl Bound {
    /// Distances from a value to the bounds below and above that would decide about it; infinite without a bound. On
    /// the scale of logarithms for ratios.
    pub fn distances(self, value: f64) -> (f64, f64) {
        let one = |distance: f64| (distance.abs(), f64::INFINITY);
        match self {
            Self::RatioAtMost(limit) | Self::RatioAtLeast(limit) => one(value.ln() - limit.ln()),
            Self::DifferenceBelow(share) => {
                let (place, edge) = (value.ln().abs(), share.ln_1p());
                // Outside of the band, only the nearer edge decides.
                if place < edge { (edge - place, edge + place) } else { one(place - edge) }
            }
            Self::AtMost(limit) | Self::AtLeast(limit) => one(value - limit),
        }
    }

    pub fn is_ratio(self) -> bool {
        !matches!(self, Self::AtMost(_) | Self::AtLeast(_))
    }
}

impl Prediction {
    /// The claim in words, to follow "is".
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_decide_is_the_way_to_the_bound() {
        let e = 1.0_f64.exp();
        let close = |found: (f64, f64), expected: (f64, f64)| {
            assert!((found.0 - expected.0).abs() < 1e-9, "{found:?}");
            assert!(found.1 == expected.1 || (found.1 - expected.1).abs() < 1e-9, "{found:?}");
        };
        close(Bound::RatioAtMost(e).distances(1.0), (1.0, f64::INFINITY));
        close(Bound::RatioAtLeast(1.0).distances(e), (1.0, f64::INFINITY));
        close(Bound::AtMost(20.0).distances(15.0), (5.0, f64::INFINITY));
        // A band of ± 1 on logarithms: inside of it, both edges; outside, the nearer one.
        let band = Bound::DifferenceBelow(e - 1.0);
        close(band.distances((0.25_f64).exp()), (0.75, 1.25));
        close(band.distances((-1.5_f64).exp()), (0.5, f64::INFINITY));
    }
}
