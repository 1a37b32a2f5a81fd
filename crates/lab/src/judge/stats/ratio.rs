//! Geometric mean of paired ratios.

use serde::Serialize;

use super::sample::Sample;
use super::student;

/// Confidence of every interval.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// A ratio of two variants over blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// Geometric mean of the blocks' ratios.
    pub ratio: f64,
    /// Ends of its 95 % confidence interval; `None` with fewer than two blocks.
    pub interval: Option<(f64, f64)>,
    pub blocks: usize,
    /// Standard deviation of the logarithms of the blocks' ratios; `None` with fewer than two blocks.
    pub spread: Option<f64>,
    /// Two-sided p-value of a ratio of 1 by the same t; `None` with fewer than two blocks.
    pub p_value: Option<f64>,
}

impl Estimate {
    pub fn includes_no_difference(&self) -> bool {
        self.interval.is_none_or(|(low, high)| low <= 1.0 && 1.0 <= high)
    }
}

/// Estimates the ratio from a `(reference, variant)` pair of positive numbers per block; `None` without blocks.
///
/// Averages the logarithms of the ratios, with the interval of Student's paired t (Student, "The probable error of a
/// mean", 1908). Fleming and Wallace, "How not to lie with statistics", 1986, argue for the geometric mean of ratios.
/// Pairing within a block removes slow drift of a shared machine; logarithms make "twice" and "half" equally far from
/// "same", and reduce the weight of a few large latencies.
pub fn estimate(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let sample = Sample::new(&log_ratios(pairs))?;
    let Sample { n, mean, spread } = sample;
    Some(Estimate {
        ratio: mean.exp(),
        interval: sample.interval().map(|(low, high)| (low.exp(), high.exp())),
        blocks: pairs.len(),
        spread,
        p_value: spread.map(|spread| student::two_sided(mean, spread / n.sqrt(), n - 1.0)),
    })
}

/// The logarithms of the blocks' ratios.
pub fn log_ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().map(|(reference, variant)| (variant / reference).ln()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left / right - 1.0).abs() < 1e-4
    }

    /// Ratios 2, 2, 8: logs in units of ln 2 are 1, 1, 3; mean 5/3, deviation √(4/3) = 1.1547,
    /// standard error 2/3; t(0.975; 2) = 4.30265, so ± 2.86843. In powers of two:
    /// 2^1.66667 = 3.17480, 2^-1.20177 = 0.434742, 2^4.53510 = 23.1844.
    #[test]
    fn three_blocks_worked_out_by_hand() {
        let estimate = estimate(&[(10.0, 20.0), (3.0, 6.0), (1.0, 8.0)]).unwrap();
        assert!(close(estimate.ratio, 3.174_80), "{estimate:?}");
        let (low, high) = estimate.interval.unwrap();
        assert!(close(low, 0.434_742) && close(high, 23.184_4), "{estimate:?}");
        assert_eq!(estimate.blocks, 3);
        assert!(close(estimate.spread.unwrap(), 1.154_70 * 2.0_f64.ln()), "{estimate:?}");
        // t = (5/3) / (2/3) = 2.5 with two degrees: p = 1 − t/√(2 + t²) = 1 − 2.5/2.872281.
        assert!(close(estimate.p_value.unwrap(), 0.129_612), "{estimate:?}");
    }

    /// Two ratios r and 1/r: mean 1, standard error |ln r|, t(0.975; 1) = 12.7062.
    #[test]
    fn two_blocks_give_a_very_wide_interval() {
        let estimate = estimate(&[(1.0, 1.1), (1.1, 1.0)]).unwrap();
        let (low, high) = estimate.interval.unwrap();
        assert!(close(estimate.ratio, 1.0));
        assert!(close(high, 1.1_f64.powf(12.7062)) && close(low, 1.0 / high), "{estimate:?}");
    }

    #[test]
    fn no_spread_gives_an_interval_of_no_width() {
        let estimate = estimate(&[(2.0, 1.0); 5]).unwrap();
        let (low, high) = estimate.interval.unwrap();
        assert!(close(low, 0.5) && close(high, 0.5), "{estimate:?}");
    }

    #[test]
    fn one_block_has_no_interval_and_none_has_nothing() {
        let single = estimate(&[(2.0, 1.0)]).unwrap();
        assert_eq!((single.ratio, single.interval, single.blocks), (0.5, None, 1));
        assert!(single.includes_no_difference());
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn swapping_the_two_sides_inverts_the_ratio() {
        let pairs = [(1.0, 1.3), (2.0, 2.1), (0.5, 0.9), (4.0, 4.4)];
        let swapped = pairs.map(|(left, right)| (right, left));
        let (there, back) = (estimate(&pairs).unwrap(), estimate(&swapped).unwrap());
        assert!(close(there.ratio * back.ratio, 1.0));
        assert!(close(there.interval.unwrap().0 * back.interval.unwrap().1, 1.0));
    }

    /// A drift that hits both of a pair alike, as on a machine that gets slower, cancels.
    #[test]
    fn what_both_of_a_block_share_does_not_widen_the_interval() {
        let pairs: Vec<_> = (1..=10).map(|n| f64::from(n * n)).map(|x| (x, 2.0 * x)).collect();
        let (low, high) = estimate(&pairs).unwrap().interval.unwrap();
        assert!((high / low).sqrt() - 1.0 < 1e-9);
    }
}
