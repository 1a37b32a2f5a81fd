//! `per-vu-iterations`: every virtual user runs the same number of iterations.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use super::{Budget, Span, constant_vus};

/// All virtual users are active from the start until they are done, or to `max_duration`.
pub(super) fn plan(vus: u32, max_duration: Duration, graceful_stop: Duration) -> Vec<Vec<Span>> {
    constant_vus::plan(vus, max_duration, graceful_stop)
}

/// What one virtual user may start.
pub(super) fn budget(iterations: u64) -> Budget {
    Budget::Own(Rc::new(Cell::new(iterations)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_by_its_owner() {
        let budget = budget(3);
        assert!(budget.take());
        assert_eq!(budget.drain(), 2);
        assert!(!budget.take());
    }

    #[test]
    fn time_is_limited_for_everybody_alike() {
        let second = Duration::from_secs;
        let span = Span { start: second(0), end: second(10), limit: second(40) };
        assert_eq!(plan(2, second(10), second(30)), [vec![span], vec![span]]);
    }
}
