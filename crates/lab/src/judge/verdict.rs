//! Verdicts of predictions.

use std::fmt;

use serde::Serialize;

use crate::file::experiment::Bound;
use crate::report::RunEnd;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval satisfies it.
    Supported,
    /// The whole interval violates it.
    Refuted,
    Undecided(Undecided),
}

/// Reason for an open verdict; [`Verdict::reason`] describes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// The interval contains the bound.
    TooWide,
    TooFewBlocks,
    NoRatio,
    NoValue,
    NothingGood,
    /// Fast refusals must not win.
    BadRequests,
    Exceptions,
    TooFewRequests,
    MachineTooNoisy,
    GeneratorLimited,
    Dropped,
    Apart,
    Interference,
    Unfinished,
}

impl Undecided {
    /// Reason why a run allows no verdict: it is incomplete, or too many rounds were disturbed (`noisy`).
    pub(crate) fn of_run(ended: RunEnd, noisy: bool) -> Option<Self> {
        match ended {
            RunEnd::Complete => noisy.then_some(Self::MachineTooNoisy),
            _ => Some(Self::Unfinished),
        }
    }
}

impl Verdict {
    /// Compares a 95 % interval of a ratio or a value with an inclusive bound.
    pub fn judge(bound: Bound, interval: Option<(f64, f64)>) -> Self {
        let Some((low, high)) = interval else {
            return Self::Undecided(Undecided::TooFewBlocks);
        };
        // Logarithms cost the last digits.
        let is_below = |value: f64, limit: f64| value <= limit + limit.abs() * 1e-12;
        let (satisfied, violated) = match bound {
            Bound::RatioAtMost(limit) | Bound::AtMost(limit) => {
                (is_below(high, limit), !is_below(low, limit))
            }
            Bound::RatioAtLeast(limit) | Bound::AtLeast(limit) => {
                (is_below(limit, low), !is_below(limit, high))
            }
            Bound::DifferenceBelow(share) => {
                let (least, most) = (1.0 / (1.0 + share), 1.0 + share);
                let inside = is_below(least, low) && is_below(high, most);
                (inside, !is_below(least, high) || !is_below(low, most))
            }
        };
        match (satisfied, violated) {
            (true, _) => Self::Supported,
            (_, true) => Self::Refuted,
            _ => Self::Undecided(Undecided::TooWide),
        }
    }

    /// The worst verdict: refuted if any is, supported only if all are.
    pub fn worst(verdicts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let rank = |verdict: &Self| match verdict {
            Self::Refuted => 2,
            Self::Undecided(_) => 1,
            Self::Supported => 0,
        };
        // The first of several undecided ones gives the reason.
        verdicts
            .into_iter()
            .reduce(|worst, next| if rank(&next) > rank(&worst) { next } else { worst })
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Refuted => "refuted",
            Self::Undecided(_) => "undecided",
        }
    }

    pub fn reason(self) -> Option<&'static str> {
        let Self::Undecided(why) = self else { return None };
        Some(match why {
            Undecided::TooWide => {
                "the interval lies on both sides of what was predicted; more blocks would \
                 narrow it"
            }
            Undecided::TooFewBlocks => {
                "fewer than two complete blocks give no interval (six, where all values are zero)"
            }
            Undecided::NoRatio => "the metric has no ratio in these rounds",
            Undecided::NoValue => "the metric has no value in some of these rounds",
            Undecided::NothingGood => {
                "in at least one round not a single request was good: something is broken"
            }
            Undecided::BadRequests => {
                "in at least one round fewer than 99 % of the requests were good, so response \
                 times tell about refusals, too"
            }
            Undecided::Exceptions => {
                "in at least one round the script threw in more than 1 % of its iterations although \
                 all their requests were good, so the load was not what it says"
            }
            Undecided::TooFewRequests => {
                "in at least one round fewer than 10 values lie above the percentile (a p99 needs 1,000), and \
                 the largest of all never repeats"
            }
            Undecided::MachineTooNoisy => "machine too noisy",
            Undecided::GeneratorLimited => {
                "the load generator, not the server, was the limit in some round, so the server may be faster \
                 than measured"
            }
            Undecided::Dropped => {
                "in some round more than 1 % of the iterations were dropped, so the slowest answers are missing"
            }
            Undecided::Apart => "the loads of a pair did not overlap",
            Undecided::Interference => {
                "rounds alone and pairs give different ratios, and the claim is smaller than the difference"
            }
            Undecided::Unfinished => "the run ended before its blocks were complete",
        })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        self.reason().map_or(Ok(()), |reason| write!(f, ": {reason}"))
    }
}

