//! Limits of waits that can be cancelled.

use std::fmt;
use std::time::{Duration, Instant};

/// Longest time between two checks for cancellation.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// A time limit, and optionally a function called at least every 100 ms that cancels the wait, as
/// Ctrl-C should. A [`Duration`] converts into a limit alone.
#[derive(Clone, Copy)]
pub struct Patience<'q> {
    pub(crate) limit: Duration,
    give_up: Option<&'q dyn Fn() -> bool>,
}

impl<'q> Patience<'q> {
    /// Waits at most `limit`, and stops once `give_up` returns true.
    pub fn new(limit: Duration, give_up: &'q dyn Fn() -> bool) -> Self {
        Self { limit, give_up: Some(give_up) }
    }

    /// Lowers the limit to at most this one.
    #[must_use]
    pub fn at_most(self, limit: Duration) -> Self {
        Self { limit: self.limit.min(limit), ..self }
    }

    pub(crate) fn gives_up(&self) -> bool {
        self.give_up.is_some_and(|give_up| give_up())
    }

    /// The limit is capped, because the clock could not represent any.
    pub(crate) fn deadline(&self) -> Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
        Instant::now() + self.limit.min(YEAR)
    }
}

impl From<Duration> for Patience<'_> {
    fn from(limit: Duration) -> Self {
        Self { limit, give_up: None }
    }
}

impl fmt::Debug for Patience<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Patience").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Reason for a wait that ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The limit was reached.
    Time,
    /// The wait was cancelled.
    GivenUp,
}
