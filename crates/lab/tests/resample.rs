//! Synthetic experiments from recorded rounds of one thing: how often do they show a false difference?
//!
//! Simulated noise (`stats/simulation.rs`) is what somebody thought of; recorded rounds have what a machine really
//! does. Two rounds that followed each other are a block, and which of them is called the reference
//! is drawn, as the lab draws the order of a block. Nothing differs, so every difference that is
//! named is false, and at 95 % one experiment in twenty names one.
//!
//! Its limit: all synthetic experiments come from the same rounds. What never happened during the
//! recording happens in none of them.

use madang_lab::stats::{self, LEVEL};

/// Number of synthetic experiments that report a difference between a variant and itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FalseVerdicts {
    /// By the predicted metric: its 95 % interval excludes 1.
    pub predicted: u32,
    /// By any other metric, after adjustment.
    pub others: u32,
}

/// Rounds of one thing in order of time: a positive value per metric and round. The first metric is the predicted one.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// For each metric, blocks of two consecutive rounds.
    metrics: Vec<Blocks>,
    blocks: usize,
}

/// Values of the two rounds of each block.
type Blocks = Vec<(f64, f64)>;

impl Recorded {
    /// From the values of each metric, without a last round that has no partner. `None` if the metrics have different
    /// numbers of rounds, or a value is not positive.
    #[must_use]
    pub fn new(metrics: &[Vec<f64>]) -> Option<Self> {
        let rounds = metrics.first()?.len();
        let is_sound = |values: &Vec<f64>| {
            values.len() == rounds && values.iter().all(|value| *value > 0.0 && value.is_finite())
        };
        let sound = metrics.iter().all(is_sound);
        sound.then(|| Self {
            metrics: metrics.iter().map(|values| blocks(values)).collect(),
            blocks: rounds / 2,
        })
    }

    /// Draws `experiments` of `blocks` blocks each without repetition, and judges them like a report. `None` with fewer
    /// than two blocks or more than there are.
    #[must_use]
    pub fn false_verdicts(
        &self,
        blocks: usize,
        experiments: u32,
        seed: u64,
    ) -> Option<FalseVerdicts> {
        if !(2..=self.blocks).contains(&blocks) {
            return None;
        }
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut found = FalseVerdicts { predicted: 0, others: 0 };
        let mut places: Vec<usize> = (0..self.blocks).collect();
        for _ in 0..experiments {
            rng.shuffle(&mut places);
            // The same rounds and roles for all metrics, as in a run.
            let drawn: Vec<(usize, bool)> =
                places[..blocks].iter().map(|place| (*place, rng.bool())).collect();
            let estimate = |metric: &Blocks| stats::estimate(&drawn_from(metric, &drawn));
            let mut estimates = self.metrics.iter().filter_map(estimate);
            let predicted = estimates.next()?;
            found.predicted += u32::from(!predicted.includes_no_difference());
            let p_values: Vec<f64> = estimates.filter_map(|one| one.p_value).collect();
            let is_reported = stats::holm(&p_values).into_iter().any(|adjusted| adjusted <= LEVEL);
            found.others += u32::from(is_reported);
        }
        Some(found)
    }
}

/// Pairs consecutive rounds.
fn blocks(values: &[f64]) -> Blocks {
    values.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Blocks of an experiment: their index, and whether the second round is the reference.
fn drawn_from(blocks: &[(f64, f64)], drawn: &[(usize, bool)]) -> Blocks {
    let role = |(place, swapped): &(usize, bool)| {
        let (first, second) = blocks[*place];
        if *swapped { (second, first) } else { (first, second) }
    };
    drawn.iter().map(role).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every block has the ratio 2 or, swapped, 1/2. In half of all experiments two blocks have the same sign, and
    /// without spread a difference is reported. With different signs, never.
    #[test]
    fn two_blocks_of_one_ratio_are_told_apart_by_every_second_experiment() {
        let rounds = [1.0, 2.0].repeat(10);
        let recorded = Recorded::new(&[rounds.clone(), rounds]).unwrap();
        let found = recorded.false_verdicts(2, 1000, 1).unwrap();
        assert!((430..=570).contains(&found.predicted), "{found:?}");
        // A single other metric needs no adjustment, and has the same rounds and roles.
        assert_eq!(found.others, found.predicted);
    }

    #[test]
    fn what_never_differs_is_never_told_apart() {
        let recorded = Recorded::new(&[vec![3.0; 12], vec![7.0; 12]]).unwrap();
        let none = FalseVerdicts { predicted: 0, others: 0 };
        assert_eq!(recorded.false_verdicts(6, 100, 1), Some(none));
    }

    #[test]
    fn rounds_that_cannot_be_compared_are_refused() {
        assert!(Recorded::new(&[]).is_none());
        assert!(Recorded::new(&[vec![1.0, 0.0]]).is_none());
        assert!(Recorded::new(&[vec![1.0, f64::NAN]]).is_none());
        assert!(Recorded::new(&[vec![1.0, 2.0], vec![1.0]]).is_none());
        let recorded = Recorded::new(&[vec![1.0; 5]]).unwrap();
        assert!(recorded.false_verdicts(2, 1, 1).is_some());
        // The fifth round has no partner.
        assert_eq!(recorded.false_verdicts(3, 1, 1), None);
        assert_eq!(recorded.false_verdicts(1, 1, 1), None);
    }
}
