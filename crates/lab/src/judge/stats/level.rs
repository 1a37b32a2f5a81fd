//! Arithmetic mean of a value, for predictions about a variant alone.

use serde::Serialize;

use super::sample::Sample;

/// A variant's own value over blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Level {
    /// Arithmetic mean of the rounds' values.
    pub value: f64,
    /// Ends of its 95 % confidence interval; `None` with too few blocks.
    pub interval: Option<(f64, f64)>,
    pub blocks: usize,
    /// Standard deviation of the rounds' values; `None` with fewer than two blocks.
    pub spread: Option<f64>,
}

/// Zeros that show a median of zero by a sign test: six fair coins show no head with 1.6 % probability.
const FEWEST_ZEROS: usize = 6;

/// Estimates the mean of one value per block, by Student's t (Student, "The probable error of a mean", 1908). Without
/// logarithms, because values such as error counts may be zero. Zeros have no spread, so an interval needs six of them
/// (sign test). `None` without blocks.
pub(crate) fn level(values: &[f64]) -> Option<Level> {
    let sample = Sample::new(values)?;
    let is_nothing = values.iter().all(|value| *value == 0.0) && values.len() < FEWEST_ZEROS;
    let interval = sample.interval().filter(|_| !is_nothing);
    Some(Level { value: sample.mean, interval, blocks: values.len(), spread: sample.spread })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1, 2, 6: mean 3, squares 4 + 1 + 9 = 14, deviation √7, standard error √(7/3) = 1.527525;
    /// t(0.975; 2) = 4.302653, so ± 6.572411.
    #[test]
    fn three_values_worked_out_by_hand() {
        let level = level(&[1.0, 2.0, 6.0]).unwrap();
        let (low, high) = level.interval.unwrap();
        assert!((level.value - 3.0).abs() < 1e-12);
        assert!((low + 3.572_411).abs() < 1e-4 && (high - 9.572_411).abs() < 1e-4, "{level:?}");
    }

    #[test]
    fn six_zeros_are_zero_for_certain_and_fewer_are_not() {
        assert_eq!(level(&[0.0; 6]).unwrap().interval, Some((0.0, 0.0)));
        assert_eq!(level(&[0.0; 5]).unwrap().interval, None);
        assert_eq!(level(&[7.0]).unwrap().interval, None);
        assert_eq!(level(&[]), None);
    }
}
