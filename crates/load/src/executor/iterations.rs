//! `per-vu-iterations` and `shared-iterations`: a number of iterations instead of a time. Their
//! virtual users are all active from the start; what they have left is their [`Budget`].

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::ExecutorConfig;

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
    /// The pool that the virtual users of a scenario share, if they do.
    pub(crate) fn pool(executor: &ExecutorConfig) -> Option<Arc<AtomicU64>> {
        match executor {
            ExecutorConfig::SharedIterations { iterations, .. } => {
                Some(Arc::new(AtomicU64::new(*iterations)))
            }
            _ => None,
        }
    }

    /// The budget of one virtual user.
    pub(crate) fn new(executor: &ExecutorConfig, pool: Option<&Arc<AtomicU64>>) -> Self {
        match (executor, pool) {
            (ExecutorConfig::PerVuIterations { iterations, .. }, _) => {
                Self::Own(Rc::new(Cell::new(*iterations)))
            }
            (_, Some(pool)) => Self::Shared(pool.clone()),
            _ => Self::Unlimited,
        }
    }

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
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_shared_budget_is_spent_once_by_everybody_together() {
        let executor = ExecutorConfig::SharedIterations {
            vus: 2,
            iterations: 5,
            max_duration: Duration::from_secs(1),
        };
        let pool = Budget::pool(&executor);
        let budgets =
            [Budget::new(&executor, pool.as_ref()), Budget::new(&executor, pool.as_ref())];
        let taken = (0..10).filter(|turn| budgets[turn % 2].take()).count();
        assert_eq!((taken, budgets[0].drain()), (5, 0));
    }

    #[test]
    fn an_own_budget_is_spent_by_its_owner() {
        let executor = ExecutorConfig::PerVuIterations {
            vus: 2,
            iterations: 3,
            max_duration: Duration::from_secs(1),
        };
        let budget = Budget::new(&executor, None);
        assert!(budget.take());
        assert_eq!(budget.drain(), 2);
        assert!(!budget.take());
    }
}