impl Serialize for Verdict {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOO_WIDE: Verdict = Verdict::Undecided(Undecided::TooWide);

    #[test]
    fn at_most_is_supported_only_when_the_whole_interval_is_below() {
        for bound in [Bound::RatioAtMost(0.5), Bound::AtMost(0.5)] {
            let verdict = |low, high| Verdict::judge(bound, Some((low, high)));
            assert_eq!(verdict(0.3, 0.4), Verdict::Supported);
            assert_eq!(verdict(0.4, 0.5), Verdict::Supported);
            assert_eq!(verdict(0.4, 0.6), TOO_WIDE);
            assert_eq!(verdict(0.5, 0.6), TOO_WIDE);
            assert_eq!(verdict(0.6, 0.7), Verdict::Refuted);
        }
    }

    #[test]
    fn at_least_is_supported_only_when_the_whole_interval_is_above() {
        for bound in [Bound::RatioAtLeast(2.0), Bound::AtLeast(2.0)] {
            let verdict = |low, high| Verdict::judge(bound, Some((low, high)));
            assert_eq!(verdict(2.0, 3.0), Verdict::Supported);
            assert_eq!(verdict(1.9, 3.0), TOO_WIDE);
            assert_eq!(verdict(1.5, 2.0), TOO_WIDE);
            assert_eq!(verdict(1.5, 1.9), Verdict::Refuted);
        }
    }

    #[test]
    fn no_difference_needs_the_whole_interval_inside_the_band() {
        let verdict = |low, high| Verdict::judge(Bound::DifferenceBelow(0.25), Some((low, high)));
        assert_eq!(verdict(0.8, 1.25), Verdict::Supported);
        assert_eq!(verdict(0.79, 1.0), TOO_WIDE);
        assert_eq!(verdict(0.9, 1.26), TOO_WIDE);
        assert_eq!(verdict(1.26, 1.3), Verdict::Refuted);
        assert_eq!(verdict(0.7, 0.79), Verdict::Refuted);
    }

    #[test]
    fn without_an_interval_nothing_is_decided() {
        let verdict = Verdict::judge(Bound::RatioAtMost(0.5), None);
        assert_eq!(verdict, Verdict::Undecided(Undecided::TooFewBlocks));
    }

    #[test]
    fn several_verdicts_are_as_good_as_the_worst() {
        use Verdict::{Refuted, Supported};
        assert_eq!(Verdict::worst([Supported, Supported]), Some(Supported));
        assert_eq!(Verdict::worst([Supported, TOO_WIDE]), Some(TOO_WIDE));
        assert_eq!(Verdict::worst([TOO_WIDE, Refuted, Supported]), Some(Refuted));
        let first = Verdict::Undecided(Undecided::NoRatio);
        assert_eq!(Verdict::worst([first, TOO_WIDE]), Some(first));
        assert_eq!(Verdict::worst([]), None);
    }

    #[test]
    fn a_noisy_machine_reads_as_the_plan_says() {
        let verdict = Verdict::Undecided(Undecided::MachineTooNoisy);
        assert_eq!(verdict.to_string(), "undecided: machine too noisy");
        assert_eq!(verdict.word(), "undecided");
    }
}
