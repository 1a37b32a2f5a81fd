//! A circuit breaker for a server that fails.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Error;

/// Failures in a row that open the breaker of a server.
const PATIENCE: u32 = 3;
/// The same of a cluster: while one of three servers is unavailable, ten in a row have a chance of 1 in 59,000.
const CLUSTER_PATIENCE: u32 = 10;
/// The first pause; each further one doubles, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Closed: all calls pass. Open: one call passes after each pause.
#[derive(Debug)]
pub(super) struct Breaker {
    /// Name of the server in the log.
    name: &'static str,
    patience: u32,
    /// Whether `state` is open, readable without the lock.
    is_open: AtomicBool,
    state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
struct BreakerState {
    failures: u32,
    pauses: u32,
    /// When the next call may pass.
    until: Option<Instant>,
}

impl Breaker {
    pub(super) fn new(name: &'static str, servers: usize) -> Self {
        let patience = if servers > 1 { CLUSTER_PATIENCE } else { PATIENCE };
        Self { name, patience, is_open: AtomicBool::new(false), state: Mutex::default() }
    }

    pub(super) fn is_closed(&self) -> bool {
        !self.is_open.load(Relaxed)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, BreakerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call may pass. The one after a pause begins the next pause.
    pub(super) fn may_ask(&self) -> bool {
        if self.is_closed() {
            return true;
        }
        let mut state = self.state();
        let now = Instant::now();
        match state.until {
            Some(until) if now < until => false,
            _ => {
                state.until = Some(now + pause(state.pauses));
                true
            }
        }
    }

    pub(super) fn succeeded(&self) {
        if self.is_closed() && self.state.try_lock().is_ok_and(|state| state.failures == 0) {
            return;
        }
        *self.state() = BreakerState::default();
        if self.is_open.swap(false, Relaxed) {
            tracing::info!("{} answers again", self.name);
        }
    }

    pub(super) fn failed(&self, error: &Error) {
        let mut state = self.state();
        state.failures += 1;
        // An error that would repeat, such as a refused connection, opens it at once.
        if state.failures < self.patience && !error.is_certain() && self.is_closed() {
            return;
        }
        state.until = Some(Instant::now() + pause(state.pauses));
        state.pauses = state.pauses.saturating_add(1);
        if !self.is_open.swap(true, Relaxed) {
            tracing::warn!(%error, "{} fails, and is left alone for a while", self.name);
        }
    }
}

fn pause(pauses: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << pauses.min(10)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: Error = Error::Late(Duration::from_secs(1));

    #[test]
    fn three_failures_in_a_row_open_it_and_an_answer_closes_it() {
        let breaker = Breaker::new("the server", 1);
        for _ in 0..2 {
            breaker.failed(&LATE);
        }
        breaker.succeeded();
        for _ in 0..2 {
            breaker.failed(&LATE);
        }
        assert!(breaker.may_ask(), "two in a row");
        breaker.failed(&LATE);
        assert!(!breaker.is_closed() && !breaker.may_ask());
        breaker.succeeded();
        assert!(breaker.is_closed() && breaker.may_ask());
    }

    #[test]
    fn pauses_grow_to_a_bound_and_one_call_passes_after_each() {
        assert_eq!([pause(0), pause(1), pause(30)], [FIRST_PAUSE, 2 * FIRST_PAUSE, LONGEST_PAUSE]);
        let breaker = Breaker::new("the server", 1);
        breaker.failed(&Error::Refused("no".to_owned()));
        assert!(!breaker.may_ask(), "what is certain opens it at once");
        breaker.state().until = Some(Instant::now());
        assert!(breaker.may_ask() && !breaker.may_ask());
    }
}
