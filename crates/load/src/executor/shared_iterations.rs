//! `shared-iterations`: a number of iterations that go to whoever is free.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::{Budget, Span, constant_vus};

/// All virtual users are active from the start until nothing is left, or to `max_duration`.
pub(super) fn plan(vus: u32, max_duration: Duration, graceful_stop: Duration) -> Vec<Vec<Span>> {
    constant_vus::plan(vus, max_duration, graceful_stop)
}

/// What all virtual users of a scenario, on all event loops, may start together.
pub(super) fn pool(iterations: u64) -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(iterations))
}

/// The budget of one of them.
pub(super) fn budget(pool: &Arc<AtomicU64>) -> Budget {
    Budget::Shared(pool.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_once_by_everybody_together() {
        let pool = pool(5);
        let budgets = [budget(&pool), budget(&pool)];
        let taken = (0..10).filter(|turn| budgets[turn % 2].take()).count();
        assert_eq!((taken, budgets[0].drain()), (5, 0));
    }

    #[test]
    fn time_is_limited_for_everybody_alike() {
        let second = Duration::from_secs;
        let span = Span { start: second(0), end: second(10), limit: second(40) };
        assert_eq!(plan(2, second(10), second(30)), [vec![span], vec![span]]);
    }
}
