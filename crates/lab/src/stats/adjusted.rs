//! Ratios at equal speed of the machine: an analysis of covariance.

use serde::Serialize;

use super::{
    ratio::{CONFIDENCE, Estimate},
    student,
};

/// With fewer blocks, what a slope costs in certainty is more than it can give.
pub(super) const FEWEST: usize = 5;
/// Below this standard deviation of the logarithms of the blocks' paces the machine was steady, and
/// their differences are those of the clock.
pub(super) const STEADY: f64 = 0.02;
/// A variant whose pace differs from the reference's with a smaller p-value slows the cores down
/// itself; to take that out would be to take out part of what it does.
const BALANCED: f64 = 0.01;

/// What a ratio was adjusted by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Adjustment {
    /// By how much the logarithm of the metric grows with that of the pace.
    pub slope: f64,
    /// Standard deviation of the logarithms of the blocks' ratios of paces.
    pub pace_spread: f64,
    /// The ratio without it, and the ends of its 95 % interval.
    pub unadjusted: [f64; 3],
}

/// An [`Estimate`] at equal pace, from `plain`, the one without, and the logarithms of each block's
/// ratios: of the metric and of the pace. `None` when there is nothing to adjust: fewer than 5
/// blocks, a steady machine, or a variant that changes the pace itself.
///
/// Whether a core is fast or slow in a round has nothing to do with the variant, whose place in the
/// block is drawn; so what goes with the pace is noise, and can be taken out (Fisher, "Statistical
/// Methods for Research Workers", 4th edition, 1932, section 49.1; Cochran, "Analysis of covariance:
/// its nature and uses", 1957). Least squares of the metric's logarithms y on the pace's x; the answer
/// is the line's value at x = 0, with
///
/// - slope b = Σ(x − x̄)(y − ȳ) / Σ(x − x̄)², value ȳ − b·x̄
/// - s² = Σ(y − ȳ − b(x − x̄))² / (n − 2)
/// - standard error² = s² · (1/n + x̄² / Σ(x − x̄)²), Student's t with n − 2 degrees of freedom.
///
/// The three conditions look at x alone, never at y: choosing the narrower of two intervals would make
/// both wrong more often than they say.
#[must_use]
pub fn adjusted(plain: &Estimate, logs: &[f64], paces: &[f64]) -> Option<Estimate> {
    let n = logs.len() as f64;
    if logs.len() < FEWEST || logs.len() != paces.len() {
        return None;
    }
    let Paces { mean: x, squares: sxx, spread: pace_spread } = Paces::of(paces);
    if pace_spread < STEADY || unbalanced(paces).is_some() {
        return None;
    }
    let y = logs.iter().sum::<f64>() / n;
    let both = || logs.iter().zip(paces);
    let sxy: f64 = both().map(|(log, pace)| (log - y) * (pace - x)).sum();
    let slope = sxy / sxx;
    let squares: f64 = both().map(|(log, pace)| (log - y - slope * (pace - x)).powi(2)).sum();
    let spread = (squares / (n - 2.0)).sqrt();
    let error = spread * (1.0 / n + x * x / sxx).sqrt();
    let value = y - slope * x;
    let reach = student::quantile(0.5 + CONFIDENCE / 2.0, n - 2.0) * error;
    let (low, high) = plain.interval?;
    Some(Estimate {
        ratio: value.exp(),
        interval: Some(((value - reach).exp(), (value + reach).exp())),
        blocks: logs.len(),
        spread: Some(spread),
        p_value: Some(student::two_sided(value, error, n - 2.0)),
        adjustment: Some(Adjustment { slope, pace_spread, unadjusted: [plain.ratio, low, high] }),
    })
}

/// By which factor the same work took longer in rounds of a variant than in those of the reference, if
/// that is no chance: from the logarithms of the blocks' ratios of paces, by Student's paired t. `None`
/// too of a steady machine.
#[must_use]
pub fn unbalanced(paces: &[f64]) -> Option<f64> {
    if paces.len() < FEWEST {
        return None;
    }
    let n = paces.len() as f64;
    let Paces { mean, spread, .. } = Paces::of(paces);
    let is_chance = student::two_sided(mean, spread / n.sqrt(), n - 1.0) >= BALANCED;
    let is_steady = spread < STEADY && mean.abs() < STEADY;
    (!is_chance && !is_steady).then(|| mean.exp())
}

/// Of logarithms of paces: mean, sum of squares around it, standard deviation.
struct Paces {
    mean: f64,
    squares: f64,
    spread: f64,
}

