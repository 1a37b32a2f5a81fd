//! Two runs that share no blocks.

use serde::Serialize;

use super::{ratio::CONFIDENCE, student};

/// A value of one run against that of another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// Geometric mean of the new run's rounds divided by that of the old one's.
    pub ratio: f64,
    /// Ends of its 95 % confidence interval.
    pub interval: (f64, f64),
    /// Standard error of its logarithm.
    #[serde(skip)]
    pub standard_error: f64,
    /// Degrees of freedom of the interval.
    #[serde(skip)]
    pub degrees: f64,
}

impl Change {
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
    let standard_error = squared.sqrt();
    let part = |error: f64, rounds: usize| error * error / (rounds as f64 - 1.0);
    let denominator = part(old_error, old.len()) + part(new_error, new.len());
    let degrees =
        if denominator > 0.0 { squared * squared / denominator } else { f64::from(u16::MAX) };
    let reach = student::quantile(0.5 + CONFIDENCE / 2.0, degrees) * standard_error;
    let interval = ((difference - reach).exp(), (difference + reach).exp());
    Some(Change { ratio: difference.exp(), interval, standard_error, degrees })
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
