//! Table of the conditions that make figures doubtful, and their effects.
//!
//! Conditions are checked in every counted round, and none depends on which variant did better, so repeats and open
//! verdicts do not favour a result. An earlier rule repeated rounds that the generator limited, that is, the fast ones:
//! in simulations, the 95 % intervals of the remaining rounds contained the truth in 16 to 80 % of runs.

use crate::file::experiment::Bound;
use crate::journal::record::{Measured, Warning};
use crate::judge::metric::Metric;
use crate::judge::stats::Interference;
use crate::judge::verdict::{Undecided, Verdict};
use crate::plan::Plan;
use crate::report::Sides;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    Repeat,
    /// The figures are not judged.
    NoVerdict(Undecided),
    /// The measured value is a bound of the true one; other conclusions stay undecided.
    Bound(Side, Undecided),
}

/// Position of the true value relative to the measured one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    AtLeast,
    AtMost,
}

/// Figures affected by a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figures {
    All,
    Times,
    Rates,
    Paired,
}

#[derive(Debug, Clone, Copy)]
enum Seen {
    Warning(Warning),
    Figures(fn(&Metric, &Measured) -> bool),
}

struct Rule {
    seen: Seen,
    figures: Figures,
    effect: Effect,
}

/// Fewest values above a percentile: among 10, chance moves it by a third of what lies beyond.
const FEWEST_ABOVE: f64 = 10.0;

const fn warned(warning: Warning, figures: Figures, effect: Effect) -> Rule {
    Rule { seen: Seen::Warning(warning), figures, effect }
}

/// All rules. [`Warning`] defines the thresholds; warnings without a rule are notes. `report/broken.rs` reports broken
/// systems. `rules/simulation.rs` simulates what each rule prevents; `experiments/REFERENCE.md` has the figures.
const RULES: [Rule; 11] = [
    // Other load changes every figure of a round that runs alone. In a pair both sides share it.
    warned(Warning::Steal, Figures::All, Effect::Repeat),
    warned(Warning::ForeignCpu, Figures::All, Effect::Repeat),
    warned(Warning::NoBudget, Figures::All, Effect::Repeat),
    warned(Warning::Apart, Figures::Paired, Effect::Repeat),
    // Applies when the repeat did not help.
    warned(Warning::Apart, Figures::Paired, Effect::NoVerdict(Undecided::Apart)),
    warned(Warning::Exceptions, Figures::All, Effect::NoVerdict(Undecided::Exceptions)),
    // Refusals are fast.
    Rule {
        seen: Seen::Figures(Metric::has_bad_requests),
        figures: Figures::Times,
        effect: Effect::NoVerdict(Undecided::BadRequests),
    },
    Rule {
        seen: Seen::Figures(has_short_tail),
        figures: Figures::Times,
        effect: Effect::NoVerdict(Undecided::TooFewRequests),
    },
    // A faster generator would have received more answers, and none of them later.
    warned(
        Warning::GeneratorLimited,
        Figures::Rates,
        Effect::Bound(Side::AtLeast, Undecided::GeneratorLimited),
    ),
    warned(
        Warning::GeneratorLimited,
        Figures::Times,
        Effect::Bound(Side::AtMost, Undecided::GeneratorLimited),
    ),
    // Dropped iterations would have waited longest.
    warned(Warning::Dropped, Figures::Times, Effect::Bound(Side::AtLeast, Undecided::Dropped)),
];

impl Figures {
    fn have(self, metric: &Metric, is_paired: bool) -> bool {
        match self {
            Self::All => true,
            Self::Times => metric.is_response_time(),
            Self::Rates => metric.counts_good(),
            Self::Paired => is_paired,
        }
    }
}

impl Seen {
    fn is_in(self, metric: &Metric, round: &Measured) -> bool {
        match self {
            Self::Warning(warning) => round.warnings.contains(&warning),
            Self::Figures(is_so) => is_so(metric, round),
        }
    }
}

/// True if a percentile has too few values above it.
fn has_short_tail(metric: &Metric, round: &Measured) -> bool {
    metric.tail(round).is_some_and(|values| values < FEWEST_ABOVE)
}

/// True if a round with this warning is refused, unless the experiment accepts it.
pub(crate) fn repeats(warning: Warning) -> bool {
    let is_so = |rule: &Rule| {
        matches!(rule.seen, Seen::Warning(own) if own == warning) && rule.effect == Effect::Repeat
    };
    RULES.iter().any(is_so)
}

/// Restrictions of the conclusions about a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Restrictions {
    /// Reason to leave the figure unjudged.
    pub nothing: Option<Undecided>,
    /// The measured value is only a bound.
    bound: Option<(Side, Undecided)>,
}

impl Restrictions {
    /// Restrictions for a variant's own figure, or for its ratio to the reference.
    pub(crate) fn from_sides(
        plan: &Plan,
        sides: &Sides<'_>,
        metric: &Metric,
        is_ratio: bool,
    ) -> Self {
        let is_paired = plan.is_paired(metric);
        let rules = RULES.iter().filter(|rule| rule.figures.have(metric, is_paired));
        Self::from_rules(rules.map(|rule| {
            let own = sides.own().any(|round| rule.seen.is_in(metric, round));
            let other = is_ratio && sides.reference().any(|round| rule.seen.is_in(metric, round));
            (rule, own, other)
        }))
    }

