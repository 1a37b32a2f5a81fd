//! How long to wait, and what ends a wait sooner.

use std::fmt;
use std::time::{Duration, Instant};

/// Longest time between two questions whether to give up.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// A limit, and optionally a question asked at least every 100 ms whether to stop waiting at once:
/// a person who pressed Ctrl-C does not want to see the limit. A [`Duration`] is a patience
/// without such a question.
#[derive(Clone, Copy)]
pub struct Patience<'q> {
    pub(crate) limit: Duration,
    give_up: Option<&'q dyn Fn() -> bool>,
}

impl<'q> Patience<'q> {
    /// Waits at most `limit`, and no longer once `give_up` says yes.
    pub fn new(limit: Duration, give_up: &'q dyn Fn() -> bool) -> Self {
        Self { limit, give_up: Some(give_up) }
    }

    /// With a limit that is not above this one.
    #[must_use]
    pub fn at_most(self, limit: Duration) -> Self {
        Self { limit: self.limit.min(limit), ..self }
    }

    pub(crate) fn gives_up(&self) -> bool {
        self.give_up.is_some_and(|give_up| give_up())
    }

    /// A limit beyond the clock is no limit a person could see the end of.
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

/// Why a wait ended without what was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The limit was reached.
    Time,
    /// Somebody gave up.
    GivenUp,
}
