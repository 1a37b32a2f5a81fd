//! What the numbers say about the prediction.

use std::fmt;

use serde::Serialize;

use crate::{experiment::Bound, stats::Estimate};

/// The answer to a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval satisfies it.
    Supported,
    /// The whole interval violates it.
    Refuted,
    /// Neither can be said, and why.
    Undecided(Undecided),
}

/// Why a prediction could be neither supported nor refuted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecided {
    /// The interval has the predicted bound inside: more blocks would help.
    TooWide,
    /// Fewer than two complete blocks give no interval.
    TooFewBlocks,
    /// The metric has no ratio; the table says why.
    NoRatio,
    /// The prediction is about response times, and too many requests were not good: a variant that
    /// refuses fast does not win.
    BadRequests,
    /// Too many rounds were disturbed by others on this machine.
    MachineTooNoisy,
    /// The run ended before its blocks were complete.
    Unfinished,
}

impl Verdict {
    /// Compares an interval with a bound. Touching the bound satisfies it: "at most 0.5" includes
    /// 0.5.
    #[must_use]
    pub fn of(bound: Bound, estimate: Option<&Estimate>) -> Self {
        let Some(estimate) = estimate else { return Self::Undecided(Undecided::NoRatio) };
        let Some((low, high)) = estimate.interval else {
            return Self::Undecided(Undecided::TooFewBlocks);
        };
        let (satisfied, violated) = match bound {
            Bound::RatioAtMost(ratio) => (high <= ratio, low > ratio),
            Bound::RatioAtLeast(ratio) => (low >= ratio, high < ratio),
        };
        match (satisfied, violated) {
            (true, _) => Self::Supported,
            (_, true) => Self::Refuted,
            _ => Self::Undecided(Undecided::TooWide),
        }
    }

    /// The word in `report.json`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Refuted => "refuted",
            Self::Undecided(_) => "undecided",
        }
    }

    /// Why it is undecided, if it is.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        let Self::Undecided(why) = self else { return None };
        Some(match why {
            Undecided::TooWide => {
                "the interval lies on both sides of the predicted ratio; more blocks would \
                 narrow it"
            }
            Undecided::TooFewBlocks => "fewer than two complete blocks give no interval",
            Undecided::NoRatio => "the metric has no ratio in these rounds",
            Undecided::BadRequests => {
                "in at least one round fewer than 99 % of the requests were good, so response \
                 times tell about refusals, too"
            }
            Undecided::MachineTooNoisy => "machine too noisy",
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

    fn interval(low: f64, high: f64) -> Estimate {
        Estimate { ratio: (low * high).sqrt(), interval: Some((low, high)), blocks: 10 }
    }

    #[test]
    fn at_most_is_supported_only_when_the_whole_interval_is_below() {
        let verdict = |low, high| Verdict::of(Bound::RatioAtMost(0.5), Some(&interval(low, high)));
        assert_eq!(verdict(0.3, 0.4), Verdict::Supported);
        assert_eq!(verdict(0.4, 0.5), Verdict::Supported);
        assert_eq!(verdict(0.4, 0.6), Verdict::Undecided(Undecided::TooWide));
        assert_eq!(verdict(0.5, 0.6), Verdict::Undecided(Undecided::TooWide));
        assert_eq!(verdict(0.6, 0.7), Verdict::Refuted);
    }

    #[test]
    fn at_least_is_supported_only_when_the_whole_interval_is_above() {
        let verdict = |low, high| Verdict::of(Bound::RatioAtLeast(2.0), Some(&interval(low, high)));
        assert_eq!(verdict(2.0, 3.0), Verdict::Supported);
        assert_eq!(verdict(1.9, 3.0), Verdict::Undecided(Undecided::TooWide));
        assert_eq!(verdict(1.5, 2.0), Verdict::Undecided(Undecided::TooWide));
        assert_eq!(verdict(1.5, 1.9), Verdict::Refuted);
    }

    #[test]
    fn without_an_interval_nothing_is_decided() {
        let single = Estimate { ratio: 0.1, interval: None, blocks: 1 };
        let bound = Bound::RatioAtMost(0.5);
        assert_eq!(Verdict::of(bound, Some(&single)), Verdict::Undecided(Undecided::TooFewBlocks));
        assert_eq!(Verdict::of(bound, None), Verdict::Undecided(Undecided::NoRatio));
    }

    #[test]
    fn a_noisy_machine_reads_as_the_plan_says() {
        let verdict = Verdict::Undecided(Undecided::MachineTooNoisy);
        assert_eq!(verdict.to_string(), "undecided: machine too noisy");
        assert_eq!(verdict.word(), "undecided");
    }
}
