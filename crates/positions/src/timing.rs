//! Time as a node measures it.

use crate::planted::{Mistake, planted};
use std::time::Duration;

/// A reading of a node's clock: time since its machine booted, that of suspensions included (`CLOCK_BOOTTIME`), in
/// nanoseconds. Readings of different nodes cannot be compared, and never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub u64);

/// How long acknowledgements wait, equal on all nodes, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    delay: Duration,
}

impl Timing {
    /// Acknowledgements wait for `delay` after their commit. With zero they do not wait and no clock is
    /// trusted: each request that is answered from memory waits for a poll of its own.
    pub const fn new(delay: Duration) -> Self {
        Self { delay }
    }

    /// Time between the return of a COMMIT, or the look at stored state that an answer of a write route
    /// reveals, and that answer.
    pub fn delay(&self) -> Duration {
        if planted(Mistake::NoDelay) { Duration::ZERO } else { self.delay }
    }

    /// How much older than a request the beginning of the poll may be that it is answered from: four fifths of
    /// the delay. Two clocks that gain and lose a ninth of the time measure both as equally long
    /// (5/4 = (1 + 1/9) / (1 − 1/9)).
    fn window(&self) -> Duration {
        if planted(Mistake::NoMargin) { self.delay } else { self.delay * 4 / 5 }
    }

    /// Whether a node whose latest complete poll began at `polled_from` may answer a request that arrived then from
    /// memory. Strictly: with a window of zero two equal readings do not say which came first.
    pub fn covers(&self, polled_from: Moment, arrival: Moment) -> bool {
        let window = u64::try_from(self.window().as_nanos()).unwrap_or(u64::MAX);
        polled_from.0.saturating_add(window) > arrival.0
    }
}
