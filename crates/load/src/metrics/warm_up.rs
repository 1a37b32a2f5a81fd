//! What a run did while it was warming up. No figure has it, but the server's data do: a comparison of a
//! counter with what a server kept needs all that was sent to it. Only sums are kept, as distributions of a
//! cold server say nothing.

use super::MetricId;

/// The values of one metric before the recording, as far as sums need them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Tally {
    /// How many there were.
    pub(crate) count: u64,
    /// Those that were not zero.
    pub(crate) trues: u64,
    /// Their sum.
    pub(crate) sum: f64,
}

/// Sums of one event loop or, merged, of all.
#[derive(Debug, Clone, Default)]
pub(crate) struct WarmUp {
    /// By metric id; the last ones are missing where nothing was added.
    tallies: Vec<Tally>,
    /// Requests that were good.
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

    /// That of a metric by its id.
    pub(crate) fn tally(&self, metric: usize) -> Tally {
        self.tallies.get(metric).copied().unwrap_or_default()
    }

    /// Adds those of another event loop.
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
