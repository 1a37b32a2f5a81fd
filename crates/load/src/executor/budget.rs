//! What a virtual user may still start, where an executor gives a number of iterations and not only
//! a time.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many iterations a virtual user may still start.
#[derive(Debug, Clone)]
pub(crate) enum Budget {
    /// As many as time allows.
    Unlimited,
    /// Its own number.
    Own(Rc<Cell<u64>>),
    /// What all virtual users of the scenario, on all event loops, have left.
    Shared(Arc<AtomicU64>),
}

impl Budget {
    /// Takes one iteration; false when none is left.
    pub(crate) fn take(&self) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Own(left) => {
                let some = left.get() > 0;
                left.set(left.get().saturating_sub(1));
                some
            }
            Self::Shared(left) => left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok(),
        }
    }

    /// Whether the virtual user may be done before its time is over.
    pub(crate) fn is_limited(&self) -> bool {
        !matches!(self, Self::Unlimited)
    }

    /// Empties the budget and says what was left in it: iterations that were never started.
    pub(crate) fn drain(&self) -> u64 {
        match self {
            Self::Unlimited => 0,
            Self::Own(left) => left.take(),
            Self::Shared(left) => left.swap(0, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_by_its_owner() {
        let budget = Budget::Own(Rc::new(Cell::new(3)));
        assert!(budget.take());
        assert_eq!(budget.drain(), 2);
        assert!(!budget.take());
    }

    #[test]
    fn a_shared_budget_is_spent_once_by_everybody_together() {
        let pool = Arc::new(AtomicU64::new(5));
        let budgets = [Budget::Shared(pool.clone()), Budget::Shared(pool)];
        let taken = (0..10).filter(|turn| budgets[turn % 2].take()).count();
        assert_eq!((taken, budgets[0].drain()), (5, 0));
    }
}
