//! Synthetic experiments from recorded rounds of one thing: how often would it be told from itself?
//!
//! Simulated noise (`stats`) is what somebody thought of; recorded rounds have what a machine really
//! does. Two rounds that followed each other are a block, and which of them is called the reference
//! is drawn, as the lab draws the order of a block. Nothing differs, so every difference that is
//! named is false, and at 95 % one experiment in twenty names one.
//!
//! Its limit: all synthetic experiments come from the same rounds. What never happened during the
//! recording happens in none of them.

use crate::{
    finding::{Evidence, Finding},
    stats,
};

/// How many synthetic experiments told a thing from itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FalseVerdicts {
    /// By the predicted metric: its 95 % interval leaves out 1.
    pub predicted: u32,
    /// By any of the others, which are adjusted for being many: a word `higher` or `lower`.
    pub others: u32,
}

/// Rounds of one thing in the order of time: of each metric one value a round, all positive. The
/// first metric is the predicted one.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Of each metric, its blocks of two rounds that followed each other.
    metrics: Vec<Blocks>,
    /// Of the fixed work on the server's cores, if it was timed.
    paces: Option<Blocks>,
    /// Whether a metric is compared at equal pace.
    goes_with_pace: Vec<bool>,
    blocks: usize,
}

/// Of each block, the values of its two rounds.
type Blocks = Vec<(f64, f64)>;

impl Recorded {
    /// From the values of each metric. A last round without a partner is left out. `None` when the
    /// metrics do not have equally many rounds, or a value is not positive.
    #[must_use]
    pub fn new(metrics: &[Vec<f64>]) -> Option<Self> {
        let rounds = metrics.first()?.len();
        let is_sound = |values: &Vec<f64>| {
            values.len() == rounds && values.iter().all(|value| *value > 0.0 && value.is_finite())
        };
        let sound = metrics.iter().all(is_sound);
        sound.then(|| Self {
            metrics: metrics.iter().map(|values| blocks(values)).collect(),
            paces: None,
            goes_with_pace: vec![false; metrics.len()],
            blocks: rounds / 2,
        })
    }

    /// Has those metrics that go with it compared at equal pace, as in a report. `None` when there are
    /// not as many paces as rounds, or not as many answers as metrics, or a pace is not positive.
    #[must_use]
    pub fn with_pace(mut self, paces: &[f64], goes_with_pace: &[bool]) -> Option<Self> {
        let is_sound = paces.len() / 2 == self.blocks
            && goes_with_pace.len() == self.metrics.len()
            && paces.iter().all(|pace| *pace > 0.0 && pace.is_finite());
        (self.paces, self.goes_with_pace) = (Some(blocks(paces)), goes_with_pace.to_vec());
        is_sound.then_some(self)
    }

    /// Blocks of two.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Makes `experiments` of `blocks` blocks each, drawn without repetition, and judges them as a
    /// report does, with this `band`. `None` with fewer than two blocks or more than there are.
    #[must_use]
    pub fn false_verdicts(
        &self,
        blocks: usize,
        band: f64,
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
            let paces = self.paces.as_ref().map(|paces| drawn_from(paces, &drawn));
            let estimate = |(metric, goes): (&Blocks, &bool)| {
                let pairs = drawn_from(metric, &drawn);
                let plain = stats::estimate(&pairs)?;
                let paces = paces.as_ref().filter(|_| *goes);
                let adjusted = paces.and_then(|paces| {
                    let (logs, paces) = (stats::log_ratios(&pairs), stats::log_ratios(paces));
                    stats::adjusted(&plain, &logs, &paces)
                });
                Some(adjusted.unwrap_or(plain))
            };
            let mut estimates = self.metrics.iter().zip(&self.goes_with_pace).filter_map(estimate);
            let predicted = estimates.next()?;
            found.predicted += u32::from(!predicted.includes_no_difference());
            let evidence: Vec<Evidence> = estimates.map(Evidence::of).collect();
            let words = Finding::all(&evidence, band);
            let is_told =
                |(word, _): &(Finding, f64)| matches!(word, Finding::Higher | Finding::Lower);
            found.others += u32::from(words.iter().flatten().any(is_told));
        }
        Some(found)
    }
}

/// Two rounds that followed each other are a block.
fn blocks(values: &[f64]) -> Blocks {
    values.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// The blocks of an experiment, by their places and whether the second round is the reference.
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

    /// Every block has the ratio 2 or, swapped, 1/2. Of two blocks both have the same sign in half
    /// of all experiments, and then there is no spread: told apart. With different signs, never.
    #[test]
    fn two_blocks_of_one_ratio_are_told_apart_by_every_second_experiment() {
        let rounds = [1.0, 2.0].repeat(10);
        let recorded = Recorded::new(&[rounds.clone(), rounds]).unwrap();
        let found = recorded.false_verdicts(2, 0.05, 1000, 1).unwrap();
        assert!((430..=570).contains(&found.predicted), "{found:?}");
        // One other metric is not adjusted for, and has the same rounds and roles.
        assert_eq!(found.others, found.predicted);
    }

    #[test]
    fn what_never_differs_is_never_told_apart() {
        let recorded = Recorded::new(&[vec![3.0; 12], vec![7.0; 12]]).unwrap();
        let none = FalseVerdicts { predicted: 0, others: 0 };
        assert_eq!(recorded.false_verdicts(6, 0.05, 100, 1), Some(none));
    }

    #[test]
    fn rounds_that_cannot_be_compared_are_refused() {
        assert!(Recorded::new(&[]).is_none());
        assert!(Recorded::new(&[vec![1.0, 0.0]]).is_none());
        assert!(Recorded::new(&[vec![1.0, f64::NAN]]).is_none());
        assert!(Recorded::new(&[vec![1.0, 2.0], vec![1.0]]).is_none());
        let recorded = Recorded::new(&[vec![1.0; 5]]).unwrap();
        assert_eq!(recorded.blocks(), 2, "the fifth has no partner");
        assert_eq!(recorded.false_verdicts(3, 0.05, 1, 1), None);
        assert_eq!(recorded.false_verdicts(1, 0.05, 1, 1), None);
        let paces =
            |paces: &[f64], goes: &[bool]| recorded.clone().with_pace(paces, goes).is_some();
        assert!(paces(&[1.0; 5], &[true]) && !paces(&[1.0; 3], &[true]));
        assert!(!paces(&[0.0; 5], &[true]) && !paces(&[1.0; 5], &[]));
    }
}
