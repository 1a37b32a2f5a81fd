//! The option `rps`: requests per second over all virtual users.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Spaces requests as `golang.org/x/time/rate` with a burst of one, as in k6: idle time is not made up for.
#[derive(Debug)]
pub(crate) struct Limiter {
    spacing: Duration,
    next: Mutex<Option<Instant>>,
}

impl Limiter {
    /// A limit of `rate` requests per second, not zero.
    pub(crate) fn new(rate: u32) -> Self {
        Self { spacing: Duration::from_secs(1) / rate.max(1), next: Mutex::default() }
    }

    pub(crate) fn reserve(&self, now: Instant) -> Instant {
        let mut next = self.next.lock();
        let own = next.map_or(now, |next| next.max(now));
        *next = Some(own + self.spacing);
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spaced_and_pauses_are_not_made_up_for() {
        let limiter = Limiter::new(10);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(limiter.reserve(start), start);
        assert_eq!(limiter.reserve(start), at(100));
        assert_eq!(limiter.reserve(at(50)), at(200));
        assert_eq!(limiter.reserve(at(1000)), at(1000));
        assert_eq!(limiter.reserve(at(1000)), at(1100));
    }
}
