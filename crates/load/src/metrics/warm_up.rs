//! Sums of the warm-up. No figure includes them, but the server's data do: a comparison of a counter with them needs
//! all requests. Distributions of a cold server are not kept.

use super::MetricId;

/// Sums of a metric before the recording.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    /// Values other than zero.
    pub(crate) trues: u64,
    pub(crate) sum: f64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct WarmUp {
    /// By metric id; the last are missing without values.
    tallies: Vec<Tally>,
    /// Good requests.
    pub(crate) good: u64,
}

impl WarmUp {
    pub(crate) fn add(&mut self, metric: MetricId, value: f64) {
        let index = metric.0 as usize;
        if index >= self.tallies.len() {
            self.tallies.resize(index + 1, Tally::default());
        }
        let tally = &mut self.tallies[index];
        tally.count += 1;
        tally.trues += u64::from(value != 0.0);
        tally.sum += value;
    }

    pub(crate) fn tally(&self, metric: usize) -> Tally {
        self.tallies.get(metric).copied().unwrap_or_default()
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        let length = self.tallies.len().max(other.tallies.len());
        self.tallies.resize(length, Tally::default());
        for (mine, theirs) in self.tallies.iter_mut().zip(&other.tallies) {
            mine.count += theirs.count;
            mine.trues += theirs.trues;
            mine.sum += theirs.sum;
        }
        self.good += other.good;
    }
}
