//! Number of iterations left to start, for executors that limit it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::ExecutorConfig;

/// Iterations left for one virtual user, or for all with a clone; `None` is unlimited.
#[derive(Debug, Clone)]
pub(crate) struct Budget(Option<Arc<AtomicU64>>);

impl Budget {
    pub(crate) fn new(executor: &ExecutorConfig) -> Self {
        match executor {
            ExecutorConfig::PerVuIterations { iterations, .. }
            | ExecutorConfig::SharedIterations { iterations, .. } => {
                Self(Some(Arc::new(AtomicU64::new(*iterations))))
            }
            _ => Self(None),
        }
    }

    /// Takes one iteration; false when none is left.
    pub(crate) fn take(&self) -> bool {
        self.0.as_ref().is_none_or(|left| {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok()
        })
    }

    /// True if the virtual user may finish before its time.
    pub(crate) fn is_limited(&self) -> bool {
        self.0.is_some()
    }

    /// Empties the budget and returns the number of iterations that were not started.
    pub(crate) fn drain(&self) -> u64 {
        self.0.as_ref().map_or(0, |left| left.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_DURATION: std::time::Duration = std::time::Duration::from_secs(1);

    #[test]
    fn a_budget_is_spent_by_its_owner() {
        let (vus, iterations, max_duration) = (2, 3, MAX_DURATION);
        let budget =
            Budget::new(&ExecutorConfig::PerVuIterations { vus, iterations, max_duration });
        assert!(budget.take());
        assert_eq!(budget.drain(), 2);
        assert!(!budget.take());
    }

    #[test]
    fn a_shared_budget_is_spent_once_by_everybody_together() {
        let (vus, iterations, max_duration) = (2, 5, MAX_DURATION);
        let budget =
            Budget::new(&ExecutorConfig::SharedIterations { vus, iterations, max_duration });
        let budgets = [budget.clone(), budget];
        let taken = (0..10).filter(|turn| budgets[turn % 2].take()).count();
        assert_eq!((taken, budgets[0].drain()), (5, 0));
    }
}
