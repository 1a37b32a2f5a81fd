//! Number of blocks for a decision.

use super::student;

/// Power of the number of blocks, as usual in the field (Cohen, "Statistical Power Analysis for the Behavioral
/// Sciences", 1988, section 2.4).
pub(crate) const POWER: f64 = 0.8;
/// Limit of experiment files.
pub(crate) const MOST_BLOCKS: u32 = 1000;

/// Smallest number of blocks with which the 95 % interval would exclude both bounds with a chance of 80 %, at this mean
/// and spread; `None` above [`MOST_BLOCKS`].
///
/// `spread` is the blocks' standard deviation; `below` and `above` are the distances from the mean
/// to a bound on either side, infinite where there is none, all on one scale (logarithms for
/// ratios). The sample size of a paired t test: chance = F(below/e − q) + F(above/e − q) − 1 with
/// e = spread/√n, q = t(0.975; n − 1) and F Student's distribution with n − 1 degrees of freedom,
/// which is the usual shifted approximation of the noncentral t (Chow, Shao and Wang, "Sample Size
/// Calculations in Clinical Research", 2008, sections 3.1.2 and 3.1.3).
pub(crate) fn blocks_needed(spread: f64, below: f64, above: f64) -> Option<u32> {
    let suffices = |blocks: u32| {
        let degrees = f64::from(blocks - 1);
        let error = spread / f64::from(blocks).sqrt();
        let reach = student::critical(degrees);
        let chance = |distance: f64| {
            if distance.is_infinite() || error == 0.0 {
                return f64::from(u8::from(distance > 0.0));
            }
            student::cumulative(distance / error - reach, degrees)
        };
        chance(below) + chance(above) - 1.0 >= POWER
    };
    if !suffices(MOST_BLOCKS) {
        return None;
    }
    // The chance grows with the number of blocks.
    let (mut least, mut most) = (2, MOST_BLOCKS);
    while least < most {
        let middle = u32::midpoint(least, most);
        if suffices(middle) { most = middle } else { least = middle + 1 }
    }
    Some(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: f64 = f64::INFINITY;

    /// A bound half a standard deviation away. n ≥ (t(0.975) + t(0.8))² · 4: with 33 blocks
    /// (2.0369 + 0.8530)² · 4 = 33.4, too few; with 34 (2.0345 + 0.8527)² · 4 = 33.3. Tables of
    /// the paired t test have 34, too.
    #[test]
    fn one_bound_worked_out_by_hand() {
        assert_eq!(blocks_needed(0.1, 0.05, NONE), Some(34));
        assert_eq!(blocks_needed(0.1, NONE, 0.05), Some(34));
    }

    /// "No difference" within 5 %, in the middle of the band: ln 1.05 = 0.04879 on both sides, so
    /// each may fail with 10 %. n ≥ (t(0.975) + t(0.9))² · (0.1 / 0.04879)²: with 46 blocks
    /// (2.0141 + 1.3006)² · 4.2009 = 46.2, too few; with 47 (2.0129 + 1.3002)² · 4.2009 = 46.1.
    #[test]
    fn a_band_worked_out_by_hand() {
        let edge = 1.05_f64.ln();
        assert_eq!(blocks_needed(0.1, edge, edge), Some(47));
    }

    #[test]
    fn a_mean_on_the_bound_is_never_decided_and_no_spread_at_once() {
        assert_eq!(blocks_needed(0.1, 0.0, NONE), None);
        assert_eq!(blocks_needed(0.1, 0.001, NONE), None);
        assert_eq!(blocks_needed(0.0, 0.001, NONE), Some(2));
    }

    /// The number is a promise about chance: simulated experiments of that many blocks leave the
    /// bound out in about 80 % of all cases.
    #[test]
    fn so_many_blocks_decide_as_often_as_they_promise() {
        let mut rng = fastrand::Rng::with_seed(1988);
        let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let reach = student::quantile(0.975, 33.0);
        let mut decided = 0;
        for _ in 0..2000 {
            let sample: Vec<f64> = (0..34).map(|_| 0.05 + 0.1 * normal()).collect();
            let mean = sample.iter().sum::<f64>() / 34.0;
            let squares: f64 = sample.iter().map(|value| (value - mean).powi(2)).sum();
            decided += u32::from(mean - reach * (squares / 33.0 / 34.0).sqrt() > 0.0);
        }
        let share = f64::from(decided) / 2000.0;
        assert!((0.77..=0.84).contains(&share), "{share}");
    }
}
