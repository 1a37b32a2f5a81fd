//! Difference between a ratio from pairs and the same ratio from rounds alone.

use serde::Serialize;

use super::ratio::Estimate;
use super::student;

/// A ratio from pairs compared with the one from rounds alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interference {
    /// Ratio from rounds alone.
    pub alone: f64,
    /// Ends of its 95 % interval.
    pub alone_interval: (f64, f64),
    /// Logarithm of the ratio alone, less that of the pairs.
    pub difference: f64,
    pub is_certain: bool,
}

/// Compares two independent means of logarithms (Welch, "The generalization of 'Student's' problem when several
/// different population variances are involved", 1947). `None` without an interval of both.
pub(crate) fn interference(paired: &Estimate, alone: &Estimate) -> Option<Interference> {
    let (alone_interval, difference) = (alone.interval?, (alone.ratio / paired.ratio).ln());
    let variance =
        |one: &Estimate| Some((one.spread?.powi(2) / one.blocks as f64, one.blocks as f64 - 1.0));
    let ((a, a_degrees), (b, b_degrees)) = (variance(alone)?, variance(paired)?);
    let degrees = (a + b).powi(2) / (a * a / a_degrees + b * b / b_degrees);
    let reach = if a + b > 0.0 { student::critical(degrees) * (a + b).sqrt() } else { 0.0 };
    let is_certain = difference.abs() > reach;
    Some(Interference { alone: alone.ratio, alone_interval, difference, is_certain })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::stats::estimate;

    fn estimate_of(ratios: &[f64]) -> Estimate {
        let pairs: Vec<(f64, f64)> = ratios.iter().map(|ratio| (1.0, *ratio)).collect();
        estimate(&pairs).unwrap()
    }

    #[test]
    fn only_a_difference_beyond_chance_is_certain() {
        let paired = estimate_of(&[0.0920, 0.0921, 0.0919, 0.0920]);
        let found = interference(&paired, &estimate_of(&[0.0970, 0.0972, 0.0968])).unwrap();
        assert!(found.is_certain && (found.difference - 0.0529).abs() < 1e-3, "{found:?}");
        let noisy = interference(&paired, &estimate_of(&[0.08, 0.1, 0.12])).unwrap();
        assert!(!noisy.is_certain, "{noisy:?}");
        assert_eq!(interference(&paired, &estimate_of(&[0.09])), None, "one round has no interval");
    }

    /// Variances 0.01 / 4 and 0.04 / 3 of logarithms: degrees (0.015833)² / (0.0025² / 3 + 0.013333² / 2) = 2.755;
    /// t(0.975; 2.755) = 3.355, so 0.4222 is as far as chance reaches.
    #[test]
    fn the_reach_worked_out_by_hand() {
        let with = |ratio: f64, spread, blocks| Estimate {
            ratio,
            interval: Some((ratio, ratio)),
            blocks,
            spread: Some(spread),
            p_value: Some(1.0),
        };
        let at = |log: f64| {
            let (paired, alone) = (with(1.0, 0.1, 4), with(log.exp(), 0.2, 3));
            interference(&paired, &alone).unwrap().is_certain
        };
        assert!(at(0.43) && !at(0.41), "{} {}", at(0.43), at(0.41));
    }
}
