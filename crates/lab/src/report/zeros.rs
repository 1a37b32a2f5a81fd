//! Ratios that are zero in some blocks, as of a server without a good response. They have no logarithm, hence no
//! estimate and no interval of Student's t, but they still decide predictions.

use super::summary::{self, Sides};
use super::{Language, all};
use crate::journal::record::{Measured, RoundRecord};
use crate::judge::metric::Metric;
use crate::judge::stats;
use crate::plan::Plan;

/// Ratios of blocks, of which at least one is zero or infinite.
pub(crate) struct Zeros(Vec<f64>);

impl Zeros {
    /// `None` if zero is no value of the metric, if nothing was zero, or if both sides of a block were.
    pub(crate) fn find(
        plan: &Plan,
        rounds: &[RoundRecord],
        metric: &Metric,
        variant: &str,
    ) -> Option<Self> {
        if !metric.may_be_zero() {
            return None;
        }
        let ratio = |(paired, own): (&Measured, &Measured)| {
            let (paired, own) = (metric.level(paired).ok()?, metric.level(own).ok()?);
            let is_one = paired >= 0.0 && own >= 0.0 && paired + own > 0.0;
            is_one.then(|| own / paired)
        };
        let sides = Sides::select(plan, rounds, metric, variant);
        let ratios: Vec<f64> = sides.both().map(ratio).collect::<Option<_>>()?;
        let is_extreme = |ratio: &f64| *ratio == 0.0 || ratio.is_infinite();
        ratios.iter().any(is_extreme).then_some(Self(ratios))
    }

    /// Without an assumption about the distribution.
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        stats::median_interval(&self.0)
    }

    /// Description with the reason for the missing ratio. `None` if none is zero.
    pub(crate) fn words(&self, why: &str, lang: Language) -> Option<String> {
        let mut others: Vec<f64> = self.0.iter().copied().filter(|ratio| *ratio > 0.0).collect();
        others.sort_by(f64::total_cmp);
        let zero = self.0.len() - others.len();
        let ends = others.first().zip(others.last());
        let ends = ends.map(|(low, high)| (summary::ratio(*low), summary::ratio(*high)));
        (zero > 0).then(|| lang.zeros(zero, self.0.len(), ends, why))
    }
}

/// True if a counted round of a variant had no good request.
pub(crate) fn nothing_good(rounds: &[RoundRecord], variant: &str) -> bool {
    all(rounds, variant).any(|(_, round)| round.load.requests.good == 0)
}

/// True if every counted round had requests, and none was good: noise cannot cause that.
pub(crate) fn never_good(rounds: &[RoundRecord], variant: &str) -> bool {
    let mut own = all(rounds, variant).peekable();
    own.peek().is_some() && own.all(|(_, round)| round.load.good_share() == Some(0.0))
}
