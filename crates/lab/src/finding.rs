//! What the rounds say about metrics that nobody predicted.

use serde::Serialize;

use crate::stats::{self, Estimate};

/// The chance that a run names any difference among its secondary metrics when there is none.
pub const LEVEL: f64 = 0.05;

/// The word for a metric without a prediction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The whole interval lies inside the band: no difference that matters.
    NoDifference,
    /// Larger than the reference's.
    Higher,
    /// Smaller than the reference's.
    Lower,
    /// Neither can be said.
    Undecided,
}

/// What a finding rests on.
#[derive(Debug, Clone, Copy)]
pub struct Evidence {
    /// The ratio; `None` when the metric has none.
    pub estimate: Option<Estimate>,
    /// It may not be judged: a response time with refusals in it, or a run without a verdict.
    pub is_doubtful: bool,
}

impl Evidence {
    /// That of a ratio nobody doubts.
    #[must_use]
    pub fn of(estimate: Estimate) -> Self {
        Self { estimate: Some(estimate), is_doubtful: false }
    }
}

impl Finding {
    /// Judges all secondary metrics of a run at once, each with its adjusted p-value; `None` where
    /// there is no interval.
    ///
    /// "No difference" is the interval's inclusion in the band (Westlake, "Use of confidence
    /// intervals in analysis of comparative bioavailability trials", 1972), with the 95 % interval
    /// that is printed: stricter than the two one-sided tests at 5 % (Schuirmann 1987), whose
    /// interval would be the 90 % one. It comes first: a difference that is certain and too
    /// small to matter is none. A difference is named when its p-value, adjusted by Holm over
    /// all these metrics, is at most 5 %.
    #[must_use]
    pub fn all(evidence: &[Evidence], band: f64) -> Vec<Option<(Self, f64)>> {
        let p_value = |one: &Evidence| one.estimate.and_then(|estimate| estimate.p_value);
        let p_values: Vec<f64> = evidence.iter().filter_map(p_value).collect();
        let mut adjusted = stats::holm(&p_values).into_iter();
        let judge = |one: &Evidence| {
            let estimate = one.estimate.filter(|estimate| estimate.p_value.is_some())?;
            let adjusted = adjusted.next()?;
            let finding = if one.is_doubtful {
                Self::Undecided
            } else if is_inside(&estimate, band) {
                Self::NoDifference
            } else if adjusted > LEVEL {
                Self::Undecided
            } else if estimate.ratio > 1.0 {
                Self::Higher
            } else {
                Self::Lower
            };
            Some((finding, adjusted))
        };
        evidence.iter().map(judge).collect()
    }

    /// In words, for tables.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::NoDifference => "no difference",
            Self::Higher => "higher",
            Self::Lower => "lower",
            Self::Undecided => "undecided",
        }
    }
}

fn is_inside(estimate: &Estimate, band: f64) -> bool {
    estimate.interval.is_some_and(|(low, high)| low >= 1.0 / (1.0 + band) && high <= 1.0 + band)
}

/// How many blocks would show a difference, or that there is none: the fewer of the two, at the
/// spread seen. The adjustment for several metrics is left out, so it is a lower bound.
#[must_use]
pub fn blocks_needed(estimate: &Estimate, band: f64) -> Option<u32> {
    let (mean, edge) = (estimate.ratio.ln().abs(), band.ln_1p());
    let spread = estimate.spread?;
    let different = stats::blocks_needed(spread, mean, f64::INFINITY);
    let equal =
        (mean < edge).then(|| stats::blocks_needed(spread, edge - mean, edge + mean)).flatten();
    different.into_iter().chain(equal).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(ratio, low, high, p)`.
    fn evidence(rows: &[(f64, f64, f64, f64)]) -> Vec<Evidence> {
        let one = |(ratio, low, high, p): &(f64, f64, f64, f64)| {
            Evidence::of(Estimate {
                ratio: *ratio,
                interval: Some((*low, *high)),
                blocks: 10,
                spread: Some(0.1),
                p_value: Some(*p),
            })
        };
        rows.iter().map(one).collect()
    }

    fn words(evidence: &[Evidence]) -> Vec<Option<&'static str>> {
        let word = |found: Option<(Finding, f64)>| found.map(|(finding, _)| finding.text());
        Finding::all(evidence, 0.05).into_iter().map(word).collect()
    }

    #[test]
    fn a_small_difference_is_none_and_a_likely_chance_is_nothing() {
        let found = words(&evidence(&[
            (1.02, 1.01, 1.03, 0.001),
            (1.2, 1.1, 1.3, 0.002),
            (0.5, 0.4, 0.6, 0.001),
            (1.1, 0.9, 1.3, 0.4),
        ]));
        let expected = ["no difference", "higher", "lower", "undecided"].map(Some);
        assert_eq!(found, expected);
    }

    /// 0.02 alone is a difference; as the second smallest of four it is 0.02 · 3 = 0.06.
    #[test]
    fn one_of_many_needs_more_evidence_than_one_alone() {
        let (alone, beside) = ((1.2, 1.1, 1.3, 0.02), (1.0, 0.8, 1.2, 0.9));
        assert_eq!(words(&evidence(&[alone])), [Some("higher")]);
        let many = words(&evidence(&[(1.2, 1.1, 1.3, 0.001), alone, beside, beside]));
        assert_eq!(many[..2], [Some("higher"), Some("undecided")]);
    }

    #[test]
    fn without_an_interval_there_is_no_word_and_doubt_decides_nothing() {
        let mut rows = evidence(&[(0.5, 0.4, 0.6, 1e-6), (0.5, 0.4, 0.6, 1e-6)]);
        rows[0].is_doubtful = true;
        rows.push(Evidence { estimate: None, is_doubtful: false });
        assert_eq!(words(&rows), [Some("undecided"), Some("lower"), None]);
    }

    /// A ratio of 1.05 and a spread of 0.1 on the logarithms: only a difference can be shown, with
    /// (t(0.975) + t(0.8))² · (0.1 / 0.04879)² = 34.9 blocks of 35 (t: 2.0322 and 0.8523).
    #[test]
    fn the_number_of_blocks_is_that_of_the_nearer_answer() {
        let mut estimate = evidence(&[(1.05, 0.9, 1.2, 0.4)])[0].estimate.unwrap();
        assert_eq!(blocks_needed(&estimate, 0.05), Some(35));
        // In the middle of the band, only its absence can: 47, worked out in `stats::planning`.
        estimate.ratio = 1.0;
        assert_eq!(blocks_needed(&estimate, 0.05), Some(47));
        estimate.spread = None;
        assert_eq!(blocks_needed(&estimate, 0.05), None);
    }
}