impl Paces {
    fn of(paces: &[f64]) -> Self {
        let n = paces.len() as f64;
        let mean = paces.iter().sum::<f64>() / n;
        let squares: f64 = paces.iter().map(|pace| (pace - mean).powi(2)).sum();
        Self { mean, squares, spread: (squares / (n - 1.0)).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::estimate, *};

    /// With the reference at 1, so that logarithms of ratios are those of values.
    fn adjust(logs: &[f64], paces: &[f64]) -> Option<Estimate> {
        let pairs: Vec<(f64, f64)> = logs.iter().map(|log| (1.0, log.exp())).collect();
        adjusted(&estimate(&pairs)?, logs, paces)
    }

    #[test]
    fn five_blocks_worked_out_by_hand() {
        // In tenths: x = −2, −1, 0, 1, 3: mean 0.2, Σ(x − x̄)² = 15 − 0.2 = 14.8; y = −3, −2, 1, 1, 6:
        // mean 0.6; Σ(x − x̄)(y − ȳ) = Σxy − n·x̄·ȳ
        // = (6 + 2 + 0 + 1 + 18) − 0.6 = 26.4; Σ(y − ȳ)² = 51 − 1.8 = 49.2; b = 26.4/14.8 = 1.783784;
        // value 0.6 − 0.356757 = 0.243243; rest 49.2 − 26.4²/14.8 = 2.108108, s² = 0.702703,
        // error² = 0.702703 · (0.2 + 0.04/14.8) = 0.142440, error 0.377412; t(0.975; 3) = 3.182446.
        let tenths = |values: [f64; 5]| values.map(|value| value / 10.0);
        let logs = tenths([-3.0, -2.0, 1.0, 1.0, 6.0]);
        let found = adjust(&logs, &tenths([-2.0, -1.0, 0.0, 1.0, 3.0])).unwrap();
        let close = |left: f64, right: f64| (left - right).abs() < 1e-5;
        assert!(close(found.ratio.ln(), 0.024_324_3), "{found:?}");
        let (low, high) = found.interval.unwrap();
        assert!(close(high.ln() - found.ratio.ln(), 3.182_446 * 0.037_741_2), "{found:?}");
        assert!(close(low.ln() + high.ln(), 2.0 * 0.024_324_3), "{found:?}");
        assert!(close(found.spread.unwrap(), 0.702_703_f64.sqrt() / 10.0), "{found:?}");
        let adjustment = found.adjustment.unwrap();
        assert!(close(adjustment.slope, 1.783_784) && close(adjustment.unadjusted[0].ln(), 0.06));
    }

    #[test]
    fn what_goes_with_the_pace_is_taken_out() {
        let paces = [0.3, -0.2, 0.1, -0.25, 0.05, 0.1];
        let logs = paces.map(|pace| 0.05 + 2.0 * pace);
        let found = adjust(&logs, &paces).unwrap();
        let (low, high) = found.interval.unwrap();
        assert!((low - 0.05_f64.exp()).abs() < 1e-9 && (high - 0.05_f64.exp()).abs() < 1e-9);
        // The same rounds without it say next to nothing.
        assert!(found.adjustment.unwrap().unadjusted[2] > 1.3);
    }

    #[test]
    fn there_is_nothing_to_adjust_on_a_steady_machine_or_with_few_blocks() {
        let logs = [0.1, 0.2, 0.0, 0.1, 0.2, 0.1];
        let paces = [0.3, -0.2, 0.1, -0.3, 0.05, 0.1];
        assert!(adjust(&logs, &paces).is_some());
        assert_eq!(adjust(&logs, &paces.map(|pace| pace / 20.0)), None);
        assert_eq!(adjust(&logs[..4], &paces[..4]), None);
        assert_eq!(adjust(&logs, &paces[..5]), None, "a round had no pace");
    }

    /// A variant under which the cores are slower in every block is not compared at equal pace: that
    /// they are may be its doing.
    #[test]
    fn a_variant_that_changes_the_pace_is_not_adjusted() {
        let logs = [0.1, 0.2, 0.0, 0.1, 0.2, 0.1];
        let slower = [0.10, 0.12, 0.06, 0.11, 0.08, 0.09];
        assert_eq!(adjust(&logs, &slower), None);
        assert!((unbalanced(&slower).unwrap().ln() - 0.56 / 6.0).abs() < 1e-12);
        assert_eq!(unbalanced(&[0.1, -0.12, 0.06, -0.11, 0.08, 0.0]), None);
        assert_eq!(unbalanced(&[0.010, 0.012, 0.006, 0.011, 0.008, 0.009]), None, "steady");
    }
}
