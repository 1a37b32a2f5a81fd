//! Two runs that share no blocks.

use serde::Serialize;

use super::{
    adjusted::{FEWEST, STEADY},
    ratio::CONFIDENCE,
    student,
};

/// A value of one run against that of another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Geometric mean of the new run's rounds divided by that of the old one's.
    pub ratio: f64,
    /// Ends of its 95 % confidence interval.
    pub interval: (f64, f64),
    /// The run's pace divided by the baseline's, when the ratio is that at equal pace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pace: Option<f64>,
    /// Standard error of its logarithm.
    #[serde(skip)]
    pub standard_error: f64,
    /// Degrees of freedom of the interval.
    #[serde(skip)]
    pub degrees: f64,
}

impl Change {
    fn new(difference: f64, standard_error: f64, degrees: f64, pace: Option<f64>) -> Self {
        let reach = student::quantile(0.5 + CONFIDENCE / 2.0, degrees) * standard_error;
        let interval = ((difference - reach).exp(), (difference + reach).exp());
        Self { ratio: difference.exp(), interval, pace, standard_error, degrees }
    }

    /// One-sided p-value of "the ratio is at most `limit`"; small when it is larger.
    #[must_use]
    pub fn p_above(&self, limit: f64) -> f64 {
        let distance = self.ratio.ln() - limit.ln();
        if self.standard_error == 0.0 {
            return f64::from(u8::from(distance <= 0.0));
        }
        student::cumulative(-distance / self.standard_error, self.degrees)
    }

    /// The same for the inverse: "the ratio is at least `limit`".
    #[must_use]
    pub fn p_below(&self, limit: f64) -> f64 {
        let inverse = Self { ratio: 1.0 / self.ratio, ..*self };
        inverse.p_above(1.0 / limit)
    }
}

/// Estimates how a value changed from the rounds of one run to those of another, all positive.
/// Their blocks were not run side by side, so nothing is paired: Welch's t on logarithms ("The
/// generalization of 'Student's' problem when several different population variances are
/// involved", 1947), with the degrees of freedom of Satterthwaite (1946). `None` when either has
/// fewer than two rounds.
#[must_use]
pub fn between_runs(old: &[f64], new: &[f64]) -> Option<Change> {
    let ((old_mean, old_error), (new_mean, new_error)) = (moments(old)?, moments(new)?);
    let difference = new_mean - old_mean;
    let squared = old_error + new_error;
    let part = |error: f64, rounds: usize| error * error / (rounds as f64 - 1.0);
    let denominator = part(old_error, old.len()) + part(new_error, new.len());
    let degrees =
        if denominator > 0.0 { squared * squared / denominator } else { f64::from(u16::MAX) };
    Some(Change::new(difference, squared.sqrt(), degrees, None))
}

/// The same at equal pace, from each round's value and pace. The machine's speed at the time of a run is
/// in all of its rounds, and nothing that is not paired takes it out; but how a value goes with the pace
/// can be seen within each run. Analysis of covariance of two groups (Cochran, "Analysis of covariance:
/// its nature and uses", 1957) on logarithms, y of values and x of paces:
///
/// - slope b = ΣΣ(x − x̄)(y − ȳ) / ΣΣ(x − x̄)², sums within each run
/// - difference d = (ȳ₂ − ȳ₁) − b(x̄₂ − x̄₁)
/// - s² = ΣΣ(y − ȳ − b(x − x̄))² / (n₁ + n₂ − 3)
/// - standard error² = s² · (1/n₁ + 1/n₂ + (x̄₂ − x̄₁)² / ΣΣ(x − x̄)²).
///
/// The last term is the price of going far beyond what was seen: a baseline of a much faster hour decides
/// nothing. `None` when there is nothing to adjust: fewer than 5 rounds in either, or paces that differ
/// neither within runs nor between them by 2 %.
#[must_use]
pub fn between_runs_at_equal_pace(old: &[(f64, f64)], new: &[(f64, f64)]) -> Option<Change> {
    if old.len().min(new.len()) < FEWEST {
        return None;
    }
    let (old, new) = (Sums::of(old), Sums::of(new));
    let sxx = old.xx + new.xx;
    let apart = new.x - old.x;
    let pace_spread = (sxx / (old.n + new.n - 2.0)).sqrt();
    if (pace_spread < STEADY && apart.abs() < STEADY) || sxx == 0.0 {
        return None;
    }
    let slope = (old.xy + new.xy) / sxx;
    // What rounding leaves below zero is nothing.
    let rest = (old.yy + new.yy - slope * (old.xy + new.xy)).max(0.0);
    let degrees = old.n + new.n - 3.0;
    let squared = rest / degrees * (1.0 / old.n + 1.0 / new.n + apart * apart / sxx);
    let difference = new.y - old.y - slope * apart;
    Some(Change::new(difference, squared.sqrt(), degrees, Some(apart.exp())))
}

