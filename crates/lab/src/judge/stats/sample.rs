//! Mean and spread of a sample, with an interval of the mean.

use super::student;

pub(super) struct Sample {
    pub n: f64,
    pub mean: f64,
    /// Standard deviation; `None` with fewer than two values.
    pub spread: Option<f64>,
}

impl Sample {
    /// `None` without values.
    pub(super) fn new(values: &[f64]) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let spread = (values.len() >= 2).then(|| (squares / (n - 1.0)).sqrt());
        Some(Self { n, mean, spread })
    }

    /// Ends of the 95 % confidence interval by Student's t.
    pub(super) fn interval(&self) -> Option<(f64, f64)> {
        let reach = student::critical(self.n - 1.0) * self.spread? / self.n.sqrt();
        Some((self.mean - reach, self.mean + reach))
    }
}
