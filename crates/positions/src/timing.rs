//! The clock of a node, and the timing of the protocol.

use crate::planted::{Mistake, planted};
use std::time::Duration;

/// A reading of a node's clock: time since its machine booted, that of suspensions included (`CLOCK_BOOTTIME`), in
/// nanoseconds. Readings of different nodes cannot be compared, and never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// The delay of acknowledgements, equal on all nodes, and the window that follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    delay: Duration,
}

impl Timing {
    /// Acknowledgements wait for `delay` after their commit. With zero they do not wait and no clock is trusted: each
    /// request that is answered from memory waits for its own poll.
    pub const fn new(delay: Duration) -> Self {
        Self { delay }
    }

    /// Shortest time from the return of a COMMIT, or from the read of state that the response of a write route shows,
    /// to that response.
    pub fn delay(&self) -> Duration {
        if planted(Mistake::NoDelay) { Duration::ZERO } else { self.delay }
    }

    /// Largest age of a poll's begin when a request arrives that is answered from memory: four fifths of the delay. Two
    /// clocks that are a ninth fast and a ninth slow measure both as equal (5/4 = (1 + 1/9) / (1 − 1/9)).
    fn window(&self) -> Duration {
        if planted(Mistake::NoMargin) { self.delay } else { self.delay * 4 / 5 }
    }

    /// Whether a node whose latest complete poll began at `polled_from` may answer a request that arrived then from
    /// memory. The comparison is strict: with a window of zero, two equal readings do not show which came first.
    pub fn covers(&self, polled_from: Moment, arrival: Moment) -> bool {
        let window = u64::try_from(self.window().as_nanos()).unwrap_or(u64::MAX);
        polled_from.0.saturating_add(window) > arrival.0
    }
}