/// Of a run's logarithms: means, and sums of squares and products around them.
struct Sums {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Sums {
    /// From values and paces.
    fn of(rounds: &[(f64, f64)]) -> Self {
        let n = rounds.len() as f64;
        let logs: Vec<(f64, f64)> =
            rounds.iter().map(|(value, pace)| (pace.ln(), value.ln())).collect();
        let sum = |term: &dyn Fn(&(f64, f64)) -> f64| logs.iter().map(term).sum::<f64>();
        let (x, y) = (sum(&|log| log.0) / n, sum(&|log| log.1) / n);
        Self {
            n,
            x,
            y,
            xx: sum(&|log| (log.0 - x).powi(2)),
            xy: sum(&|log| (log.0 - x) * (log.1 - y)),
            yy: sum(&|log| (log.1 - y).powi(2)),
        }
    }
}

/// Mean of the logarithms and its squared standard error.
fn moments(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 2 {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().map(|value| value.ln()).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value.ln() - mean).powi(2)).sum();
    Some((mean, squares / (n - 1.0) / n))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Logarithms 0, 1, 2 (mean 1, variance 1, squared error 1/3) and 1, 3 (mean 2, variance 2,
    /// squared error 1). Difference 1, squared error 4/3, degrees (16/9) / ((1/9)/2 + 1/1) =
    /// 1.684211; t(0.975; 1.684211) = 5.176230 (by numerical integration of the
    /// density); reach 5.176230 · 1.154701 = 5.976996.
    #[test]
    fn two_small_runs_worked_out_by_hand() {
        let exp = |logs: &[f64]| logs.iter().map(|log| log.exp()).collect::<Vec<_>>();
        let change = between_runs(&exp(&[0.0, 1.0, 2.0]), &exp(&[1.0, 3.0])).unwrap();
        assert!((change.ratio - 1.0_f64.exp()).abs() < 1e-9, "{change:?}");
        assert!((change.degrees - 1.684_211).abs() < 1e-6, "{change:?}");
        let reach = 5.976_996;
        assert!((change.interval.1.ln() - 1.0 - reach).abs() < 1e-4, "{change:?}");
        assert!((change.interval.0.ln() - 1.0 + reach).abs() < 1e-4, "{change:?}");
    }

    /// Logarithms in tenths. Old: x −2, −1, 0, 1, 2 and y −4, −1, 0, 1, 4: Σxx 10, Σxy 18, Σyy 34. New: x 8,
    /// 9, 10, 11, 12 (mean 10) and y 17, 21, 21, 22, 24 (mean 21): Σxx 10, Σxy 8 + 0 + 0 + 1 + 6 = 15, Σyy
    /// 16 + 0 + 0 + 1 + 9 = 26. b = 33/20 = 1.65; d = 21 − 16.5 = 4.5; rest 60 − 1.65 · 33 = 5.55, s² =
    /// 5.55/7 = 0.792857; error² = s² · (0.4 + 100/20) = 4.281429, error 2.069162; t(0.975; 7) = 2.364624.
    #[test]
    fn two_runs_at_different_paces_worked_out_by_hand() {
        let run = |x: [f64; 5], y: [f64; 5]| {
            let pairs = x.into_iter().zip(y);
            pairs.map(|(x, y)| ((y / 10.0).exp(), (x / 10.0).exp())).collect::<Vec<_>>()
        };
        let old = run([-2.0, -1.0, 0.0, 1.0, 2.0], [-4.0, -1.0, 0.0, 1.0, 4.0]);
        let new = run([8.0, 9.0, 10.0, 11.0, 12.0], [17.0, 21.0, 21.0, 22.0, 24.0]);
        let change = between_runs_at_equal_pace(&old, &new).unwrap();
        let close = |left: f64, right: f64| (left - right).abs() < 1e-5;
        assert!(close(change.ratio.ln(), 0.45) && close(change.degrees, 7.0), "{change:?}");
        assert!(close(change.standard_error, 0.206_916_2), "{change:?}");
        assert!(close(change.interval.1.ln(), 0.45 + 2.364_624 * 0.206_916_2), "{change:?}");
        assert!(close(change.pace.unwrap().ln(), 1.0), "{change:?}");
        // Four rounds are too few, and a machine that is always the same needs no adjustment.
        assert_eq!(between_runs_at_equal_pace(&old[..4], &new), None);
        let steady: Vec<(f64, f64)> = old.iter().map(|(value, _)| (*value, 1.0)).collect();
        assert_eq!(between_runs_at_equal_pace(&steady, &steady), None);
    }

    /// A baseline of a quiet hour: everything takes a third longer now, and nothing is slower.
    #[test]
    fn a_slower_hour_is_no_slower_service() {
        let run = |pace: f64, worse: f64| {
            let rounds = (0..10).map(|round| pace * (1.0 + 0.02 * f64::from(round % 5)));
            let noise = (0..10).map(|round| 1.0 + 0.005 * f64::from(round * 7 % 10));
            rounds.zip(noise).map(|(pace, noise)| (pace * worse * noise, pace)).collect::<Vec<_>>()
        };
        let values = |run: &[(f64, f64)]| run.iter().map(|(value, _)| *value).collect::<Vec<_>>();
        let (old, new) = (run(1.0, 1.0), run(1.33, 1.0));
        assert!(between_runs(&values(&old), &values(&new)).unwrap().p_above(1.05) < 1e-6);
        assert!(between_runs_at_equal_pace(&old, &new).unwrap().p_above(1.05) > 0.1);
        let near = run(1.03, 1.2);
        assert!(between_runs_at_equal_pace(&old, &near).unwrap().p_above(1.05) < 1e-3);
    }

    #[test]
    fn a_limit_far_below_is_surely_exceeded_and_the_other_side_mirrors_it() {
        let (old, new) = ([10.0, 10.1, 9.9, 10.05], [12.0, 12.1, 11.9, 12.05]);
        let up = between_runs(&old, &new).unwrap();
        let down = between_runs(&new, &old).unwrap();
        assert!(up.p_above(1.05) < 1e-4 && up.p_above(1.5) > 0.999, "{up:?}");
        assert!((up.p_above(1.05) - down.p_below(1.0 / 1.05)).abs() < 1e-9);
        assert_eq!(between_runs(&old, &[1.0]), None);
        let same = between_runs(&[2.0; 3], &[2.0; 3]).unwrap();
        assert_eq!((same.ratio, same.p_above(1.0)), (1.0, 1.0));
    }
}