    /// Restrictions by rules, each with whether its condition was seen in rounds of the variant, and of the reference.
    fn from_rules<'r>(rules: impl Iterator<Item = (&'r Rule, bool, bool)>) -> Self {
        let mut restrictions = Self::default();
        for (rule, own, other) in rules {
            match rule.effect {
                Effect::Repeat => {}
                Effect::NoVerdict(why) if own || other => {
                    restrictions.nothing = restrictions.nothing.or(Some(why));
                }
                Effect::NoVerdict(_) => {}
                // A ratio is larger than measured when its denominator is smaller.
                Effect::Bound(side, why) => {
                    if own {
                        restrictions.narrow(side, why);
                    }
                    if other {
                        restrictions.narrow(side.opposite(), why);
                    }
                }
            }
        }
        restrictions
    }

    /// Adds a bound. Bounds in both directions leave the figure unjudged.
    fn narrow(&mut self, side: Side, why: Undecided) {
        match self.bound {
            None => self.bound = Some((side, why)),
            Some((same, _)) if same == side => {}
            Some(_) => self.nothing = self.nothing.or(Some(why)),
        }
    }

    pub(crate) fn is_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// Reason to withhold the answer, if the bound does not imply it.
    pub(crate) fn hides(&self, interval: Option<(f64, f64)>) -> Option<Undecided> {
        let (side, why) = self.bound?;
        let (low, high) = interval?;
        let is_certain = match side {
            Side::AtLeast => low > 1.0,
            Side::AtMost => high < 1.0,
        };
        (!is_certain).then_some(why)
    }

    /// Restricts a verdict that was derived from the measured interval.
    pub(crate) fn apply(
        &self,
        verdict: Verdict,
        bound: Bound,
        interval: Option<(f64, f64)>,
    ) -> Verdict {
        if let Some(why) = self.nothing {
            return Verdict::Undecided(why);
        }
        let (Some((side, why)), Some((low, high))) = (self.bound, interval) else { return verdict };
        let is_certain = match (verdict, bound) {
            (Verdict::Undecided(_), _) => true,
            (Verdict::Supported, Bound::RatioAtLeast(_) | Bound::AtLeast(_))
            | (Verdict::Refuted, Bound::RatioAtMost(_) | Bound::AtMost(_)) => side == Side::AtLeast,
            (Verdict::Supported, Bound::RatioAtMost(_) | Bound::AtMost(_))
            | (Verdict::Refuted, Bound::RatioAtLeast(_) | Bound::AtLeast(_)) => {
                side == Side::AtMost
            }
            (Verdict::Supported, Bound::DifferenceBelow(_)) => false,
            (Verdict::Refuted, Bound::DifferenceBelow(_)) => match side {
                Side::AtLeast => low > 1.0,
                Side::AtMost => high < 1.0,
            },
        };
        if is_certain { verdict } else { Verdict::Undecided(why) }
    }
}

impl Side {
    fn opposite(self) -> Self {
        match self {
            Self::AtLeast => Self::AtMost,
            Self::AtMost => Self::AtLeast,
        }
    }
}

/// True if a figure can be judged although the run as a whole cannot: both sides of a pair share the noise.
pub(crate) fn is_shared(plan: &Plan, metric: &Metric, why: Undecided) -> bool {
    why == Undecided::MachineTooNoisy && plan.is_paired(metric)
}

/// True if a claim is nearer to the measured ratio (in logarithms) than the interference within pairs.
pub(crate) fn interferes(interference: Option<Interference>, distance: f64) -> bool {
    interference.is_some_and(|one| one.is_certain && distance.abs() < one.difference.abs())
}

#[cfg(test)]
mod simulation;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_allows_what_it_implies_and_nothing_else() {
        let why = Undecided::Dropped;
        let restrictions = Restrictions { nothing: None, bound: Some((Side::AtLeast, why)) };
        let (above, below) = (Some((1.2, 1.4)), Some((0.6, 0.8)));
        let apply =
            |bound, interval| restrictions.apply(Verdict::judge(bound, interval), bound, interval);
        assert_eq!(apply(Bound::RatioAtLeast(1.1), above), Verdict::Supported);
        assert_eq!(apply(Bound::RatioAtMost(1.1), above), Verdict::Refuted);
        assert_eq!(apply(Bound::RatioAtMost(0.9), below), Verdict::Undecided(why));
        assert_eq!(apply(Bound::RatioAtLeast(0.9), below), Verdict::Undecided(why));
        assert_eq!(apply(Bound::DifferenceBelow(0.05), above), Verdict::Refuted);
        assert_eq!(apply(Bound::DifferenceBelow(0.05), below), Verdict::Undecided(why));
        assert_eq!(apply(Bound::DifferenceBelow(0.9), above), Verdict::Undecided(why));
        assert_eq!((restrictions.hides(above), restrictions.hides(below)), (None, Some(why)));
    }

    #[test]
    fn bounds_in_both_directions_leave_nothing() {
        let mut restrictions = Restrictions::default();
        restrictions.narrow(Side::AtLeast, Undecided::Dropped);
        restrictions.narrow(Side::AtLeast, Undecided::GeneratorLimited);
        assert_eq!(restrictions.nothing, None);
        restrictions.narrow(Side::AtMost, Undecided::GeneratorLimited);
        assert_eq!(restrictions.nothing, Some(Undecided::GeneratorLimited));
    }

    #[test]
    fn only_what_others_did_is_repeated() {
        let all = [Warning::Steal, Warning::ForeignCpu, Warning::NoBudget, Warning::Apart];
        assert!(all.into_iter().all(repeats));
        assert!(!repeats(Warning::GeneratorLimited) && !repeats(Warning::Dropped));
    }
}
