//! What is counted of requests: over all of them, and for each name.

use super::Histogram;

/// What is known of the requests of one scenario and group with one `name` tag.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameStats {
    pub(crate) requests: u64,
    pub(crate) good: u64,
    pub(crate) failed: u64,
    pub(crate) duration: Histogram,
    /// In open models: from the intended start of the iteration, that is with the time by which it
    /// started late.
    pub(crate) response: Histogram,
}

impl NameStats {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.good += other.good;
        self.failed += other.failed;
        self.duration.merge(&other.duration);
        self.response.merge(&other.response);
    }
}

/// Sums over all requests of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) good: u64,
    pub(crate) failed: u64,
    /// Failed for want of a file descriptor or a port of this machine.
    pub(crate) exhausted: u64,
    /// Iterations that ended with an exception although none of their requests was bad.
    pub(crate) threw: u64,
}

impl Totals {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.good += other.good;
        self.failed += other.failed;
        self.exhausted += other.exhausted;
        self.threw += other.threw;
    }
}
