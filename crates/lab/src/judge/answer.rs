//! Labels of ratios: better, worse, same, or can't tell.

use serde::Serialize;

use crate::judge::stats::{self, Estimate};

/// Family-wise error rate of figures other than those in question.
pub const LEVEL: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    More,
    Less,
    /// For custom metrics.
    Unknown,
}

/// Label of a ratio to the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The interval excludes 1, on the better side.
    Better,
    /// The interval excludes 1, on the worse side.
    Worse,
    /// The interval includes 1 and lies within the band.
    Same,
    /// Neither of these, or not judged.
    CannotTell,
    /// The interval lies above 1, and the better direction is unknown.
    Higher,
    /// The interval lies below 1, and the better direction is unknown.
    Lower,
}

impl Answer {
    /// Labels the interval of a ratio.
    ///
    /// "Same" is the interval's inclusion in the band (Westlake, "Use of confidence intervals in analysis of
    /// comparative bioavailability trials", 1972), with the 95 % interval that is printed: stricter than the two
    /// one-sided tests at 5 % (Schuirmann 1987), whose interval would be the 90 % one.
    pub fn judge(interval: Option<(f64, f64)>, direction: Direction, band: f64) -> Self {
        let Some((low, high)) = interval else { return Self::CannotTell };
        match direction {
            Direction::More if low > 1.0 => Self::Better,
            Direction::Less if low > 1.0 => Self::Worse,
            Direction::Unknown if low > 1.0 => Self::Higher,
            Direction::More if high < 1.0 => Self::Worse,
            Direction::Less if high < 1.0 => Self::Better,
            Direction::Unknown if high < 1.0 => Self::Lower,
            _ if low >= 1.0 / (1.0 + band) && high <= 1.0 + band => Self::Same,
            _ => Self::CannotTell,
        }
    }

    /// The most serious of several; `CannotTell` without any.
    pub fn overall(answers: impl IntoIterator<Item = Self>) -> Self {
        let rank = |answer: &Self| match answer {
            Self::Worse => 5,
            Self::CannotTell => 4,
            Self::Higher | Self::Lower => 3,
            Self::Better => 2,
            Self::Same => 1,
        };
        answers.into_iter().max_by_key(rank).unwrap_or(Self::CannotTell)
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::CannotTell => "cannot-tell",
            Self::Higher => "higher",
            Self::Lower => "lower",
        }
    }
}

/// Smallest difference that an interval rules out in both directions, as a share.
pub(crate) fn reach((low, high): (f64, f64)) -> f64 {
    high.max(1.0 / low) - 1.0
}

/// Number of blocks that would show a difference or its absence, whichever needs fewer, at the observed spread.
pub(crate) fn blocks_needed(estimate: &Estimate, band: f64) -> Option<u32> {
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

    #[test]
    fn four_words_by_where_the_interval_lies() {
        let less = |low, high| Answer::judge(Some((low, high)), Direction::Less, 0.01);
        assert_eq!(less(1.001, 1.002), Answer::Worse, "small, and certain");
        assert_eq!(less(0.8, 0.999), Answer::Better);
        assert_eq!(less(0.995, 1.01), Answer::Same);
        assert_eq!(less(0.995, 1.02), Answer::CannotTell);
        assert_eq!(less(0.98, 1.005), Answer::CannotTell);
        let more = |low, high| Answer::judge(Some((low, high)), Direction::More, 0.01);
        assert_eq!((more(1.1, 1.2), more(0.8, 0.9)), (Answer::Better, Answer::Worse));
        let unknown = |low, high| Answer::judge(Some((low, high)), Direction::Unknown, 0.01);
        assert_eq!((unknown(1.1, 1.2), unknown(0.8, 0.9)), (Answer::Higher, Answer::Lower));
        assert_eq!(Answer::judge(None, Direction::Less, 0.01), Answer::CannotTell);
    }

    #[test]
    fn of_several_answers_the_most_serious_counts() {
        use Answer::{Better, CannotTell, Same, Worse};
        assert_eq!(Answer::overall([Better, Worse, CannotTell]), Worse);
        assert_eq!(Answer::overall([Better, CannotTell, Same]), CannotTell);
        assert_eq!(Answer::overall([Same, Better]), Better);
        assert_eq!(Answer::overall([]), CannotTell);
    }

    #[test]
    fn the_reach_of_an_interval_is_that_of_its_farther_end() {
        assert!((reach((0.99, 1.04)) - 0.04).abs() < 1e-12);
        assert!((reach((0.8, 1.04)) - 0.25).abs() < 1e-12);
    }

    /// A ratio of 1.05 and a spread of 0.1 on the logarithms: only a difference can be shown, with
    /// (t(0.975) + t(0.8))² · (0.1 / 0.04879)² = 34.9 blocks of 35 (t: 2.0322 and 0.8523).
    #[test]
    fn the_number_of_blocks_is_that_of_the_nearer_answer() {
        let mut estimate = Estimate {
            ratio: 1.05,
            interval: Some((0.9, 1.2)),
            blocks: 10,
            spread: Some(0.1),
            p_value: Some(0.4),
        };
        assert_eq!(blocks_needed(&estimate, 0.05), Some(35));
        // In the middle of the band, only its absence can: 47, worked out in `stats::planning`.
        estimate.ratio = 1.0;
        assert_eq!(blocks_needed(&estimate, 0.05), Some(47));
        estimate.spread = None;
        assert_eq!(blocks_needed(&estimate, 0.05), None);
    }
}
